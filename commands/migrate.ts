import { type Command, Option } from 'commander'
import { durationOf } from '../src/cli/arguments/duration.ts'
import { confirm } from '../src/cli/arguments/prompt.ts'
import { manual } from '../src/cli/output/manual.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { Failure, usage } from '../src/cli/runtime/exit.ts'
import type { MigrationState } from '../src/db/migrate.ts'
import type { OpenedDatabase } from '../src/open-app.ts'

const failures = '69 database unreachable · 78 the schema is newer than this dms'

/** `dms migrate`: the database schema. Alone it applies what is pending. */
export function migrate(cli: Cli): Command {
  const command = manual('migrate', {
    summary: 'Bring the database schema up to date. Runs on the server only.',
    examples: [
      ['migrate', 'apply what is pending'],
      ['migrate status', ''],
      ['dms backup create && dms migrate', ''],
      ['migrate verify', 'whether what is pending works on this data'],
    ],
    exits: `0 current · 8 pending (check) · 75 another migrator is at it · ${failures}`,
    notes: ['The way back is a backup (dms restore), or `migrate down` for the newest migrations.'],
  })
  command.addCommand(
    manual('up', {
      summary: 'Apply what is pending (also without a subcommand).',
      examples: [
        ['migrate', 'the same'],
        ['migrate up -n', 'what would be applied'],
      ],
      exits: `0 applied, or nothing to do · 2 no such migration · 75 another migrator is at it · ${failures}`,
    })
      .option('--to <name>', 'up to this one only')
      .option('-n, --dry-run', 'say what would be applied')
      .option('--lock-timeout <duration>', 'wait this long for another migrator (default: database.lock_timeout)')
      .action((options) => up(cli, options)),
    { isDefault: true },
  )
  command.addCommand(
    manual('status', {
      summary: 'List every migration, applied or not.',
      examples: [
        ['migrate status', ''],
        ["migrate status -o json | jq -r '.pending[]'", ''],
      ],
      exits: '0 listed · 69 database unreachable',
      notes: ['With -o json one object: current, target, pending, unknown (applied by a newer dms), and migrations with all of them.'],
    }).action(() => status(cli)),
  )
  command.addCommand(
    manual('verify', {
      summary: 'Apply what is pending and take it back: whether it works on this data (locks tables meanwhile).',
      examples: [['migrate verify', '']],
      exits: `0 it works · 1 it does not · 75 another migrator is at it · ${failures}`,
    })
      .option('--lock-timeout <duration>', 'wait this long for another migrator (default: database.lock_timeout)')
      .action((options) => verify(cli, options)),
  )
  command.addCommand(
    manual('down', {
      summary: 'Take the newest migrations back, for an older dms, with what only they brought.',
      examples: [
        ['migrate down -n', 'what the last one takes with it'],
        ['migrate down --to 0012_search', 'where an older dms stopped; asks first'],
      ],
      exits: `0 done, or nothing to do · 2 no such migration; nobody could be asked, and no --yes · 7 no way back · 75 another migrator is at it · ${failures}`,
      notes: [
        'Stop every `dms serve` and `dms worker` first, and run this with the newer dms. Up to 0012_search there is no way back but dms restore.',
      ],
    })
      .option('--steps <number>', 'so many (default: 1)')
      .addOption(new Option('--to <name>', 'all that came after this one').conflicts('steps'))
      .option('-y, --yes', 'do not ask')
      .option('-n, --dry-run', 'say what would go')
      .option('--lock-timeout <duration>', 'wait this long for another migrator (default: database.lock_timeout)')
      .action((options) => down(cli, options)),
  )
  command.addCommand(
    manual('check', {
      summary: 'Say by the exit code whether the schema is current.',
      examples: [['dms migrate check -q || dms migrate', 'for a start script']],
      exits: `0 current · 8 pending · ${failures}`,
    }).action(() => check(cli)),
  )
  return command
}

interface UpFlags {
  to?: string
  dryRun?: boolean
  lockTimeout?: string
}

async function up(cli: Cli, { to, dryRun, lockTimeout }: UpFlags): Promise<void> {
  const given = lockTimeout === undefined ? null : durationOf('--lock-timeout', lockTimeout)
  await withDatabase(cli, 'migrate', async (database, timeout) => {
    const schema = await import('../src/db/migrate.ts')
    if (to !== undefined && !(await schema.known()).includes(to))
      throw usage(`--to ${to}: there is no such migration`, 'dms migrate status')
    const names = dryRun
      ? await schema.pendingUpTo(database.db, to)
      : await database.asOwner((owner) => schema.migrate(owner, given ?? timeout, (name) => cli.note(`applied ${name}`), to))
    list(cli, names, dryRun ? 'pending' : 'applied')
  })
}

interface DownFlags extends UpFlags {
  steps?: string
  yes?: boolean
}

async function down(cli: Cli, { steps = '1', to, yes, dryRun, lockTimeout }: DownFlags): Promise<void> {
  const given = lockTimeout === undefined ? null : durationOf('--lock-timeout', lockTimeout)
  if (!/^[1-9]\d{0,3}$/.test(steps)) throw usage(`--steps ${steps} is not a whole number of 1 or more`)
  const goal = to === undefined ? { steps: Number(steps) } : { to }
  await withDatabase(cli, 'migrate down', async (database, timeout) => {
    const schema = await import('../src/db/migrate.ts')
    if (to !== undefined && !(await schema.known()).includes(to))
      throw usage(`--to ${to}: there is no such migration`, 'dms migrate status')
    const way = await schema.wayBack(database.db, goal)
    if (!dryRun && way.length > 0) {
      for (const { name, loses } of way) cli.warn(`${name} takes with it ${loses}`)
      if (!yes) await confirm(cli.options, `Take back ${way.map(({ name }) => name).join(', ')}?`, '--yes')
      await database.asOwner((owner) => schema.revert(owner, given ?? timeout, goal, way))
    }
    cli.print(
      way.map(({ name, loses }) => ({ name, action: dryRun ? 'would be taken back' : 'taken back', loses })),
      { columns: [{ name: 'name' }, { name: 'action' }, { name: 'loses' }], id: 'name' },
    )
  })
}

async function verify(cli: Cli, { lockTimeout }: UpFlags): Promise<void> {
  const given = lockTimeout === undefined ? null : durationOf('--lock-timeout', lockTimeout)
  await withDatabase(cli, 'migrate verify', async (database, timeout) => {
    const { rehearse } = await import('../src/db/migrate.ts')
    list(cli, await database.asOwner((owner) => rehearse(owner, given ?? timeout)), 'would apply')
  })
}

const list = (cli: Cli, names: readonly string[], action: string): void =>
  cli.print(
    names.map((name) => ({ name, action })),
    { columns: [{ name: 'name' }, { name: 'action' }], id: 'name' },
  )

async function status(cli: Cli): Promise<void> {
  await withDatabase(cli, 'migrate status', async (database) => {
    const rows = (await statesOf(database)).map(({ name, applied_at, unknown }) => ({
      name,
      state: unknown ? 'unknown' : applied_at === null ? 'pending' : 'applied',
      applied_at: applied_at?.toISOString() ?? null,
    }))
    const named = (state: string) => rows.filter((row) => row.state === state).map(({ name }) => name)
    if (cli.options.format === 'json') {
      const current = named('applied').at(-1) ?? null
      const target = rows.findLast(({ state }) => state !== 'unknown')?.name ?? null
      return cli.print({ current, target, pending: named('pending'), unknown: named('unknown'), migrations: rows }, { columns: [] })
    }
    cli.print(rows, { columns: [{ name: 'name' }, { name: 'state' }, { name: 'applied_at' }], id: 'name' })
  })
}

async function check(cli: Cli): Promise<void> {
  await withDatabase(cli, 'migrate check', async (database) => {
    const states = await statesOf(database)
    const { NewerSchema } = await import('../src/db/migrate.ts')
    const newer = states.filter(({ unknown }) => unknown)
    if (newer.length > 0) throw new NewerSchema(newer.map(({ name }) => name))
    const pending = states.filter(({ applied_at }) => applied_at === null)
    if (pending.length > 0) throw new Failure('PENDING', `${pending.length} migrations are pending`, { fix: 'dms migrate' })
    const current = states.at(-1)?.name ?? null
    cli.print({ current, pending: [] }, { columns: [{ name: 'current' }], id: 'current', sentence: '✓ The schema is current' })
  })
}

const statesOf = async ({ db }: OpenedDatabase): Promise<MigrationState[]> => (await import('../src/db/migrate.ts')).status(db)

async function withDatabase(
  cli: Cli,
  command: string,
  work: (database: OpenedDatabase, lockTimeout: number) => Promise<void>,
): Promise<void> {
  cli.refuseRemote(command)
  const [{ openConfigured }, { openLog }] = await Promise.all([import('../src/open-app.ts'), import('../src/log/log.ts')])
  const { config } = await cli.config()
  const database = await openConfigured(
    config,
    openLog({ ...config.log, level: cli.options.verbose > 0 ? config.log.level : 'warn' }),
    false,
  )
  try {
    await work(database, config.database.lock_timeout)
  } finally {
    await database.close()
  }
}
