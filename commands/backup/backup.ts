import { existsSync } from 'node:fs'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, type PlainColumn } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { openAuditDatabase } from '../../src/cli/runtime/installation.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Config } from '../../src/config/schema.ts'
import { NoData } from '../../src/errors.ts'
import { escapeControls } from '../../src/log/escape.ts'
import type { Fix } from '../../src/log/fix.ts'
import { create } from './create.ts'
import { rehearse } from './rehearse.ts'
import { verify } from './verify.ts'

export const backup = (cli: Cli) =>
  group('backup', 'Create, verify and prune backups', [create(cli), list(cli), verify(cli), rehearse(cli), prune(cli)])

const columns: PlainColumn[] = [
  ...columnsOf(['name', 'created_at']),
  ...columnsOf(['size', 'documents'], { align: 'right' }),
  ...columnsOf(['schema', 'version', 'complete']),
]

/** Returns the configuration. Throws NoData if there is neither a folder of backups nor an archive, as after a mistyped --data-dir. */
async function loadConfig(cli: Cli, command: string): Promise<Config> {
  cli.rejectRemote(command)
  const { config } = await cli.config()
  if (existsSync(config.backup.path)) return config
  const { hasData } = await import('../../src/open-app.ts')
  if (existsSync(config.data_dir) && (await hasData(config))) return config
  throw new NoData(config.data_dir)
}

const list = (cli: Cli) =>
  manual('list', {
    summary: 'List the backups in backup.path, newest first',
    examples: [
      ['backup list', ''],
      ['backup list -o json | jq -r .[0].created_at', 'time of the last backup'],
    ],
    exits: '0 listed · 2 remote server given · 78 configuration invalid, or neither backups nor an archive',
    notes: ['complete: false for an archive that is being written, was abandoned, or is truncated. dms backup verify reads every byte.'],
  })
    .alias('ls')
    .action(async () => {
      const [{ backup }, { listBackups }] = await Promise.all([
        loadConfig(cli, 'backup list'),
        import('../../src/backup/backup-repository.ts'),
      ])
      const warn = (name: string, { message, fix }: Error & { fix?: Fix }) =>
        cli.warn(escapeControls(`warning: skipped ${name}: ${message}${fix ? `; fix: ${cli.options.formatFix(fix)}` : ''}`))
      cli.print(await listBackups(backup.path, warn), { columns, id: 'name' })
    })

const prune = (cli: Cli) =>
  manual('prune', {
    summary: 'Delete old archives in backup.path',
    examples: [
      ['backup prune -n', 'dry run'],
      ['backup prune --keep 14 --yes', 'from cron'],
    ],
    exits:
      '0 done, or nothing to do · 2 no terminal to confirm on, and no --yes · 3 some could not be deleted · 78 neither backups nor an archive',
    notes: [
      'Deletes only archives named by dms (dms-<time>.tar), and unfinished ones older than an hour.',
      'Keeps the newest archive without damaged files, too, if all newer ones have some.',
      'Keeps truncated archives and those dated in the future, without counting them, and warns about each.',
    ],
  })
    .option('--keep <number>', 'newest archives to keep, each with files and tables only (default: backup.keep)')
    .option('-y, --yes', 'delete without asking')
    .option('-n, --dry-run', 'list what would be deleted')
    .action(async ({ keep, yes, dryRun }: { keep?: string; yes?: boolean; dryRun?: boolean }) => {
      const [config, repository] = await Promise.all([loadConfig(cli, 'backup prune'), import('../../src/backup/backup-repository.ts')])
      const count = keep === undefined ? config.backup.keep : parseCount('--keep', keep)
      const { prunable, postdated, truncated } = await repository.listPrunable(config.backup.path, count)
      for (const { name, created_at } of postdated)
        cli.warn(
          `${escapeControls(name)} is dated in the future (${escapeControls(created_at)}): it is kept, and does not count towards --keep`,
        )
      for (const { name } of truncated) cli.warn(`${escapeControls(name)} is truncated: it is kept, and does not count towards --keep`)
      if (prunable.length > 0 && !yes && !dryRun) await confirm(cli.options, `Delete ${prunable.length} backups?`)
      const deleted: string[] = []
      const work = () =>
        runBatch(cli, {
          command: 'backup prune',
          phase: 'deleting',
          items: prunable,
          keyOf: ({ name }) => name,
          isDryRun: dryRun,
          async run({ name, size }) {
            if (!dryRun) await repository.removeBackup(config.backup.path, name)
            deleted.push(name)
            return { action: 'deleted', key: name, bytes: size }
          },
        })
      const isChange = prunable.length > 0 && !dryRun
      const database = isChange ? await openAuditDatabase(cli, config, 'backup prune') : null
      if (!database) return work()
      const { runAudited } = await import('../../src/cli/remote/local-client.ts')
      const details = { place: config.backup.path, keep: count }
      await runAudited(database, cli, { action: 'dms backup prune', details, isOptional: true, counts: () => ({ deleted }) }, work)
    })
