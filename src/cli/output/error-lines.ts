/** Formatting of errors for standard error. */
import { AppError, ConfigError, formatFileError } from '../../errors.ts'
import { escapeControls, escapeControlsInJson, shorten } from '../../log/escape.ts'
import { dms } from '../../log/fix.ts'
import { type Exit, exitOf, exits, Failure } from '../runtime/exit.ts'

interface Issue {
  path: string
  message: string
  /** flag with its value, if the field was given as a flag (field-flags.ts) */
  flag?: string
}

/**
 * Names the peer in errors that only say how a connection failed: `server`, or the database if it is null. Search engines, sources, and remote servers that
 * cannot be reached are named already (remote-client.ts). Other errors are returned unchanged.
 */
export function describeConnectionError(error: unknown, server: string | null): unknown {
  const hasMessage = !(error instanceof Error) || error instanceof Failure || error instanceof AppError || 'status' in error
  const isPipe = (error as { code?: unknown }).code === 'EPIPE'
  if (hasMessage || isPipe || error.name === 'TimeoutError' || exitOf(error) !== 'UNAVAILABLE') return error
  if (server !== null)
    return new Failure('UNAVAILABLE', `${server}: the connection broke: ${errorMessage(error)}`, { fix: 'repeat the command' })
  return new Failure('UNAVAILABLE', `the database cannot be reached: ${errorMessage(error)}`, { fix: dms`doctor --only config,database` })
}

/** Adds a hint at --lock-timeout to the error of a held lock, if the command has this flag. */
export function addLockTimeoutHint(error: unknown, canWait: boolean): unknown {
  if (!canWait || !(error instanceof Error) || exitOf(error) !== 'BUSY' || !('pid' in errorDetails(error)) || 'fix' in errorDetails(error))
    return error
  return Object.assign(error, { fix: '--lock-timeout 10m waits for it' })
}

/** Explains why root may not read or write a file: it acts as the owner of the data folder. */
export function addOwnerHint(error: unknown, { dataOwner }: { readonly dataOwner: string | null }): unknown {
  const { fix } = error as { fix?: unknown }
  const hint = ownerHint(error, dataOwner)
  return hint === null || fix !== undefined ? error : Object.assign(error as Error, { fix: hint })
}

/** Returns the explanation for a file that root, acting as `dataOwner`, may not read or write; null for other errors. */
export function ownerHint(error: unknown, dataOwner: string | null): string | null {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  if (dataOwner === null || !['EACCES', 'EPERM'].includes(String(code ?? cause?.code))) return null
  return `root acts as "${dataOwner}", the owner of the data folder: use a path that this user may access, or - for standard input or output`
}

/** Formats an error for people: one line per problem, then the fix. `isVerbose` adds the stack of unexpected errors. */
export const formatErrorLines = (error: unknown, { isVerbose = false } = {}): string[] => linesOf(error, isVerbose).map(shorten)

function linesOf(error: unknown, isVerbose: boolean): string[] {
  const { request_id, fix } = error as { request_id?: unknown; fix?: unknown }
  const fixLines = typeof fix === 'string' ? [`         fix: ${escapeControls(fix)}`] : []
  if (error instanceof ConfigError) return [...error.problems.map((problem) => `error: ${escapeControls(problem)}`), ...fixLines]
  const issues = errorIssues(error)
  const isAboutFlags = issues.length > 0 && issues.every(({ flag }) => flag !== undefined)
  const lines = isAboutFlags ? [] : [`error: ${escapeControls(errorMessage(error))}`]
  for (const { path, flag = path, message } of issues)
    lines.push(`${isAboutFlags ? 'error: ' : '         '}${escapeControls(flag)}: ${escapeControls(message)}`)
  lines.push(...fixLines)
  if (typeof request_id === 'string') lines.push(`         request id: ${escapeControls(request_id)}`)
  if (isVerbose && error instanceof Error && !(error instanceof Failure)) lines.push(...(error.stack ?? '').split('\n').slice(1))
  return lines
}

/** Formats an error as one line of JSON: the body of an API error and the exit code. */
export function formatErrorJson(error: unknown, now: Date): string {
  const exit = exitOf(error)
  const { request_id = null } = error as { request_id?: unknown }
  const body = {
    code: errorCode(error, exit),
    message: errorMessage(error),
    details: errorDetails(error),
    timestamp: now.toISOString(),
    request_id,
  }
  const shortenTexts = (_: string, value: unknown) => (typeof value === 'string' ? shorten(value) : value)
  return escapeControlsInJson(JSON.stringify({ error: body, exit_code: exits[exit][0] }, shortenTexts))
}

function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (/^(Exit|Abort)PromptError$/.test(error.name)) return 'the question was not answered'
  // Commander adds a prefix and puts its suggestion on a second line.
  const message = formatFileError(error.message.replace(/^error: /, '').replace(/\n\((Did you mean .*)\)$/s, ' — $1'))
  if (message === '' && error instanceof AggregateError) return errorMessage(error.errors[0])
  if (!(error.cause instanceof Error)) return message || error.name
  if (message === 'fetch failed') return `the server cannot be reached: ${errorMessage(error.cause)}`
  // The cause has the part that an administrator can correct, such as a wrong key.
  return (error as { code?: unknown }).code === 'STORAGE_UNAVAILABLE' ? `${message} (${errorMessage(error.cause)})` : message || error.name
}

/** Returns why the connection failed. Both addresses of a dual-stack host may have failed for different reasons. */
export function connectErrorMessage(error: unknown): string {
  const { code, message, errors } = error as { code?: unknown; message?: string; errors?: unknown[] }
  return message || (errors?.[0] as Error | undefined)?.message || String(code)
}

function errorCode(error: unknown, exit: Exit): string {
  if (error instanceof Failure) return error.code ?? exit
  const { code, status } = error as { code?: unknown; status?: unknown }
  return typeof code === 'string' && typeof status === 'number' ? code : exit
}

function errorDetails(error: unknown): object {
  const { fix } = error as { fix?: unknown }
  return { ...errorFields(error), ...(typeof fix === 'string' ? { fix } : {}) }
}

function errorFields(error: unknown): object {
  if (error instanceof ConfigError) return { problems: error.problems }
  if (error instanceof Error && error.name === 'Busy') return parseLockHolder(error)
  const { details } = error as { details?: unknown }
  return typeof details === 'object' && details !== null ? details : {}
}

/** Splits the holder of a lock, for example `dms backup pid=42 host=a`, into its parts. */
export function parseLockHolder(error: Error): object {
  const { holder = '', since = null } = error as { holder?: string; since?: Date | null }
  const [, words, pid, host] = /^(.*) pid=(\d+) host=(.*)$/.exec(holder) ?? []
  return {
    holder: words ?? holder,
    host: host ?? null,
    pid: pid === undefined ? null : Number(pid),
    since,
  }
}

/** Returns the validation issues of an API error, else an empty list. */
export function validationIssues(error: unknown): { path: string; message: string }[] {
  const issues = (error as { details?: { issues?: unknown } }).details?.issues
  return Array.isArray(issues) ? issues : []
}

function errorIssues(error: unknown): Issue[] {
  const { candidates, issues = candidates } = errorDetails(error) as { issues?: unknown; candidates?: unknown }
  if (!Array.isArray(issues)) return []
  return issues.map(({ path, message, flag }: Partial<Issue>) => ({
    path: String(path),
    message: String(message),
    ...(typeof flag === 'string' ? { flag } : {}),
  }))
}
