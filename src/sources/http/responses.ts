/** Reads header values of responses, and maps statuses and transport errors to SourceFailure. */
import type { Dispatcher } from 'undici'
import { SourceFailure } from '../../ports/source-type.ts'
import { InvalidXml } from '../../xml.ts'

export type RawResponse = Dispatcher.ResponseData
/** Response without its body. */
type ResponseHead = Pick<RawResponse, 'statusCode' | 'headers'>

/** Returns the first value of a header. */
export function getHeader({ headers }: ResponseHead, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

/** Removes the weak mark of an etag: Apache sends it only in the first second of a file's life. */
export const normalizeEtag = (etag: string | undefined): string | null =>
  etag?.replace(/^W\//, '').replace(/^""$/, '').slice(0, 512) || null

/** Limits times to the years that PostgreSQL can store. */
export const isStorableTime = (time: number) => time > -62_135_596_800_000 && time < 253_402_300_800_000

/** Converts any error into a SourceFailure. The message contains nothing sent by the server. */
export function toSourceFailure(error: unknown): SourceFailure {
  if (error instanceof SourceFailure) return error
  if (error instanceof InvalidXml) return new SourceFailure('SOURCE_PROTOCOL', error.message)
  const [inner] = error instanceof AggregateError ? error.errors : [error]
  const { code = '', name = '', cause } = (inner ?? {}) as { code?: string; name?: string; cause?: unknown }
  if (cause instanceof SourceFailure) return cause
  const unreachable = (message: string) => new SourceFailure('SOURCE_UNREACHABLE', message)
  const unreachableNow = (message: string) => new SourceFailure('SOURCE_UNREACHABLE', message, { isRetryable: true })
  if (name === 'AbortError') return unreachable('The request was aborted.')
  if (code === 'ENOTFOUND') return unreachable('The name of the server is not known.')
  if (code === 'EAI_AGAIN') return unreachableNow('The name of the server cannot be looked up now.')
  if (/^UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT$|^ETIMEDOUT$/.test(code)) return unreachableNow('The source does not answer in time.')
  if (/^(CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_|ERR_SSL_|EPROTO|HOSTNAME_MISMATCH)/.test(code))
    return unreachable(`The server cannot be trusted: TLS failed with ${code}.`)
  if (name === 'HTTPParserError' || /^HPE_|^UND_ERR_(RES|REQ|HEADERS|INVALID|RESPONSE)/.test(code))
    return new SourceFailure('SOURCE_PROTOCOL', 'The source sent an invalid HTTP response.')
  return unreachableNow('The connection to the source failed.')
}

/** A response that is not 2xx. */
export class ResponseFailure extends SourceFailure {
  /** from Retry-After; null without one */
  readonly retryAfterMs: number | null

  constructor(code: SourceFailure['code'], message?: string, { isRetryable = false, retryAfterMs = null as number | null } = {}) {
    super(code, message, { isRetryable })
    this.retryAfterMs = retryAfterMs
  }
}

/** Returns whether the source needs a pause: it is too slow, or asked for one. More requests would not help. */
export const needsPause = (problem: { code: string }): boolean =>
  problem.code === 'SOURCE_TOO_SLOW' || (problem instanceof ResponseFailure && problem.retryAfterMs !== null)

/** Returns the failure for a status. */
export function toResponseFailure(raw: ResponseHead): ResponseFailure {
  const status = raw.statusCode
  if (status === 401) return new ResponseFailure('SOURCE_UNAUTHORIZED')
  if (status === 403) return new ResponseFailure('SOURCE_FORBIDDEN')
  if (status === 404 || status === 410) return new ResponseFailure('SOURCE_NOT_FOUND_THERE')
  if (status === 423) return new ResponseFailure('SOURCE_BUSY', 'The source has locked it.')
  if (status === 429 || status === 503)
    return new ResponseFailure('SOURCE_BUSY', undefined, { isRetryable: true, retryAfterMs: parseRetryAfter(raw) })
  // 502 and 504 mean an unreachable server behind a proxy; other errors may concern one file only.
  if (status === 502 || status === 504) return new ResponseFailure('SOURCE_UNREACHABLE', undefined, { isRetryable: true })
  return new ResponseFailure('SOURCE_PROTOCOL', `The source answers with status ${status}.`)
}

/** Returns Retry-After in milliseconds: from seconds, or from a date relative to the server's clock. */
export function parseRetryAfter(raw: ResponseHead): number | null {
  const value = getHeader(raw, 'retry-after') ?? ''
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const wait = Date.parse(value) - Date.parse(getHeader(raw, 'date') ?? '')
  return Number.isNaN(wait) ? null : Math.max(0, wait)
}
