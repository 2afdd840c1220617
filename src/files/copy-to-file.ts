/** Copies received bytes to a file, hashed and flushed on the way. */
import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { AppError } from '../errors.ts'

const headBytes = 4100
const writeBytes = 1 << 20
const maxChunks = 512
/** Time after which collected chunks are written: senders that hardly send would fill the memory. */
const maxCollectMs = 1000
/** Bytes between two flushes, which let the disk work while the network does, and between two checks of the space left. */
const flushIntervalBytes = 32 << 20

/** Copies `source` to the file. Reads and hashes the next chunks while a write is in progress. */
export async function copyToFile(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  handle: FileHandle,
  options: { maxSize: number; fsync: boolean; requireSpace(): Promise<void>; countBytes(bytes: number): void },
) {
  const hash = createHash('sha256')
  const head: Uint8Array[] = []
  let size = 0
  let written = 0
  let checked = 0
  let pending: Uint8Array[] = []
  let pendingBytes = 0
  let writing: Promise<unknown> = Promise.resolve()
  let flushing: Promise<unknown> = Promise.resolve()

  /** Starts to write what is pending, and waits for the writes before it. */
  const write = async () => {
    const [chunks, before] = [pending, writing]
    pending = []
    pendingBytes = 0
    if (chunks.length > 0) writing = before.then(() => handle.writev(chunks)).then(({ bytesWritten }) => (written += bytesWritten))
    // Awaited by the next write or at the end. Until then the rejection must not count as unhandled.
    writing.catch(() => {})
    await before
  }
  const timer = setInterval(() => void write().catch(() => {}), maxCollectMs).unref()
  try {
    for await (const chunk of source) {
      if (size < headBytes) head.push(chunk.slice(0, headBytes - size))
      size += chunk.length
      if (size > options.maxSize) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: options.maxSize })
      hash.update(chunk)
      pending.push(chunk)
      pendingBytes += chunk.length
      options.countBytes(chunk.length)
      if (pendingBytes >= writeBytes || pending.length >= maxChunks) await write()
      if (size - checked < flushIntervalBytes) continue
      checked = size
      await options.requireSpace()
      if (options.fsync) {
        await flushing
        flushing = handle.datasync()
        flushing.catch(() => {})
      }
    }
    await write()
  } finally {
    clearInterval(timer)
    await Promise.allSettled([writing, flushing])
  }
  await Promise.all([writing, flushing])
  return { sha256: hash.digest('hex'), size, written, head: Buffer.concat(head) }
}
