/** Headers that every answer carries. */
import type { H3Event } from 'h3'
import type { Config } from '../config.ts'

/** Sets what the [security] settings say; a route that said something stricter keeps it. */
export function secure(headers: Headers, event: H3Event, { security }: Config): void {
  if (!security.headers_enabled) return
  const set = (name: string, value: string) => {
    if (value !== '' && !headers.has(name)) headers.set(name, value)
  }
  set('content-security-policy', security.csp)
  set('x-frame-options', security.x_frame_options)
  set('x-content-type-options', security.x_content_type_options)
  set('referrer-policy', security.referrer_policy)
  if (event.url.pathname.startsWith('/api/')) set('cache-control', 'no-store')
  if (event.url.protocol === 'https:' && security.hsts_seconds > 0) {
    set('strict-transport-security', `max-age=${security.hsts_seconds}${security.hsts_include_subdomains ? '; includeSubDomains' : ''}`)
  }
}
