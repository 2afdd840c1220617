/** Every code a client can receive, in the order of the specification: HTTP status, default message. */
export const codes = {
  UNAUTHORIZED: [401, 'Sign in first.'],
  FORBIDDEN: [403, 'You may not do that.'],
  NOT_FOUND: [404, 'Nothing is here.'],
  VALIDATION_ERROR: [400, 'The request is not valid.'],
  DUPLICATE_RESOURCE: [409, 'That already exists.'],
  RATE_LIMITED: [429, 'Too many requests.'],
  INTERNAL_ERROR: [500, 'The server failed.'],
  SERVICE_UNAVAILABLE: [503, 'Temporarily unavailable.'],

  SHARED_LINK_NOT_FOUND: [404, 'No such shared link.'],
  SHARED_LINK_EXPIRED: [410, 'This link has expired.'],
  SHARED_LINK_REVOKED: [410, 'This link was withdrawn.'],
  SHARED_LINK_MAX_VIEWS: [410, 'This link has been used up.'],
  SHARED_LINK_PASSWORD_REQUIRED: [401, 'This link needs a password.'],
  SHARED_LINK_INVALID_PASSWORD: [403, 'The password is wrong.'],
  SHARED_LINK_RATE_LIMITED: [429, 'Too many requests for shared links.'],

  COMMENT_NOT_FOUND: [404, 'No such comment.'],
  COMMENT_DOCUMENT_NOT_FOUND: [404, 'No such document.'],
  COMMENT_PERMISSION_DENIED: [403, 'This comment is not yours.'],
  COMMENT_CONTENT_EMPTY: [400, 'A comment needs words.'],
  COMMENT_CONTENT_TOO_LONG: [400, 'A comment has at most 10,000 characters.'],
  COMMENT_NESTING_TOO_DEEP: [400, 'A reply takes no replies.'],
  COMMENT_RATE_LIMITED: [429, 'Too many comments in a short time.'],

  DOCUMENT_NOT_FOUND: [404, 'No such document.'],
  LABEL_NOT_FOUND: [404, 'No such label.'],
  SOURCE_NOT_FOUND: [404, 'No such source.'],
  USER_NOT_FOUND: [404, 'No such user.'],
  NOTIFICATION_NOT_FOUND: [404, 'No such notification.'],
  API_TOKEN_NOT_FOUND: [404, 'No such API token.'],
  OCR_JOB_NOT_FOUND: [404, 'No such OCR job.'],
  SOURCE_SYNC_IN_PROGRESS: [409, 'The source is being synced.'],
  METHOD_NOT_ALLOWED: [405, 'This path does not take that method.'],
  PAYLOAD_TOO_LARGE: [413, 'The request is too large.'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'This path does not take that type of body.'],
  HEADERS_TOO_LARGE: [431, 'The request line and headers are too large.'],
  UPGRADE_REQUIRED: [426, 'This path speaks WebSocket only.'],
  RANGE_NOT_SATISFIABLE: [416, 'The file has no such range.'],
  IDEMPOTENCY_KEY_REUSED: [422, 'The Idempotency-Key was used for another request.'],
  PRECONDITION_FAILED: [412, 'It was changed by someone else.'],
  CONFLICT: [409, 'It is not in the state that the request needs.'],
  EMAIL_NOT_VERIFIED: [403, 'The e-mail address is not verified yet.'],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type Code = keyof typeof codes

/** A failure that is reported to the caller. Any other Error is a bug and becomes INTERNAL_ERROR. */
export class AppError extends Error {
  readonly code: Code
  readonly status: number
  readonly details: Record<string, unknown>

  constructor(code: Code, details: Record<string, unknown> = {}, message: string = codes[code][1]) {
    super(message)
    this.name = 'AppError'
    this.code = code
    this.status = codes[code][0]
    this.details = details
  }
}

/** Returns a VALIDATION_ERROR about one field, in the form of schema errors. */
export const invalid = (path: string, message: string): AppError => new AppError('VALIDATION_ERROR', { issues: [{ path, message }] })

/** An invalid configuration, with all its problems. The command line exits with 78. */
export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}
