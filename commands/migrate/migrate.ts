import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { migrateCheck } from './check.ts'
import { commonExits } from './database.ts'
import { migrateDown } from './down.ts'
import { migrateStatus } from './status.ts'
import { migrateUp } from './up.ts'
import { migrateVerify } from './verify.ts'

export const migrate = (cli: Cli): Command =>
  manual('migrate', {
    summary: 'Manage the database schema',
    examples: [
      ['migrate', 'apply pending migrations'],
      ['migrate status', ''],
      ['dms backup create && dms migrate', ''],
      ['migrate verify', 'test pending migrations on the current data'],
    ],
    exits: `0 current · 8 migrations pending (check) · 75 another migration is running · ${commonExits}`,
    notes: ['Runs on the server only. To go back: restore a backup (dms restore), or `migrate down` for the newest migrations.'],
  })
    .addCommand(migrateUp(cli), { isDefault: true })
    .addCommand(migrateStatus(cli))
    .addCommand(migrateVerify(cli))
    .addCommand(migrateDown(cli))
    .addCommand(migrateCheck(cli))
