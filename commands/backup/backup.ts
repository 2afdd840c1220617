import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { backupCreate } from './create.ts'
import { backupList } from './list.ts'
import { backupPrune } from './prune.ts'
import { backupRehearse } from './rehearse.ts'
import { backupVerify } from './verify.ts'

export const backup = (cli: Cli): Command =>
  group('backup', 'Create, verify and prune backups', [
    backupCreate(cli),
    backupList(cli),
    backupVerify(cli),
    backupRehearse(cli),
    backupPrune(cli),
  ])
