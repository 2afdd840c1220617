/** Which requests are repeated, and when. */

/** Total waiting time of one request. */
export const maxWaitSeconds = 300
/** Delays before retries after connection errors. */
export const retryDelaysSeconds = [0.25, 0.5, 1, 2]

/** A request with one of these methods may be sent twice: the second one changes nothing. */
export const idempotentMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'PUT', 'DELETE'])
/** The connection was not established, so the server has done nothing. */
const connectErrors = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/
/** The connection broke; the server may have executed the request. */
const connectionErrors = /^(ECONNRESET|EPIPE|ETIMEDOUT|UND_ERR_SOCKET)$/

const codeOf = (error: unknown): string => {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  return String(code ?? cause?.code)
}

/** Returns whether the server may have executed a request that failed. */
export const isBroken = (error: unknown): boolean => connectionErrors.test(codeOf(error))

/** Returns whether a failed request can be repeated. */
export const isRetryable = (error: unknown, isIdempotent: boolean): boolean =>
  connectErrors.test(codeOf(error)) || (isIdempotent && isBroken(error))

/** Returns the seconds to wait after a 429 or 503, null for other responses. */
export function secondsToWait({ status, headers }: Response): number | null {
  if (status !== 429 && status !== 503) return null
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  return Number.isFinite(seconds) ? Math.max(1, seconds) : 5
}
