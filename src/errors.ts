/** Error codes of the API with their HTTP status and default message, in the order of the specification. */
export const codes = {
  UNAUTHORIZED: [401, 'Authentication is required. Log in, or pass a valid token.'],
  FORBIDDEN: [403, 'You have no permission for this action.'],
  NOT_FOUND: [404, 'There is no resource at this path.'],
  VALIDATION_ERROR: [400, 'The request is not valid.'],
  DUPLICATE_RESOURCE: [409, 'A resource with this value exists already.'],
  RATE_LIMITED: [429, 'Too many requests. Retry later.'],
  INTERNAL_ERROR: [500, 'Internal server error. The server log has the cause under the request id.'],
  SERVICE_UNAVAILABLE: [503, 'The service is temporarily unavailable. Retry later.'],

  SHARED_LINK_NOT_FOUND: [404, 'The shared link does not exist.'],
  SHARED_LINK_EXPIRED: [410, 'The shared link has expired.'],
  SHARED_LINK_REVOKED: [410, 'The shared link was revoked.'],
  SHARED_LINK_MAX_VIEWS: [410, 'The shared link has reached its maximum number of views.'],
  SHARED_LINK_PASSWORD_REQUIRED: [401, 'The shared link requires a password.'],
  SHARED_LINK_INVALID_PASSWORD: [403, 'The password of the shared link is wrong.'],
  SHARED_LINK_RATE_LIMITED: [429, 'Too many requests for shared links. Retry later.'],

  COMMENT_NOT_FOUND: [404, 'The comment does not exist.'],
  COMMENT_DOCUMENT_NOT_FOUND: [404, 'The document does not exist.'],
  COMMENT_PERMISSION_DENIED: [403, 'Only the author can change this comment.'],
  COMMENT_CONTENT_EMPTY: [400, 'The comment is empty.'],
  COMMENT_CONTENT_TOO_LONG: [400, 'A comment can have at most 10,000 characters.'],
  COMMENT_NESTING_TOO_DEEP: [400, 'Replies cannot have replies. Reply to the top-level comment.'],
  COMMENT_RATE_LIMITED: [429, 'Too many comments. Retry later.'],

  DOCUMENT_NOT_FOUND: [404, 'The document does not exist.'],
  VERSION_NOT_FOUND: [404, 'The document has no version with this number.'],
  PAGE_IMAGE_NOT_FOUND: [404, 'The page does not exist, or it has no picture.'],
  RENDITION_NOT_FOUND: [404, 'The document has no such rendition. Request it with POST /api/documents/{id}/renditions.'],
  RENDITION_UNAVAILABLE: [409, 'The rendition could not be made.'],
  LABEL_NOT_FOUND: [404, 'The label does not exist.'],
  HOLD_NOT_FOUND: [404, 'The hold does not exist.'],
  SOURCE_NOT_FOUND: [404, 'The source does not exist.'],
  USER_NOT_FOUND: [404, 'The user does not exist.'],
  NOTIFICATION_NOT_FOUND: [404, 'The notification does not exist.'],
  API_TOKEN_NOT_FOUND: [404, 'The API token does not exist.'],
  OCR_JOB_NOT_FOUND: [404, 'The OCR job does not exist.'],
  SOURCE_SYNC_IN_PROGRESS: [409, 'A sync of the source is running already.'],
  METHOD_NOT_ALLOWED: [405, 'The path does not support this method.'],
  PAYLOAD_TOO_LARGE: [413, 'The request body is too large.'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'The path does not accept this content type.'],
  HEADERS_TOO_LARGE: [431, 'The request line and headers are too large.'],
  UPGRADE_REQUIRED: [426, 'The path accepts WebSocket connections only.'],
  STORAGE_UNAVAILABLE: [503, 'The document store is out of reach. Retry later.'],
  RANGE_NOT_SATISFIABLE: [416, 'The requested range is outside of the file.'],
  IDEMPOTENCY_KEY_REUSED: [422, 'The Idempotency-Key was used for a different request. Use a new key.'],
  PRECONDITION_FAILED: [412, 'The resource has changed. Read it again, then retry.'],
  CONFLICT: [409, 'The state of the resource does not allow this action.'],
  RETENTION: [409, 'The document is under retention or hold.'],
  EMAIL_NOT_VERIFIED: [403, 'The email address is not verified. Open the link in the verification email.'],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type Code = keyof typeof codes

/** A failure that is reported to the caller. Any other Error is a bug and becomes INTERNAL_ERROR. */
export class AppError extends Error {
  readonly code: Code
  readonly status: number
  readonly details: Record<string, unknown>

  constructor(code: Code, details: Record<string, unknown> = {}, message = defaultMessage(code, details)) {
    super(message)
    this.name = 'AppError'
    this.code = code
    this.status = codes[code][0]
    this.details = details
  }
}

/** Returns the message of a code. It has the time after which to retry, if `details` has it. */
export function defaultMessage(code: Code, { retry_after_secs: wait }: Record<string, unknown> = {}): string {
  const [, message] = codes[code]
  return typeof wait === 'number' ? message.replace('Retry later', `Retry after ${wait} ${wait === 1 ? 'second' : 'seconds'}`) : message
}

/** Returns the error of one stored file that is missing or cannot be read, whereas others can: `details.file` tells it from an outage. */
export const unreadableFile = (cause: unknown): AppError =>
  Object.assign(new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 3600, file: 'unreadable' }, 'The stored file cannot be read.'), {
    cause,
  })

/** Returns a VALIDATION_ERROR about one field, in the form of schema errors. */
export const invalid = (path: string, message: string): AppError => new AppError('VALIDATION_ERROR', { issues: [{ path, message }] })

/**
 * Waits for the validations of several fields and returns their results. Throws one VALIDATION_ERROR with the issues of all that failed. Another error
 * takes precedence.
 */
export async function validateTogether<T extends readonly unknown[] | []>(
  validations: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const settled = await Promise.allSettled(validations)
  const errors = settled.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
  const issues = errors.flatMap((error) => {
    if (error instanceof AppError && error.code === 'VALIDATION_ERROR') return error.details.issues
    throw error
  })
  if (issues.length > 0) throw new AppError('VALIDATION_ERROR', { issues })
  return Promise.all(validations)
}

/** An invalid configuration, with all its problems. The command line exits with 78. */
export class ConfigError extends Error {
  readonly problems: readonly string[]
  /** flags of the command line cause all problems */
  readonly isUsage: boolean

  constructor(problems: readonly string[], isUsage = false) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
    this.isUsage = isUsage
  }
}

/** The folder holds no archive, and this process may not create one. */
export class NoData extends ConfigError {
  readonly folder: string

  constructor(folder: string) {
    super([`no dms data in ${folder}`])
    this.name = 'NoData'
    this.folder = folder
  }
}

/** Rewrites file errors of Node as other programs print them: "notes.txt: no such file or directory". */
export const formatFileError = (message: string): string =>
  message.replace(/^(.*: )?E[A-Z0-9]+: ([^,]+), \w+ '([^']+)'$/s, (_, place: string | undefined, reason: string, path: string) =>
    place?.endsWith(`${path}: `) ? `${place}${reason}` : `${place ?? ''}${path}: ${reason}`,
  )
