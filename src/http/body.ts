/** The body of a request, as it comes. */
import type { Readable } from 'node:stream'
import type { H3Event } from 'h3'
import { AppError } from '../errors.ts'

/**
 * The chunks of the body. Whoever stops in the middle leaves the connection whole, so that the answer still reaches a client that is busy
 * sending. Throws UNSUPPORTED_MEDIA_TYPE for a compressed body, which may be any size inside.
 */
export function readChunks(event: H3Event): AsyncIterable<Uint8Array> {
  const encoding = event.req.headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity')
    throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'identity' }, 'Compressed bodies are not taken.')
  // The socket's own stream where there is one: it spares a copy through web streams.
  const request = event.runtime?.node?.req as Readable | undefined
  if (request) return { [Symbol.asyncIterator]: () => request.iterator({ destroyOnReturn: false }) }
  return (event.req.body ?? []) as AsyncIterable<Uint8Array>
}

/** Throws PAYLOAD_TOO_LARGE where the client itself says that it will send more than `maxSize` bytes. */
export function rejectLargerThan(event: H3Event, maxSize: number, reportedBytes = maxSize): void {
  if (Number(event.req.headers.get('content-length') ?? 0) > maxSize) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: reportedBytes })
}
