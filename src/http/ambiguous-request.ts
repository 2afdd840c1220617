/** Requests that node:http accepts although a proxy may read them differently. It refuses all other ambiguous ones, such as two lengths, itself. */
import type { IncomingMessage } from 'node:http'
import { type AppError, invalid } from '../errors.ts'

/**
 * Returns VALIDATION_ERROR for a request line without a version (HTTP/0.9), for no Host header, more than one, or one that names no host (RFC 9112, 3.2),
 * and for a transfer coding that is not `chunked` or in HTTP/1.0 (RFC 9112, 6.1). Returns null for all other requests.
 */
export function findAmbiguity({ rawHeaders, headers, httpVersion }: IncomingMessage): AppError | null {
  if (httpVersion === '0.9') return invalid('', 'the request line must end with HTTP/1.1')
  // Node keeps the first of several headers; only the raw list has all.
  const hostCount = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length
  if (hostCount === 0 && httpVersion === '1.1') return invalid('Host', 'required in HTTP/1.1')
  if (hostCount > 1 || /[\s,/?#@\\]/.test(headers.host ?? '')) return invalid('Host', 'must be one host, with an optional port')
  const coding = headers['transfer-encoding']
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || httpVersion === '1.0'))
    return invalid('Transfer-Encoding', 'must be chunked, in HTTP/1.1')
  return null
}
