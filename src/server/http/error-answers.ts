/** The one place where a thrown thing becomes an HTTP answer. */
import type { H3Event, HTTPError } from 'h3'
import { isForeignKeyViolation, isUnavailable } from '../../db/pool.ts'
import { AppError, type Code } from '../../errors.ts'
import type { Log } from '../../log/log.ts'
import { FileMissing } from '../../ports/file-store.ts'
import { errorPageFor } from '../../shared-links/public-routes.ts'
import { shownPath } from './redact-path.ts'
import { requestId } from './request-id.ts'

/** What h3 itself refuses. Its only 400 is a path that cannot be decoded: nothing can be there. */
const general: Readonly<Record<number, Code>> = {
  400: 'NOT_FOUND',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  413: 'PAYLOAD_TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
}

/** Answers a failure with the error body of the specification; what nobody foresaw is logged whole and answered bare. */
export function failure(error: HTTPError, event: H3Event, log: Log, now: Date): Response {
  const known = recognise(error)
  const id = requestId(event)
  // Who asks at the shell is told of what is away by the command itself, and of where it was noticed with -v.
  const level = event.context.isLocal && known.status === 503 ? 'info' : 'error'
  if (known.status >= 500)
    log[level]({ err: error.cause ?? error, request_id: id, method: event.req.method, path: shownPath(event) }, 'request failed')
  const { code, message, details, status } = known
  event.context.failure = code
  const body = { error: { code, message, details, timestamp: now.toISOString(), request_id: id } }
  const wait = details.retry_after_secs
  const headers = { ...headersOf(known), ...(typeof wait === 'number' ? { 'retry-after': String(wait) } : {}) }
  const page = (event.context.explain ?? errorPageFor(event))?.(known)
  if (!page) return Response.json(typeof wait === 'number' ? { ...body, retry_after_secs: wait } : body, { status, headers })
  for (const [name, value] of Object.entries(headers)) page.headers.set(name, value)
  return page
}

function recognise(error: HTTPError): AppError {
  const cause = error.cause ?? error
  if (cause instanceof AppError) return cause
  if (cause instanceof FileMissing) return new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 60 }, 'The stored file cannot be read.')
  // What it hangs on was deleted since we looked, as the account of whoever asks: asked again, it gets the answer that is true then.
  if (isForeignKeyViolation(cause)) return new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 1 })
  if (isUnavailable(cause)) return new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 5 })
  if (error.unhandled) return new AppError('INTERNAL_ERROR')
  return new AppError(general[error.status] ?? 'INTERNAL_ERROR')
}

function headersOf({ code, details }: AppError): Record<string, string> {
  if (code === 'UNAUTHORIZED') return { 'www-authenticate': 'Bearer' }
  if (code === 'METHOD_NOT_ALLOWED') return { allow: String(details.allow ?? '') }
  if (code === 'UPGRADE_REQUIRED') return { upgrade: 'websocket', connection: 'upgrade' }
  if (code === 'RANGE_NOT_SATISFIABLE') return { 'content-range': `bytes */${details.size}` }
  return {}
}
