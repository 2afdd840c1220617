/**
 * Bodies that nobody reads yet, in many small chunks. A stream keeps one Buffer for each chunk, which occupies about 200 bytes besides its content: 64 kB
 * in chunks of one byte would occupy 14 MB while the request waits for the database.
 */
import type { IncomingMessage } from 'node:http'

/** Size from which a chunk stays as it is. */
const largeBytes = 1024
/** Maximum size of a joined chunk. */
const joinedBytes = 16 << 10

/** Joins small chunks of the body until a reader asks for data. Call it before the first chunk arrives. */
export function joinSmallChunks(request: IncomingMessage): void {
  const push = request.push.bind(request)
  const read = request._read.bind(request)
  let waiting = Buffer.alloc(0)
  let size = 0
  let isWanted = false

  const flush = (): boolean => {
    if (size === 0) return true
    const joined = waiting.subarray(0, size)
    waiting = Buffer.alloc(0)
    size = 0
    isWanted = false
    return request.destroyed ? false : push(joined)
  }
  const append = (chunk: Uint8Array): void => {
    const needed = size + chunk.length
    if (needed > waiting.length) waiting = Buffer.concat([waiting], Math.max(needed, 2 * waiting.length))
    waiting.set(chunk, size)
    size = needed
  }
  request.push = (chunk: Uint8Array | null): boolean => {
    if (chunk === null || chunk.length >= largeBytes) {
      flush()
      return push(chunk)
    }
    append(chunk)
    if (size >= joinedBytes) return flush()
    // The next chunks of the same packet arrive before the next tick.
    if (isWanted) process.nextTick(flush)
    return request.readableLength + size < request.readableHighWaterMark
  }
  request._read = (bytes) => {
    isWanted = true
    flush()
    read(bytes)
  }
}
