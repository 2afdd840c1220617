/** Checks WebSocket handshakes and answers refused ones. */
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Config } from '../../config/schema.ts'
import { AppError, invalid } from '../../errors.ts'
import { findAmbiguity } from '../../http/ambiguous-request.ts'

/** Maximum number of sockets of one address without login. */
const maxAnonymous = 100
/** Retry time: sockets without login are closed by then. */
const retryAfterSeconds = 10

/** Returns the reason to refuse a handshake, or null. `anonymousCount` is the number of sockets of its address without login. */
export function checkUpgrade(request: IncomingMessage, server: Config['server'], anonymousCount: number): AppError | null {
  const malformed = findAmbiguity(request) ?? handshakeError(request)
  if (malformed) return malformed
  if (!isOwnOrigin(request, server))
    return new AppError('FORBIDDEN', {}, 'This origin may not connect. Fix: add it to server.cors_origins.')
  if (anonymousCount >= maxAnonymous) return new AppError('RATE_LIMITED', { retry_after_secs: retryAfterSeconds })
  return null
}

/** Returns the error of a handshake (RFC 6455, 4.2.1 and 4.4), or null. The library would answer in HTML. */
function handshakeError({ method, headers }: IncomingMessage): AppError | null {
  if (method !== 'GET') return new AppError('METHOD_NOT_ALLOWED', { allow: 'GET' })
  if (headers.upgrade?.toLowerCase() !== 'websocket') return new AppError('UPGRADE_REQUIRED')
  if (headers['sec-websocket-version'] !== '13')
    return new AppError('UPGRADE_REQUIRED', { sec_websocket_version: 13 }, 'Sec-WebSocket-Version must be 13.')
  if (!/^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '')) return invalid('Sec-WebSocket-Key', 'must be 16 bytes in base64')
  return null
}

/** Tells if a browser connects from the public URL or from server.cors_origins. Other clients send no Origin. */
function isOwnOrigin({ headers }: IncomingMessage, { cors_origins, public_url }: Config['server']): boolean {
  const { origin, host } = headers
  if (origin === undefined) return true
  return [`http://${host}`, `https://${host}`, new URL(public_url).origin, ...cors_origins].includes(origin)
}

/** Refuses a handshake with the common error body. */
export function rejectUpgrade(connection: Duplex, { status, code, message, details }: AppError, now: Date): void {
  const id = randomUUID()
  const wait = details.retry_after_secs
  const error = { code, message, details, timestamp: now.toISOString(), request_id: id }
  const body = JSON.stringify({ error, retry_after_secs: wait })
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${id}`,
    'connection: close',
    ...(wait === undefined ? [] : [`retry-after: ${wait}`]),
    ...(status === 405 ? [`allow: ${details.allow}`] : []),
    // RFC 9110, 15.5.22, and RFC 6455, 4.4.
    ...(status === 426 ? ['upgrade: websocket', 'sec-websocket-version: 13'] : []),
  ]
  connection.end(`${lines.join('\r\n')}\r\n\r\n${body}`)
}
