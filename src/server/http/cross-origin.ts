/** Headers that let pages of other origins use the API (CORS). */
import type { H3Event } from 'h3'

const allowedHeaders = 'authorization, content-type, idempotency-key, if-match, if-none-match, if-range, range, x-request-id'
const exposedHeaders = 'accept-ranges, content-disposition, content-range, deprecation, etag, repr-digest, retry-after, x-request-id'

/** Allows the page to read the answer if its origin is configured. `allow` has the methods of the path for a preflight. */
export function allowOrigin(headers: Headers, event: H3Event, origins: readonly string[], allow?: string): void {
  if (origins.length === 0) return
  if (!/\borigin\b/i.test(headers.get('vary') ?? '')) headers.append('vary', 'origin')
  const origin = event.req.headers.get('origin')
  if (origin === null || !origins.includes(origin)) return
  headers.set('access-control-allow-origin', origin)
  headers.set('access-control-expose-headers', exposedHeaders)
  if (allow === undefined) return
  headers.set('access-control-allow-methods', allow)
  headers.set('access-control-allow-headers', allowedHeaders)
  headers.set('access-control-max-age', '600')
}
