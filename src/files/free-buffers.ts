/** Frees the memory of chunks that have passed, long before the engine would. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Bytes between two collections. With half of it, chunks in flight live through two and count as old; with twice as much V8 has often begun to
 * mark, which it does again and again once it has.
 */
const every = 8 << 20

/** Files between two collections of the whole heap: some 10 MB. */
const files = 4096

type Collect = (options: { type: 'minor' | 'major' }) => void

/**
 * Tell it of every chunk that comes in. A chunk is a small object that holds much memory outside of the heap: V8 lets tens of megabytes of them
 * gather and then marks the whole heap, a dozen times in 500 MB, which was half of an upload's work. They all die young, and the collection of
 * young objects alone takes half a millisecond.
 */
export function openCollector(): (bytes: number) => void {
  const collect = collector()
  let since = 0
  return (bytes) => {
    since += bytes
    if (since < every) return
    since = 0
    collect({ type: 'minor' })
  }
}

/**
 * Tell it of every file that was read as a stream. What Node keeps of one for the operating system counts as alive until the whole heap is
 * marked, so it grows old; V8 waits with that until a hundred megabytes have come together. Sooner, it takes 20 milliseconds.
 */
export function openFileCollector(every = files): () => void {
  const collect = collector()
  let since = 0
  return () => {
    if (++since < every) return
    since = 0
    collect({ type: 'major' })
  }
}

/** V8 shows its collector only where a flag was set before a context is made. */
function collector(): Collect {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('typeof gc === "function" ? gc : null') as Collect | null
  setFlagsFromString('--no-expose-gc')
  return collect ?? (() => {})
}
