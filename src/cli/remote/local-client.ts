/** Client of the API in this process. */
import { userInfo } from 'node:os'
import { type Actor, operator } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Client } from '../../client/client.ts'
import type { LoadedConfig } from '../../config/load.ts'
import type { Log, LogOptions } from '../../log/log.ts'
import { Failure } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'

/** Opens the log of a command: warnings only, unless a flag or a variable sets the level. */
export async function openCommandLog({ config, origins }: LoadedConfig, { verbose }: GlobalOptions): Promise<Log> {
  const { openLog } = await import('../../log/log.ts')
  const origin = origins.get('log.level')?.origin
  const isConfigured = origin === 'flag' || origin === 'env'
  const defaultLevel: LogOptions['level'] = verbose > 1 ? 'trace' : verbose > 0 ? 'info' : 'warn'
  return openLog({ level: isConfigured ? config.log.level : defaultLevel, format: config.log.format })
}

interface ShellUser {
  readonly options: Pick<GlobalOptions, 'as'>
  /** user that root acts as */
  readonly dataOwner: string | null
}

/** Opens a client as the operator, or as the user of --as. Throws Failure NOT_FOUND for an unknown user. */
export async function openLocalClient(app: App, shell: ShellUser): Promise<Client> {
  const { as } = shell.options
  const [{ localClient }, actor] = await Promise.all([import('../../client/local.ts'), findActor(app, as)])
  if (as !== null) await auditCommand(app, shell, { action: 'dms --as', target: `id=${actor.id}`, details: { username: actor.username } })
  return localClient(app, { ...actor, via: viaOf(shell) })
}

/** A command that no route records in the audit log. Without `outcome`, it was allowed and has begun. */
interface CommandEntry {
  readonly action: string
  readonly target?: string
  readonly details?: Record<string, unknown>
  readonly outcome?: 'ok' | 'failed'
}

/** Writes an act of the operator to the audit log. */
export async function auditCommand(
  app: Pick<App, 'db'>,
  shell: Pick<ShellUser, 'dataOwner'>,
  { action, target = '', details = {}, outcome = 'ok' }: CommandEntry,
): Promise<void> {
  const { openAuditLog } = await import('../../audit/audit.ts')
  const actor = { actor_id: operator.id, actor: operator.username, via: viaOf(shell), ip: '127.0.0.1' }
  await openAuditLog(app)([{ ...actor, at: new Date(), action, target, outcome, code: null, details, request_id: '' }])
}

type WarningUser = Pick<ShellUser, 'dataOwner'> & { warn(text: string): void }

/** Writes an audit entry of a command. A log that cannot be written is only a warning; one that the schema does not have yet is none. */
export const tryAuditCommand = (app: Pick<App, 'db'>, cli: WarningUser, entry: CommandEntry): Promise<void> =>
  auditCommand(app, cli, entry).catch((error: Error & { code?: string }) => {
    // undefined_table: the schema is older than the audit log.
    if (error.code !== '42P01') cli.warn(`warning: not in the audit log: ${error.message}`)
  })

interface AuditedRun extends Omit<CommandEntry, 'outcome'> {
  /** a log that cannot be written is only a warning */
  readonly isOptional?: boolean
  /** returns what the command has done until now */
  readonly counts?: () => object
}

/**
 * Runs a command after an audit entry of its start, so that one that is killed has an entry, too. At its end, writes a second entry if it has `counts`
 * or fails.
 */
export async function runAudited<T>(
  app: Pick<App, 'db'>,
  cli: WarningUser,
  { isOptional = false, counts, ...entry }: AuditedRun,
  work: () => Promise<T>,
): Promise<T> {
  await (isOptional ? tryAuditCommand : auditCommand)(app, cli, entry)
  const end = (outcome: 'ok' | 'failed', more: object): Promise<void> =>
    tryAuditCommand(app, cli, { ...entry, details: { ...entry.details, ...counts?.(), ...more }, outcome })
  try {
    const result = await work()
    if (counts) await end('ok', {})
    return result
  } catch (error) {
    await end('failed', { error: (error as Error).message })
    throw error
  }
}

const viaOf = ({ dataOwner }: Pick<ShellUser, 'dataOwner'>): string => `cli:${dataOwner === null ? shellUser() : 'root'}`

/** Returns the shell user for the audit log. In containers it may have a number only. */
function shellUser(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 'unknown')
  }
}

async function findActor(app: App, as: string | null): Promise<Actor> {
  if (as === null) return operator
  const users = await import('../../users/users.ts')
  const user = await users.findByIdentifier(app.db, as)
  if (!user) throw new Failure('NOT_FOUND', `--as ${as}: no such user`)
  return { id: user.id, role: user.role, username: user.username }
}
