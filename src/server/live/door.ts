/** Whose connection is opened as a WebSocket, and the answer to the others. */
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Config } from '../../config.ts'
import { AppError } from '../../errors.ts'

/** sockets of one address that have not signed in yet */
const maxStrangers = 100
/** Seconds after which it is worth another try: about when those that do not sign in are gone. */
const retryAfter = 10

/** Why a connection is not opened, where its address has so many `strangers` already; null: it is. */
export function objection(request: IncomingMessage, server: Config['server'], strangers: number): AppError | null {
  if (!isOwnOrigin(request, server)) return new AppError('FORBIDDEN', {}, 'Pages of this origin may not connect.')
  if (strangers >= maxStrangers) return new AppError('RATE_LIMITED', { retry_after_secs: retryAfter })
  return null
}

/** Browsers say which page asks: one of ours, or one that may use the API. Other clients say nothing. */
function isOwnOrigin({ headers }: IncomingMessage, { cors_origins, public_url }: Config['server']): boolean {
  const { origin, host } = headers
  if (origin === undefined) return true
  return [`http://${host}`, `https://${host}`, new URL(public_url).origin, ...cors_origins].includes(origin)
}

/** Answers instead of opening, in the shape of all errors. */
export function refuse(connection: Duplex, { status, code, message, details }: AppError, now: Date): void {
  const id = randomUUID()
  const wait = details.retry_after_secs
  const error = { code, message, details, timestamp: now.toISOString(), request_id: id }
  const body = JSON.stringify({ error, ...(wait === undefined ? {} : { retry_after_secs: wait }) })
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${id}`,
    'connection: close',
    ...(wait === undefined ? [] : [`retry-after: ${wait}`]),
  ]
  connection.end(`${lines.join('\r\n')}\r\n\r\n${body}`)
}
