import type { Command } from 'commander'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { workThrough } from '../../src/cli/runtime/run-batch.ts'

interface Flags {
  keep?: string
  yes?: boolean
  dryRun?: boolean
}

export const backupPrune = (cli: Cli): Command =>
  manual('prune', {
    summary: 'Delete old archives of backup.path.',
    examples: [
      ['backup prune -n', 'which would go'],
      ['backup prune --keep 14 --yes', 'from cron'],
    ],
    exits: '0 done, or nothing to do · 2 nobody could be asked, and no --yes · 3 some could not be deleted',
    notes: ['Only archives that dms named itself go (dms-<time>.tar), and those that were broken off an hour ago or earlier.'],
  })
    .option('--keep <number>', 'this many of the newest stay (default: backup.keep)')
    .option('-y, --yes', 'do not ask')
    .option('-n, --dry-run', 'say which would go')
    .action(async ({ keep, yes, dryRun }: Flags) => {
      cli.refuseRemote('backup prune')
      const [{ config }, shelf] = await Promise.all([cli.config(), import('../../src/backup/backup-repository.ts')])
      const count = keep === undefined ? config.backup.keep : Number(keep)
      if (!Number.isSafeInteger(count) || count < 1) throw usage(`--keep ${keep} is not a whole number of 1 or more`)
      const things = await shelf.listPrunable(config.backup.path, count)
      if (things.length > 0 && !yes && !dryRun) await confirm(cli.options, `Delete ${things.length} backups?`, '--yes')
      await workThrough(cli, {
        command: 'backup prune',
        phase: 'deleting',
        things,
        keyOf: ({ name }) => name,
        isDryRun: dryRun === true,
        async run({ name, size }) {
          if (!dryRun) await shelf.removeBackup(config.backup.path, name)
          return { action: 'deleted', key: name, bytes: size }
        },
      })
    })
