/** Exit codes. They are stable: codes are added, never changed. */
import { AppError, ConfigError } from '../../errors.ts'
import type { Fix } from '../../log/fix.ts'

/** Code and meaning, in the order of `dms help exit-codes`. */
export const exits = {
  OK: [0, 'done; an empty list is OK, and so is "nothing to do"'],
  FAILED: [1, 'any other failure'],
  USAGE: [2, 'wrong flag, argument or value; a prompt was needed but not possible'],
  PARTIAL: [3, 'finished, but some rows, files, sources or checks failed'],
  AUTH: [4, 'not signed in, token expired, wrong password'],
  FORBIDDEN: [5, 'signed in, but not allowed'],
  NOT_FOUND: [6, 'not found, deleted or expired'],
  CONFLICT: [7, 'already exists, or is in another state than the command needs'],
  PENDING: [8, 'a condition is not met yet: migrations or an upgrade of the database pending, --timeout passed while waiting'],
  UNAVAILABLE: [69, 'database, search or server unreachable or too busy; worth a retry'],
  BUSY: [75, 'another run of the same job is active'],
  CONFIG: [78, 'configuration missing or wrong, or the database schema is newer than this dms'],
  INTERRUPTED: [130, 'stopped by SIGINT (Ctrl-C)'],
  TERMINATED: [143, 'stopped by SIGTERM, or by SIGHUP (closed terminal)'],
} as const satisfies Record<string, readonly [code: number, meaning: string]>

export type Exit = keyof typeof exits

/** An error of a command, with its exit, message and fix. */
export class Failure extends Error {
  readonly exit: Exit
  readonly fix: Fix | undefined
  readonly details: object
  /** code in JSON errors; default: the name of the exit */
  readonly code: string | undefined

  constructor(
    exit: Exit,
    message: string,
    { fix, details = {}, code, cause }: { fix?: Fix; details?: object; code?: string; cause?: unknown } = {},
  ) {
    super(message, { cause })
    this.name = 'Failure'
    this.exit = exit
    this.fix = fix
    this.details = details
    this.code = code
  }
}

/** Creates an error for wrong use of the command line. */
export const usage = (message: string, fix?: Fix): Failure => new Failure('USAGE', message, { fix })

/** Creates an error for a path of the command line that cannot be used: CONFLICT if it exists. `error` is the error of the file system. */
export const unusablePath = (flag: string, path: string, error: NodeJS.ErrnoException): Failure =>
  new Failure(error.code === 'EEXIST' ? 'CONFLICT' : 'USAGE', `${flag} ${path}: ${error.message}`, { cause: error })

const byStatus: Readonly<Record<number, Exit>> = {
  400: 'USAGE',
  401: 'AUTH',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  409: 'CONFLICT',
  410: 'NOT_FOUND',
  412: 'CONFLICT',
  422: 'USAGE',
  429: 'UNAVAILABLE',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'UNAVAILABLE',
}

/** Exit codes by name of the error, without loading its module. Includes errors of commander and inquirer. */
const byName: Readonly<Record<string, Exit>> = {
  Busy: 'BUSY',
  LockLost: 'UNAVAILABLE',
  LockWaitTimeout: 'PENDING',
  NewerSchema: 'CONFIG',
  PendingMigrations: 'PENDING',
  DatabaseOutdated: 'PENDING',
  ExitPromptError: 'INTERRUPTED',
  AbortPromptError: 'INTERRUPTED',
  AbortError: 'INTERRUPTED',
  TimeoutError: 'UNAVAILABLE',
}

const networkErrorCode =
  /^(ECONN|EHOST|ENET|EPIPE$|ENOTFOUND|EAI_|ETIMEDOUT|UND_ERR_(CONNECT|SOCKET|HEADERS|BODY)|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/
/** SQLSTATEs: connection failure, startup or shutdown, too many connections. */
const databaseDownCode = /^(08\w{3}|57P0[1-3]|53300)$/
/** Messages of the database driver that have no code: timeout, connection lost. */
const databaseLostMessage =
  /^(Connection terminated|timeout expired$|timeout exceeded when trying to connect|Client has encountered a connection error)/
/** SQLSTATEs: wrong password, unknown role, unknown database. */
const databaseRefusedCode = /^(28\w{3}|3D000)$/

/** Returns the exit code name for an error. */
export function exitOf(error: unknown): Exit {
  if (error instanceof Failure) return error.exit
  if (error instanceof ConfigError) return error.isUsage ? 'USAGE' : 'CONFIG'
  if (error instanceof AppError) return exitOfStatus(error.code, error.status)
  if (!(error instanceof Error)) return 'FAILED'
  const { code = '', status, syscall } = error as { code?: unknown; status?: unknown; syscall?: unknown }
  if (typeof code === 'string' && code.startsWith('commander.')) return isExpectedExit(error) ? 'OK' : 'USAGE'
  if (typeof status === 'number') return exitOfStatus(String(code), status)
  const named = byName[error.name]
  if (named) return named
  if (networkErrorCode.test(String(code)) || databaseDownCode.test(String(code))) return 'UNAVAILABLE'
  // connect() on a missing or closed Unix socket fails with ENOENT or EACCES.
  if (syscall === 'connect' || (code === '' && databaseLostMessage.test(error.message))) return 'UNAVAILABLE'
  if (databaseRefusedCode.test(String(code))) return 'CONFIG'
  // fetch wraps the cause; a dual-stack connection has one error per address.
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause
  return inner instanceof Error ? exitOf(inner) : 'FAILED'
}

const exitOfStatus = (code: string, status: number): Exit => (code.endsWith('_RUNNING') ? 'BUSY' : (byStatus[status] ?? 'FAILED'))

/** Returns whether the error ends the command successfully: --help, --version and --print-curl throw after their output. */
export function isExpectedExit(error: unknown): boolean {
  return (
    (error instanceof Failure && error.exit === 'OK') ||
    ['commander.helpDisplayed', 'commander.version'].includes(String((error as { code?: unknown }).code))
  )
}
