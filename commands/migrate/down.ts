import { type Command, Option } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { commonExits, type LockFlags, requireMigration, withDatabase, withLockTimeout } from './database.ts'

interface Flags extends LockFlags {
  to?: string
  steps?: string
  yes?: boolean
  dryRun?: boolean
}

export const migrateDown = (cli: Cli): Command =>
  withLockTimeout(
    manual('down', {
      summary: 'Revert the newest migrations, with their data',
      examples: [
        ['migrate down -n', 'shows what the last migration would lose'],
        ['migrate down --to 0012_search', 'to the schema of an older dms; asks first'],
      ],
      exits: `0 reverted, or nothing to do · 2 no such migration, or no terminal to confirm on, and no --yes · 7 migration cannot be reverted · 75 another migration is running · ${commonExits}`,
      notes: [
        'Stop every `dms serve` and `dms worker` first, and run this with the newer dms. Migrations up to 0012_search cannot be reverted: restore a backup.',
      ],
    })
      .option('--steps <number>', 'number of migrations to revert (default: 1)')
      .addOption(new Option('--to <name>', 'revert all migrations after this one').conflicts('steps'))
      .option('-y, --yes', 'revert without asking')
      .option('-n, --dry-run', 'list what would be reverted'),
  ).action(async (flags: Flags) => {
    const { steps = '1', to, yes, dryRun } = flags
    const goal = to === undefined ? { steps: parseCount('--steps', steps, { max: 9999 }) } : { to }
    await withDatabase(cli, 'migrate down', flags, async (database, lockTimeoutMs) => {
      const schema = await import('../../src/db/migrate.ts')
      await requireMigration(to)
      const reverted = await schema.planRevert(database.db, goal)
      if (!dryRun && reverted.length > 0) {
        for (const { name, loses } of reverted) cli.warn(`reverting ${name} loses ${loses}`)
        if (!yes) await confirm(cli.options, `Revert ${reverted.map(({ name }) => name).join(', ')}?`, '--yes')
        await database.asOwner((owner) => schema.revert(owner, lockTimeoutMs, goal, reverted))
      }
      cli.print(
        reverted.map(({ name, loses }) => ({ name, action: dryRun ? 'would revert' : 'reverted', loses })),
        { columns: [{ name: 'name' }, { name: 'action' }, { name: 'loses' }], id: 'name' },
      )
    })
  })
