/** Converts exceptions to HTTP answers. */
import type { H3Event, HTTPError } from 'h3'
import { isForeignKeyViolation, isUnavailable, retentionDetail } from '../../db/pool.ts'
import { AppError, type Code, unreadableFile } from '../../errors.ts'
import type { Log } from '../../log/log.ts'
import { FileMissing } from '../../ports/file-store.ts'
import { errorPageFor } from '../../shared-links/public-routes.ts'
import { redactPath, requestId } from './request-log.ts'

/** Codes for refusals of h3. Its only 400 is a path that cannot be decoded. */
const codeOfStatus: Readonly<Record<number, Code>> = {
  400: 'NOT_FOUND',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  413: 'PAYLOAD_TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
}

/** Returns the error answer for an exception. Unexpected exceptions are logged in full, and answered without details. */
export function errorAnswer(error: HTTPError, event: H3Event, log: Log, now: Date): Response {
  const failure = toAppError(error)
  const id = requestId(event)
  // A command reports an unavailable service itself, and details with -v.
  const isReported = event.context.isLocal && failure.status === 503
  // A flood of refused sign-ins must not fill the log. dms_http_requests_total counts them.
  const level = 'overload' in failure.details ? 'debug' : isReported ? 'info' : 'error'
  if (failure.status >= 500)
    log[level]({ err: error.cause ?? error, request_id: id, method: event.req.method, path: redactPath(event) }, 'request failed')
  const { code, message, details, status } = failure
  event.context.failure = code
  const body = { error: { code, message, details, timestamp: now.toISOString(), request_id: id } }
  const wait = details.retry_after_secs
  const headers = { ...headersOf(failure), ...(typeof wait === 'number' ? { 'retry-after': String(wait) } : {}) }
  const page = (event.context.explain ?? errorPageFor(event))?.(failure)
  if (!page) return Response.json(typeof wait === 'number' ? { ...body, retry_after_secs: wait } : body, { status, headers })
  for (const [name, value] of Object.entries(headers)) page.headers.set(name, value)
  return page
}

function toAppError(error: HTTPError): AppError {
  const cause = error.cause ?? error
  if (cause instanceof AppError) return cause
  if (cause instanceof FileMissing) return unreadableFile(cause)
  const retention = retentionDetail(cause)
  if (retention) return new AppError('RETENTION', retention)
  // A referenced row was deleted meanwhile. A retry gets the current answer.
  if (isForeignKeyViolation(cause)) return new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 1 })
  if (isUnavailable(cause)) return new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 5 })
  if (error.unhandled) return new AppError('INTERNAL_ERROR')
  return new AppError(codeOfStatus[error.status] ?? 'INTERNAL_ERROR')
}

function headersOf({ code, details }: AppError): Record<string, string> {
  if (code === 'UNAUTHORIZED') return { 'www-authenticate': 'Bearer' }
  if (code === 'METHOD_NOT_ALLOWED') return { allow: String(details.allow ?? '') }
  if (code === 'UPGRADE_REQUIRED') return { upgrade: 'websocket', connection: 'upgrade' }
  if (code === 'RANGE_NOT_SATISFIABLE') return { 'content-range': `bytes */${details.size}` }
  return {}
}
