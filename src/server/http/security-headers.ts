/** Headers that every answer carries. */
import type { H3Event } from 'h3'
import type { Config } from '../../config/schema.ts'

/** Makes the function that tells what the [security] settings say for an answer; names in lower case. The same few objects for all requests. */
export function securityHeaders({ security }: Config): (event: H3Event) => Readonly<Record<string, string>> {
  const given = {
    'content-security-policy': security.csp,
    'x-frame-options': security.x_frame_options,
    'x-content-type-options': security.x_content_type_options,
    'referrer-policy': security.referrer_policy,
  }
  const hsts = `max-age=${security.hsts_seconds}${security.hsts_include_subdomains ? '; includeSubDomains' : ''}`
  const headers = (isApi: boolean, isSecure: boolean): Readonly<Record<string, string>> =>
    security.headers_enabled
      ? {
          ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== '')),
          ...(isApi ? { 'cache-control': 'no-store' } : {}),
          ...(isSecure && security.hsts_seconds > 0 ? { 'strict-transport-security': hsts } : {}),
        }
      : {}
  const [page, securePage, api, secureApi] = [headers(false, false), headers(false, true), headers(true, false), headers(true, true)]
  return ({ url }) => {
    const isSecure = url.protocol === 'https:'
    if (url.pathname.startsWith('/api/')) return isSecure ? secureApi : api
    return isSecure ? securePage : page
  }
}
