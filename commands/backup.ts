import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { backupCreate } from './backup-create.ts'
import { backupList } from './backup-list.ts'
import { backupPrune } from './backup-prune.ts'
import { backupRehearse } from './backup-rehearse.ts'
import { backupVerify } from './backup-verify.ts'

export const backup = (cli: Cli): Command =>
  group('backup', 'Backups of everything: made while the server runs, restored by any newer dms.', [
    backupCreate(cli),
    backupList(cli),
    backupVerify(cli),
    backupRehearse(cli),
    backupPrune(cli),
  ])
