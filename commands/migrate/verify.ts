import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { commonExits, type LockFlags, printMigrations, withDatabase, withLockTimeout } from './database.ts'

export const migrateVerify = (cli: Cli): Command =>
  withLockTimeout(
    manual('verify', {
      summary: 'Apply pending migrations and roll them back',
      examples: [['migrate verify', '']],
      exits: `0 all migrations work · 1 a migration failed · 75 another migration is running · ${commonExits}`,
      notes: ['Tests the migrations on the current data. The tables are locked meanwhile.'],
    }),
  ).action((flags: LockFlags) =>
    withDatabase(cli, 'migrate verify', flags, async (database, lockTimeoutMs) => {
      const { verifyPending } = await import('../../src/db/migrate.ts')
      printMigrations(cli, await database.asOwner((owner) => verifyPending(owner, lockTimeoutMs)), 'would apply')
    }),
  )
