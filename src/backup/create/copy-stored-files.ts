/** Copies stored files into a backup. Records a damaged file and continues with the others. */

import { mapConcurrently } from '../../concurrency.ts'
import { AppError } from '../../errors.ts'
import { openCollector } from '../../files/free-buffers.ts'
import { FileMissing, type FileStore } from '../../ports/file-store.ts'
import { type Bytes, tapSizes, teeHash } from '../byte-streams.ts'
import { filePath, type Head } from '../manifest.ts'
import type { BackupSink } from './tar-sink.ts'

export interface FileDamage {
  problem: 'missing' | 'corrupt'
  /** SHA-256 of the bytes in the backup; '' for a file that is not in it */
  actualSha256: string
  /** this process may not read the stored file, which is therefore missing in the backup only */
  isUnreadable?: boolean
}

export interface CopyOptions {
  signal: AbortSignal
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
}

export interface CopyResult {
  /** files without an intact copy in the backup, by SHA-256 */
  damaged: Map<string, FileDamage>
  /** SHA-256 of files lost in the store, with an intact copy from an earlier run in the backup */
  lostInStore: string[]
}

/**
 * Copies every stored file that the sink does not hold intact. Hashes copies from earlier runs each time, because an equal size proves nothing.
 * Never replaces or removes an intact copy, even if the store has lost the file.
 */
export async function copyStoredFiles(
  files: FileStore,
  sink: BackupSink,
  head: Head,
  stored: AsyncIterable<[sha256: string, size: number, address: string]>,
  options: CopyOptions,
): Promise<CopyResult> {
  const damaged = new Map<string, FileDamage>()
  const lostInStore: string[] = []
  const collect = openCollector()
  let done = 0
  let bytes = 0
  const copy = async (sha256: string, size: number, address: string) => {
    // Without an explicit end, a stream allocates 256 kB even for a small file.
    const source = await files.read(address, size > 0 ? { start: 0, end: size - 1 } : undefined)
    const tee = teeHash(tapSizes(padToSize(source as Bytes, size), collect))
    await sink.put(filePath(sha256), size, tee.bytes)
    if (tee.digest() !== sha256) damaged.set(sha256, { problem: 'corrupt', actualSha256: tee.digest() })
  }
  const copyOne = async (sha256: string, expected: number, address: string) => {
    const size = await files.size(address).catch((error) => (isUnreadable(error) ? undefined : Promise.reject(error)))
    if (await sink.hasIntact(filePath(sha256), sha256, expected)) {
      if (size !== expected) lostInStore.push(sha256)
    } else if (size == null) damaged.set(sha256, { problem: 'missing', actualSha256: '', isUnreadable: size === undefined })
    else await copy(sha256, size, address)
    bytes += size ?? 0
    options.onProgress({ done: ++done, total: head.files, bytes, totalBytes: head.bytes })
  }
  const copyIfExists = ([sha256, size, address]: readonly [string, number, string]) =>
    copyOne(sha256, size, address).catch((error) => {
      if (!(error instanceof FileMissing) && !isUnreadable(error)) throw error
      damaged.set(sha256, { problem: 'missing', actualSha256: '', isUnreadable: isUnreadable(error) })
    })
  await mapConcurrently(stored, sink.concurrency, copyIfExists, options.signal)
  return { damaged, lostInStore }
}

/** Returns whether this process may not read the stored file. Errors of the target have no cause. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof AppError && ['EACCES', 'EPERM'].includes(String((error.cause as NodeJS.ErrnoException | undefined)?.code))

/** Error codes of an unreadable sector. Any other error, such as a lost mount, aborts the backup. */
const unreadableCodes = new Set(['EIO', 'EUCLEAN', 'EBADMSG', 'ENODATA'])

/** Yields exactly `size` bytes. Fills up with zeros after an early end or an unreadable sector; the hash then reveals the damage. */
export async function* padToSize(source: Bytes, size: number): AsyncGenerator<Uint8Array> {
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
