import { randomUUID } from 'node:crypto'
import type { H3Event } from 'h3'

/** The id that a request is known by in its answer and in the log: the client's own where it is harmless, else a new one. */
export function requestId(event: H3Event): string {
  event.context.requestId ??= given(event) ?? randomUUID()
  return event.context.requestId
}

function given(event: H3Event): string | null {
  const id = event.req.headers.get('x-request-id')
  return id !== null && /^[A-Za-z0-9._-]{1,128}$/.test(id) ? id : null
}
