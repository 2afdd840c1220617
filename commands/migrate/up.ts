import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { commonExits, type LockFlags, printMigrations, requireMigration, withDatabase, withLockTimeout } from './database.ts'

interface Flags extends LockFlags {
  to?: string
  dryRun?: boolean
}

export const migrateUp = (cli: Cli): Command =>
  withLockTimeout(
    manual('up', {
      summary: 'Apply pending migrations (default)',
      examples: [
        ['migrate', 'shorthand'],
        ['migrate up -n', 'dry run'],
      ],
      exits: `0 applied, or nothing to do · 2 no such migration · 75 another migration is running · ${commonExits}`,
    })
      .option('--to <name>', 'stop after this migration')
      .option('-n, --dry-run', 'list what would be applied'),
  ).action((flags: Flags) =>
    withDatabase(cli, 'migrate', flags, async (database, lockTimeoutMs) => {
      const { to, dryRun } = flags
      const { migrate, pendingUpTo } = await import('../../src/db/migrate.ts')
      await requireMigration(to)
      if (dryRun) return printMigrations(cli, await pendingUpTo(database.db, to), 'pending')
      const names = await database.asOwner((owner) => migrate(owner, lockTimeoutMs, (name) => cli.note(`applied ${name}`), to))
      printMigrations(cli, names, 'applied')
    }),
  )
