/** What is said on standard error when a command fails. */
import { AppError, ConfigError } from '../../errors.ts'
import { escapeControls, escapeControlsInJson } from '../../log/escape.ts'
import { type Exit, exitOf, exits, Failure } from '../runtime/exit.ts'

interface Issue {
  path: string
  message: string
  /** with its value, where it was typed with one (typed-flags.ts) */
  flag?: string
}

/**
 * The error, or where it says only how a connection failed, one that says to what as well. Servers elsewhere are named where they are asked
 * (there.ts), engines and sources by their own errors: what is left is the database.
 */
export function describeDatabaseError(error: unknown): unknown {
  const isTold = !(error instanceof Error) || error instanceof Failure || error instanceof AppError || 'status' in error
  const isPipe = (error as { code?: unknown }).code === 'EPIPE'
  if (isTold || isPipe || error.name === 'TimeoutError' || exitOf(error) !== 'UNAVAILABLE') return error
  return new Failure('UNAVAILABLE', `the database cannot be reached: ${errorMessage(error)}`, { fix: 'dms doctor --only config,database' })
}

/** A lock that another run of dms has; of a command that can wait for it, with the flag that does. */
export function addLockTimeoutHint(error: unknown, canWait: boolean): unknown {
  if (!canWait || !(error instanceof Error) || exitOf(error) !== 'BUSY' || !('pid' in errorDetails(error)) || 'fix' in errorDetails(error))
    return error
  return Object.assign(error, { fix: '--lock-timeout 10m waits for it' })
}

/** For people: one line a problem, then how to mend it. `verbose` adds the stack of what was not foreseen. */
export function formatErrorLines(error: unknown, verbose: boolean): string[] {
  if (error instanceof ConfigError) return error.problems.map((problem) => `error: ${escapeControls(problem)}`)
  const issues = errorIssues(error)
  const isAboutFlags = issues.length > 0 && issues.every(({ flag }) => flag !== undefined)
  const lines = isAboutFlags ? [] : [`error: ${escapeControls(errorMessage(error))}`]
  for (const { path, flag = path, message } of issues)
    lines.push(`${isAboutFlags ? 'error: ' : '         '}${escapeControls(flag)}: ${escapeControls(message)}`)
  const { request_id, fix } = error as { request_id?: unknown; fix?: unknown }
  if (typeof fix === 'string') lines.push(`         fix: ${escapeControls(fix)}`)
  if (typeof request_id === 'string') lines.push(`         request id: ${escapeControls(request_id)}`)
  if (verbose && error instanceof Error && !(error instanceof Failure)) lines.push(...(error.stack ?? '').split('\n').slice(1))
  return lines
}

/** For programs: the body of an API error plus the exit code, on one line. */
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
  return escapeControlsInJson(JSON.stringify({ error: body, exit_code: exits[exit][0] }))
}

function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (/^(Exit|Abort)PromptError$/.test(error.name)) return 'the question was not answered'
  // Commander writes its own prefix and puts its suggestion on a second line.
  const message = formatFileError(error.message.replace(/^error: /, '').replace(/\n\((Did you mean .*)\)$/s, ' — $1'))
  if (message === '' && error instanceof AggregateError) return errorMessage(error.errors[0])
  return message === 'fetch failed' && error.cause instanceof Error
    ? `the server cannot be reached: ${errorMessage(error.cause)}`
    : message || error.name
}

/** What Node says of a file in the words of other programs: "notes.txt: no such file or directory". */
export const formatFileError = (message: string): string =>
  message.replace(/^(.*: )?E[A-Z0-9]+: ([^,]+), \w+ '([^']+)'$/s, (_, place: string | undefined, reason: string, path: string) =>
    place?.endsWith(`${path}: `) ? `${place}${reason}` : `${place ?? ''}${path}: ${reason}`,
  )

function errorCode(error: unknown, exit: Exit): string {
  if (error instanceof Failure) return error.code ?? exit
  const { code, status } = error as { code?: unknown; status?: unknown }
  return typeof code === 'string' && typeof status === 'number' ? code : exit
}

function errorDetails(error: unknown): object {
  if (error instanceof ConfigError) return { problems: error.problems }
  const { details, fix } = error as { details?: unknown; fix?: unknown }
  const known = error instanceof Error && error.name === 'Busy' ? parseLockHolder(error) : details
  return { ...(typeof known === 'object' ? known : {}), ...(typeof fix === 'string' ? { fix } : {}) }
}

/** Who has the lock, in parts: `dms backup pid=42 host=a` is how the database knows them. */
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

function errorIssues(error: unknown): Issue[] {
  const { issues } = errorDetails(error) as { issues?: unknown }
  if (!Array.isArray(issues)) return []
  return issues.map(({ path, message, flag }: Partial<Issue>) => ({
    path: String(path),
    message: String(message),
    ...(typeof flag === 'string' ? { flag } : {}),
  }))
}
