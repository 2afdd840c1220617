import type { Command } from 'commander'
import type { LostDocument } from '../src/backup/restore/find-lost-documents.ts'
import { backupNamed, type KeyFlags, keySettings, refusePassword, signaturePolicy } from '../src/cli/arguments/backup-source.ts'
import { durationOf } from '../src/cli/arguments/duration.ts'
import { manual } from '../src/cli/output/manual.ts'
import { summaryOf } from '../src/cli/output/summary.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'
import { openPlaces } from '../src/cli/runtime/places.ts'

interface Flags extends KeyFlags {
  toDatabase?: string
  filesTo?: string
  confirm?: string
  reindex: boolean
  dryRun?: boolean
  lockTimeout: string
  skipDamaged?: boolean
  keepSourcesEnabled?: boolean
}

export const restore = (cli: Cli): Command =>
  manual('restore <backup>', {
    summary: 'Put a backup into an empty place: a new data folder, or an empty database and an empty folder.',
    examples: [
      ['restore dms-20261120T031500Z.tar --data-dir /srv/dms', 'one of backup.path'],
      ['age -d -i key dms.tar.age | dms restore -', 'from a pipe'],
      ['dms restore /mnt/nas/dms -n', 'what is in it, and whether it could be restored here'],
    ],
    exits:
      '0 done · 1 the backup is damaged, or not signed as it should be · 2 --confirm names another database · 3 done, but some documents have no file · 6 no such backup · 7 the place is not empty · 69 the database was lost during COMMIT · 75 busy · 78 the backup is newer than this dms',
    notes: [
      'Backups of older versions are brought up to date. All tables are restored or none; a restore that was broken off can be run again.',
      'The database may be a role of its own: no superuser is needed.',
      'Sources are disabled, as the place that the backup was made of may still sync them: dms sources update NAME --status active',
    ],
  })
    .option('--to-database <url>', 'instead of database.url; without a password in it (PGPASSFILE, PGPASSWORD)')
    .option('--files-to <folder>', 'instead of storage.path')
    .option('--confirm <database>', 'only into the database of this name')
    .option('--skip-damaged', 'restore all but the damaged files, and list their documents')
    .option('--keep-sources-enabled', 'let sources sync at once, as they did before')
    .option('--key-file <file>', 'check the signature with this key (default: backup.key_file)')
    .option('--unsigned-ok', 'take a backup without a signature although there is a key')
    .option('--no-reindex', 'leave the index to `dms search reindex` (until then nothing is found)')
    .option('-n, --dry-run', 'read the head of the backup only')
    .option('--lock-timeout <duration>', 'wait this long for a migration or another restore', '0s')
    .action(async (given: string, flags: Flags) => {
      const lockTimeoutMs = durationOf('--lock-timeout', flags.lockTimeout)
      const settings = settingsOf(flags)
      const source = await backupNamed(cli, given)
      const started = new Date()
      const places = await openPlaces(cli, 'restore', settings)
      const { readDatabaseName, assertEmpty, restoreBackup } = await import('../src/backup/restore/restore.ts')
      const name = await readDatabaseName(places)
      if (flags.confirm !== undefined && flags.confirm !== name)
        throw usage(`--confirm ${flags.confirm}: the database is called "${name}"; nothing was changed`)
      const report = (more: object, sentence: string, lists: object = {}) => {
        const summary = summaryOf(cli, 'restore', { dry_run: flags.dryRun === true, ...more, ...lists }, started)
        cli.print(summary, { columns: [...Object.keys(more), 'duration_seconds'].map((name) => ({ name })), sentence })
      }
      if (flags.dryRun) {
        await assertEmpty(places)
        const { readHead } = await import('../src/backup/backup-source.ts')
        const { created_at, dms, documents, files, bytes } = await readHead(source)
        return report({ created_at, documents, files, bytes }, `would restore ${documents} documents of ${created_at} (dms ${dms})`)
      }
      const policy = await signaturePolicy(places.config.backup.key_file, flags)
      const progress = cli.progress('restore')
      const { manifest, ignored, skipped, lost, keptSecrets, disabledSources } = await restoreBackup(places, source, {
        ...policy,
        lockTimeoutMs,
        skipsDamaged: flags.skipDamaged === true,
        keepsSources: flags.keepSourcesEnabled === true,
        signal: cli.signal,
        onHead: ({ documents, created_at, dms }) => cli.note(`restoring ${documents} documents of ${created_at} (dms ${dms})`),
        onProgress: ({ done, total, bytes, totalBytes }) => progress.update({ done, total, bytes_done: bytes, bytes_total: totalBytes }),
      })
      progress.done()
      for (const table of ignored) cli.warn(`warning: the table ${table} is none of dms and was left out`)
      for (const { path, problem } of skipped) cli.warn(`warning: ${path} is ${problem} in the backup and was left out`)
      for (const document of lost) cli.warn(`warning: ${sentenceOf(document)}`)
      if (disabledSources.length > 0) {
        const names = disabledSources.map(({ name }) => `"${name}"`).join(', ')
        cli.note(`sources are disabled until you start them: ${names}; fix: dms sources update NAME --status active`)
      }
      for (const name of keptSecrets) cli.warn(`warning: ${name} was here already and stays as it is`)
      if (!manifest.has_files) cli.warn('warning: the backup has no files; put them into the document store')
      if (lost.length + skipped.length > 0) cli.exit = 'PARTIAL'
      if (flags.reindex) await reindex(cli, settings)
      const { documents, files, bytes } = manifest
      report(
        { created_at: manifest.created_at, documents, files, bytes, without_file: lost.length },
        `restored ${documents} documents and ${files} files, as of ${manifest.created_at}${lost.length > 0 ? `; ${lost.length} documents have no file` : ''}`,
        { skipped, items: lost, disabled_sources: disabledSources },
      )
    })

const sentenceOf = ({ document_id, title, filename, problem, origin }: LostDocument): string =>
  `document ${document_id} "${title}" (${filename}) has no file: it ${origin === 'store' ? 'was' : 'is'} ${problem} in the ${origin === 'store' ? 'document store when the backup was made' : 'backup'}`

function settingsOf({ toDatabase, filesTo, ...keys }: Flags): Record<string, string> {
  refusePassword(toDatabase)
  return {
    ...keySettings(keys),
    ...(toDatabase === undefined ? {} : { 'database.url': toDatabase, 'database.migration_url': '' }),
    ...(filesTo === undefined ? {} : { 'storage.path': filesTo }),
  }
}

async function reindex(cli: Cli, settings: Record<string, string>): Promise<void> {
  const loaded = await cli.config(settings)
  const [{ openApp }, { commandLog }, search] = await Promise.all([
    import('../src/open-app.ts'),
    import('../src/cli/remote/local-client.ts'),
    import('../src/search/search.ts'),
  ])
  const app = await openApp(loaded.config, await commandLog(loaded, cli.options), { migrate: 'never', statementTimeout: false })
  const progress = cli.progress('index')
  try {
    await search.reindex(app, { signal: cli.signal, onProgress: (done, total) => progress.update({ done, total }) })
  } finally {
    progress.done()
    await app.close()
  }
}
