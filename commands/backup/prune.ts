import type { Command } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'

interface Flags {
  keep?: string
  yes?: boolean
  dryRun?: boolean
}

export const backupPrune = (cli: Cli): Command =>
  manual('prune', {
    summary: 'Delete old archives in backup.path',
    examples: [
      ['backup prune -n', 'dry run'],
      ['backup prune --keep 14 --yes', 'from cron'],
    ],
    exits: '0 done, or nothing to do · 2 no terminal to confirm on, and no --yes · 3 some could not be deleted',
    notes: ['Deletes only archives named by dms (dms-<time>.tar), and unfinished ones older than an hour.'],
  })
    .option('--keep <number>', 'number of newest archives to keep (default: backup.keep)')
    .option('-y, --yes', 'delete without asking')
    .option('-n, --dry-run', 'list what would be deleted')
    .action(async ({ keep, yes, dryRun }: Flags) => {
      cli.rejectRemote('backup prune')
      const [{ config }, repository] = await Promise.all([cli.config(), import('../../src/backup/backup-repository.ts')])
      const count = keep === undefined ? config.backup.keep : parseCount('--keep', keep)
      const backups = await repository.listPrunable(config.backup.path, count)
      if (backups.length > 0 && !yes && !dryRun) await confirm(cli.options, `Delete ${backups.length} backups?`, '--yes')
      await runBatch(cli, {
        command: 'backup prune',
        phase: 'deleting',
        items: backups,
        keyOf: ({ name }) => name,
        isDryRun: dryRun === true,
        async run({ name, size }) {
          if (!dryRun) await repository.removeBackup(config.backup.path, name)
          return { action: 'deleted', key: name, bytes: size }
        },
      })
    })
