/** Identification of requests in logs and answers. */
import { randomUUID } from 'node:crypto'
import type { H3Event } from 'h3'

/** Returns the id of a request: a well-formed `X-Request-Id` of the client, or a new one. */
export function requestId(event: H3Event): string {
  if (event.context.requestId) return event.context.requestId
  const header = event.req.headers.get('x-request-id')
  const id = header !== null && /^[A-Za-z0-9._-]{1,128}$/.test(header) ? header : randomUUID()
  event.context.requestId = id
  return id
}

/** Returns the path of a request for logs. The token of a shared link is removed, because it opens the document. The path may be mistyped. */
export const redactPath = ({ url }: H3Event): string => url.pathname.replace(/(public(?:\/|%2f)+shared(?:\/|%2f)+)[^/]+/i, '$1…')
