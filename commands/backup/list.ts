import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const backupList = (cli: Cli): Command =>
  manual('list', {
    summary: 'List the backups in backup.path, newest first',
    examples: [
      ['backup list', ''],
      ['backup list -o json | jq -r .[0].created_at', 'time of the last backup'],
    ],
    exits: '0 listed · 2 remote server given · 78 configuration invalid',
  })
    .alias('ls')
    .action(async () => {
      cli.rejectRemote('backup list')
      const [{ config }, { listBackups }] = await Promise.all([cli.config(), import('../../src/backup/backup-repository.ts')])
      cli.print(await listBackups(config.backup.path), {
        columns: [
          { name: 'name' },
          { name: 'created_at', title: 'CREATED' },
          { name: 'size', align: 'right' },
          { name: 'documents', align: 'right' },
          { name: 'schema' },
          { name: 'version' },
          { name: 'complete' },
        ],
        id: 'name',
      })
    })
