import { randomUUID } from 'node:crypto'
import type { H3Event } from 'h3'

/** The id that a request is known by in its answer and in the log: the client's own where it is harmless, else a new one. */
export function requestId(event: H3Event): string {
  const given = event.req.headers.get('x-request-id')
  event.context.requestId ??= given && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : randomUUID()
  return event.context.requestId
}
