/**
 * Early garbage collection of buffers and file streams. They are small objects that hold much memory outside of the heap, and V8 frees them
 * late. Node has no public API for this; it stays because uploads took twice the processor time without it.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Bytes between two minor collections. With 4 MiB, chunks in flight survive two collections and become old. With 16 MiB, V8 often starts to
 * mark the whole heap first.
 */
const intervalBytes = 8 << 20

/** Files between two collections of the whole heap: some 10 MB. */
const intervalFiles = 4096

type Collect = (options: { type: 'minor' | 'major' }) => void

/**
 * Returns a function to call with the size of each received chunk. Without it V8 marks the whole heap a dozen times in an upload of 500 MB,
 * half of the processor time of the upload. Chunks die young, and a minor collection takes half a millisecond.
 */
export function openCollector(): (bytes: number) => void {
  const collect = exposeCollector()
  let count = 0
  return (bytes) => {
    count += bytes
    if (count < intervalBytes) return
    count = 0
    collect({ type: 'minor' })
  }
}

/**
 * Returns a function to call after each file that was read as a stream. Node's native objects of a stream become old and V8 frees them only
 * after a hundred megabytes. A collection of the whole heap takes 20 ms.
 */
export function openFileCollector(interval = intervalFiles): () => void {
  const collect = exposeCollector()
  let count = 0
  return () => {
    if (++count < interval) return
    count = 0
    collect({ type: 'major' })
  }
}

/** Returns V8's collector, which is visible only in contexts created while --expose-gc is set. */
function exposeCollector(): Collect {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('typeof gc === "function" ? gc : null') as Collect | null
  setFlagsFromString('--no-expose-gc')
  return collect ?? (() => {})
}
