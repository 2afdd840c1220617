import type { Command } from 'commander'
import { parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { MigrationState } from '../../src/db/migrate.ts'
import type { OpenedDatabase } from '../../src/open-app.ts'

/** Exit codes of every migrate command, for its help. */
export const commonExits = '69 database unreachable · 78 schema is newer than this dms'

export interface LockFlags {
  lockTimeout?: string
}

/** Adds --lock-timeout. */
export const withLockTimeout = (command: Command): Command =>
  command.option('--lock-timeout <duration>', 'time to wait for another migration (default: database.lock_timeout)')

/** Opens the configured database for `work` and closes it afterwards. `lockTimeoutMs` comes from --lock-timeout, else from the configuration. */
export async function withDatabase(
  cli: Cli,
  command: string,
  { lockTimeout }: LockFlags,
  work: (database: OpenedDatabase, lockTimeoutMs: number) => Promise<void>,
): Promise<void> {
  cli.rejectRemote(command)
  const givenMs = lockTimeout === undefined ? null : parseDurationFlag('--lock-timeout', lockTimeout)
  const [{ openConfiguredDatabase }, { openLog }] = await Promise.all([import('../../src/open-app.ts'), import('../../src/log/log.ts')])
  const { config } = await cli.config()
  const log = openLog({ ...config.log, level: cli.options.verbose > 0 ? config.log.level : 'warn' })
  const database = await openConfiguredDatabase(config, log, false)
  try {
    await work(database, givenMs ?? config.database.lock_timeout)
  } finally {
    await database.close()
  }
}

/** Returns all migrations, applied and pending. */
export const loadStates = async ({ db }: OpenedDatabase): Promise<MigrationState[]> =>
  (await import('../../src/db/migrate.ts')).loadStates(db)

/** Throws Failure USAGE if `name` is not a migration of this version. */
export async function requireMigration(name: string | undefined): Promise<void> {
  const { listMigrations } = await import('../../src/db/migrate.ts')
  if (name !== undefined && !(await listMigrations()).includes(name)) throw usage(`--to ${name}: no such migration`, 'dms migrate status')
}

/** Prints one line per migration. */
export const printMigrations = (cli: Cli, names: readonly string[], action: string): void =>
  cli.print(
    names.map((name) => ({ name, action })),
    { columns: [{ name: 'name' }, { name: 'action' }], id: 'name' },
  )
