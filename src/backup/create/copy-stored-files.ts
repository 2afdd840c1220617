/** Copies stored files into a backup. Damage of one file is recorded and does not keep the others from being saved. */
import { openCollector, openFileCollector } from '../../files/free-buffers.ts'
import { FileMissing, type FileStore } from '../../ports/file-store.ts'
import { type Bytes, counted, hashed } from '../bytes.ts'
import { filePath, type Head } from '../manifest.ts'
import { inLanes } from '../map-concurrently.ts'
import type { Sink } from './sink.ts'

export interface Damage {
  problem: 'missing' | 'corrupt'
  /** hash of the bytes that are in the backup; '' where there are none */
  actual: string
}

export interface CopyOptions {
  signal: AbortSignal
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
}

export interface Copied {
  /** by SHA-256: files of which the backup has no intact copy */
  damaged: Map<string, Damage>
  /** SHA-256 of files that the store has lost while the backup has an intact copy from an earlier run */
  lostInStore: string[]
}

/**
 * Puts every stored file of which the sink does not hold an intact copy. A copy from an earlier run is read and hashed, every time: a size
 * proves nothing. An intact copy is never replaced, and never removed because the store has lost the file.
 */
export async function copyStoredFiles(
  files: FileStore,
  sink: Sink,
  head: Head,
  stored: AsyncIterable<[sha256: string, size: number, address: string]>,
  options: CopyOptions,
): Promise<Copied> {
  const damaged = new Map<string, Damage>()
  const lostInStore: string[] = []
  const passed = openCollector()
  const wasRead = openFileCollector()
  let done = 0
  let bytes = 0
  const copy = async (sha256: string, size: number, address: string) => {
    // With an explicit end: a stream without one takes a quarter of a megabyte for every small file, twice.
    const source = await files.read(address, size > 0 ? { start: 0, end: size - 1 } : undefined)
    const passing = hashed(counted(exactly(source as Bytes, size), passed))
    await sink.put(filePath(sha256), size, passing.bytes)
    wasRead()
    if (passing.digest() !== sha256) damaged.set(sha256, { problem: 'corrupt', actual: passing.digest() })
  }
  const one = async (sha256: string, expected: number, address: string) => {
    const size = await files.size(address)
    if (await sink.holds(filePath(sha256), sha256, expected)) {
      if (size !== expected) lostInStore.push(sha256)
    } else if (size === null) damaged.set(sha256, { problem: 'missing', actual: '' })
    else await copy(sha256, size, address)
    bytes += size ?? 0
    options.onProgress({ done: ++done, total: head.files, bytes, totalBytes: head.bytes })
  }
  await inLanes(sink.concurrency, options.signal, stored, ([sha256, size, address]) =>
    one(sha256, size, address).catch((error) => {
      if (!(error instanceof FileMissing)) throw error
      damaged.set(sha256, { problem: 'missing', actual: '' })
    }),
  )
  return { damaged, lostInStore }
}

/** Codes with which a disk says that it cannot read a sector. Anything else, such as a lost mount, ends the backup. */
const unreadableCodes = new Set(['EIO', 'EUCLEAN', 'EBADMSG', 'ENODATA'])

/** Yields exactly `size` bytes: where the source ends early or a sector cannot be read, zeros follow, so that the hash tells of the damage. */
export async function* exactly(source: Bytes, size: number): AsyncGenerator<Uint8Array> {
  let left = size
  try {
    for await (const chunk of source) {
      const part = chunk.subarray(0, left)
      left -= part.length
      yield part
    }
  } catch (error) {
    if (!unreadableCodes.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
  for (const zeros = Buffer.alloc(1 << 16); left > 0; left -= zeros.length) yield zeros.subarray(0, left)
}
