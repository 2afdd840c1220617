import { type Command, Option } from 'commander'
import { parseCount, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import { dms } from '../../src/log/fix.ts'
import type { OpenedDatabase } from '../../src/open-app.ts'

const commonExits = '69 database unreachable · 78 schema is newer than this dms'

export const migrate = (cli: Cli) =>
  manual('migrate', {
    summary: 'Manage the database schema',
    examples: [
      ['migrate', 'apply pending migrations'],
      ['migrate status', ''],
      ['dms backup create && dms migrate', ''],
      ['migrate verify', 'test pending migrations on the current data'],
    ],
    exits: `0 current · 8 migrations pending (check) · 75 another migration is running, or a table is in use · ${commonExits}`,
    notes: ['Runs on the server only. To go back: restore a backup (dms restore), or `migrate down` for the newest migrations.'],
  })
    .addCommand(up(cli), { isDefault: true })
    .addCommand(status(cli))
    .addCommand(verify(cli))
    .addCommand(down(cli))
    .addCommand(check(cli))

const up = (cli: Cli) =>
  addLockFlag(
    manual('up', {
      summary: 'Apply pending migrations (default)',
      examples: [
        ['migrate', 'shorthand'],
        ['migrate up -n', 'dry run'],
      ],
      exits: `0 applied, or nothing to do · 2 no such migration · 75 another migration is running, or a table is in use · ${commonExits}`,
    })
      .option('--to <name>', 'stop after this migration')
      .option('-n, --dry-run', 'list what would be applied'),
  ).action(({ lockTimeout, to, dryRun }: { lockTimeout?: string; to?: string; dryRun?: boolean }) =>
    withDatabase(cli, { command: dryRun ? 'migrate -n' : 'migrate', lockTimeout }, async ({ db, asOwner }, lockTimeoutMs) => {
      const [{ migrate, pendingUpTo }, { runAudited }] = await Promise.all([
        import('../../src/db/migrate.ts'),
        import('../../src/cli/remote/local-client.ts'),
      ])
      await requireMigration(to)
      const pending = await pendingUpTo(db, to)
      if (dryRun) return printMigrations(cli, pending, 'pending')
      const work = () =>
        asOwner((owner) => migrate(owner, { lockTimeoutMs, signal: cli.signal }, (name) => cli.note(`applied ${name}`), to))
      const entry = { action: 'dms migrate', details: { migrations: pending }, isOptional: true }
      printMigrations(cli, pending.length > 0 ? await runAudited({ db }, cli, entry, work) : await work(), 'applied')
    }),
  )

const status = (cli: Cli) =>
  manual('status', {
    summary: 'List all migrations and their state',
    examples: [
      ['migrate status', ''],
      ["migrate status -o json | jq -r '.pending[]'", ''],
    ],
    exits: '0 listed · 69 database unreachable',
    notes: ['-o json prints one object: current, target, pending, unknown (applied by a newer dms) and migrations (all).'],
  }).action(() =>
    withDatabase(cli, { command: 'migrate status' }, async ({ db }) => {
      const { loadStates } = await import('../../src/db/migrate.ts')
      const migrations = (await loadStates(db)).map(({ name, applied_at, unknown }) => ({
        name,
        state: unknown ? 'unknown' : applied_at === null ? 'pending' : 'applied',
        applied_at: applied_at?.toISOString() ?? null,
      }))
      const columns = [...columnsOf(['name', 'state']), { name: 'applied_at', title: 'APPLIED_AT' }]
      if (cli.options.format !== 'json') return cli.print(migrations, { columns, id: 'name' })
      const namesIn = (state: string) => migrations.filter((row) => row.state === state).map(({ name }) => name)
      const current = namesIn('applied').at(-1) ?? null
      const target = migrations.findLast(({ state }) => state !== 'unknown')?.name ?? null
      cli.print({ current, target, pending: namesIn('pending'), unknown: namesIn('unknown'), migrations }, { columns: [] })
    }),
  )

const verify = (cli: Cli) =>
  addLockFlag(
    manual('verify', {
      summary: 'Apply pending migrations and roll them back',
      examples: [['migrate verify', '']],
      exits: `0 all migrations work · 1 a migration failed · 75 another migration is running, or a table is in use · ${commonExits}`,
      notes: ['Tests the migrations on the current data. The tables are locked meanwhile.'],
    }),
  ).action(({ lockTimeout }: { lockTimeout?: string }) =>
    withDatabase(cli, { command: 'migrate verify', lockTimeout }, async ({ asOwner }, lockTimeoutMs) => {
      const { verifyPending } = await import('../../src/db/migrate.ts')
      printMigrations(cli, await asOwner((owner) => verifyPending(owner, { lockTimeoutMs, signal: cli.signal })), 'would apply')
    }),
  )

interface DownFlags {
  lockTimeout?: string
  to?: string
  steps?: string
  yes?: boolean
  dryRun?: boolean
}

const down = (cli: Cli) =>
  addLockFlag(
    manual('down', {
      summary: 'Revert the newest migrations, with their data',
      examples: [
        ['migrate down -n', 'shows what the last migration would lose'],
        ['migrate down --to 0012_search', 'to the schema of an older dms; asks first'],
      ],
      exits: `0 reverted, or nothing to do · 2 no such migration, or no terminal to confirm on, and no --yes · 7 migration cannot be reverted · 75 another migration is running, or a table is in use · ${commonExits}`,
      notes: [
        'Stop every `dms serve` and `dms worker` first, and run this with the newer dms. Migrations up to 0012_search cannot be reverted: restore a backup.',
      ],
    })
      .option('--steps <number>', 'number of migrations to revert (default: 1)')
      .addOption(new Option('--to <name>', 'revert all migrations after this one').conflicts('steps'))
      .option('-y, --yes', 'revert without asking')
      .option('-n, --dry-run', 'list what would be reverted'),
  ).action(async ({ steps = '1', to, yes, dryRun, lockTimeout }: DownFlags) => {
    const goal = to === undefined ? { steps: parseCount('--steps', steps, { max: 9999 }) } : { to }
    await withDatabase(cli, { command: 'migrate down', lockTimeout }, async ({ db, asOwner }, lockTimeoutMs) => {
      const { planRevert, revert } = await import('../../src/db/migrate.ts')
      await requireMigration(to)
      const reverted = await planRevert(db, goal)
      if (!dryRun && reverted.length > 0) {
        for (const { name, loses } of reverted) cli.warn(`reverting ${name} loses ${loses}`)
        if (!yes) await confirm(cli.options, `Revert ${reverted.map(({ name }) => name).join(', ')}?`)
        const { runAudited } = await import('../../src/cli/remote/local-client.ts')
        const entry = { action: 'dms migrate down', details: { migrations: reverted.map(({ name }) => name) }, isOptional: true }
        await runAudited({ db }, cli, entry, () => asOwner((owner) => revert(owner, { lockTimeoutMs, signal: cli.signal }, goal, reverted)))
      }
      const rows = reverted.map(({ name, loses }) => ({ name, action: dryRun ? 'would revert' : 'reverted', loses }))
      cli.print(rows, { columns: columnsOf(['name', 'action', 'loses']), id: 'name', isQuery: false })
    })
  })

const check = (cli: Cli) =>
  manual('check', {
    summary: 'Exit 8 if migrations are pending',
    examples: [['dms migrate check -q || dms migrate', 'for a start script']],
    exits: `0 current · 8 migrations pending · ${commonExits}`,
  }).action(() =>
    withDatabase(cli, { command: 'migrate check' }, async ({ db }) => {
      const { loadStates, NewerSchema } = await import('../../src/db/migrate.ts')
      const states = await loadStates(db)
      const newer = states.filter(({ unknown }) => unknown)
      if (newer.length > 0) throw new NewerSchema(newer.map(({ name }) => name))
      const pending = states.filter(({ applied_at }) => applied_at === null)
      if (pending.length > 0) throw new Failure('PENDING', `${pending.length} migrations are pending`, { fix: dms`migrate` })
      const current = states.at(-1)?.name ?? null
      cli.print({ current, pending: [] }, { columns: columnsOf(['current']), id: 'current', sentence: '✓ The schema is current' })
    }),
  )

const addLockFlag = (command: Command): Command =>
  command.option('--lock-timeout <duration>', 'time to wait for another migration or a table in use (default: database.lock_timeout)')

/** Opens the configured database for `work` and closes it afterwards. `lockTimeoutMs` comes from --lock-timeout, else from the configuration. */
async function withDatabase(
  cli: Cli,
  { command, lockTimeout }: { command: string; lockTimeout?: string | undefined },
  work: (database: OpenedDatabase, lockTimeoutMs: number) => Promise<void>,
): Promise<void> {
  cli.rejectRemote(command)
  const flagMs = lockTimeout === undefined ? null : parseDurationFlag('--lock-timeout', lockTimeout)
  const [{ openConfiguredDatabase }, { openLog }] = await Promise.all([import('../../src/open-app.ts'), import('../../src/log/log.ts')])
  const { config } = await cli.localConfig()
  const log = openLog({ ...config.log, level: cli.options.verbose > 0 ? config.log.level : 'warn' })
  const database = await openConfiguredDatabase(config, log, { creates: command === 'migrate' })
  try {
    await work(database, flagMs ?? config.database.lock_timeout)
  } finally {
    await database.close()
  }
}

/** Throws Failure USAGE if `name` is not a migration of this version. */
async function requireMigration(name: string | undefined): Promise<void> {
  const { listMigrations } = await import('../../src/db/migrate.ts')
  if (name !== undefined && !(await listMigrations()).includes(name)) throw usage(`--to ${name}: no such migration`, dms`migrate status`)
}

function printMigrations(cli: Cli, names: readonly string[], action: string): void {
  const rows = names.map((name) => ({ name, action }))
  cli.print(rows, { columns: columnsOf(['name', 'action']), id: 'name', isQuery: false })
}
