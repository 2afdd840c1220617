import type { LostDocument } from '../src/backup/restore/find-lost-documents.ts'
import type { RestoreResult } from '../src/backup/restore/load-backup.ts'
import { loadSignaturePolicy, rejectUrlPassword, resolveBackup, type SigningKeyFlags } from '../src/cli/arguments/backup-source.ts'
import { parseDurationFlag } from '../src/cli/arguments/flag-values.ts'
import { manual } from '../src/cli/output/manual.ts'
import { columnsOf } from '../src/cli/output/output.ts'
import { buildSummary } from '../src/cli/output/result-stream.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { exitOf, usage } from '../src/cli/runtime/exit.ts'
import { openLocalInstallation, openLocalTarget } from '../src/cli/runtime/installation.ts'
import type { FlagSettings } from '../src/config/load.ts'
import { dms } from '../src/log/fix.ts'

interface Flags extends SigningKeyFlags {
  toDatabase?: string
  filesTo?: string
  confirm?: string
  reindex: boolean
  dryRun?: boolean
  lockTimeout: string
  skipDamaged?: boolean
  keepSourcesEnabled?: boolean
}

export const restore = (cli: Cli) =>
  manual('restore <backup>', {
    summary: 'Restore a backup into an empty database and store',
    examples: [
      ['restore dms-20261120T031500Z.tar --data-dir /srv/dms', 'an archive of backup.path'],
      ['age -d -i key dms.tar.age | dms restore -', 'from a pipe'],
      ['dms restore /mnt/nas/dms -n', 'show the contents and check that it could be restored here'],
    ],
    exits:
      '0 restored · 1 backup damaged or signature invalid · 2 --confirm names another database · 3 restored, but some documents have no file · 6 no such backup · 7 database or store not empty · 69 database lost during COMMIT · 75 busy · 78 backup is newer than this dms',
    notes: [
      'The target is a new data folder, or an empty database and an empty folder. The database role needs no superuser rights.',
      'Backups of older versions are migrated. All tables are restored or none; an interrupted restore can be run again. Interrupted at its end, while it builds the search index, it is complete: a warning says so.',
      'Sources are disabled, because the original server may still sync them. To enable one: dms sources update NAME --status active',
    ],
  })
    .option('--to-database <url>', 'database instead of database.url; no password in the URL (use PGPASSFILE or PGPASSWORD)')
    .option('--files-to <folder>', 'folder instead of storage.path')
    .option('--confirm <database>', 'restore only if the database has this name')
    .option('--skip-damaged', 'skip damaged files and list their documents')
    .option('--keep-sources-enabled', 'leave sources enabled')
    .option('--key-file <file>', 'key to verify the signature with (default: backup.key_file)')
    .option('--unsigned-ok', 'accept an unsigned backup although a key is configured')
    .option('--no-reindex', 'leave the index to `dms search reindex`; search finds nothing until then')
    .option('-n, --dry-run', 'show the contents and check the signature; reads only the ends of the backup (all of it: dms backup verify)')
    .option('--lock-timeout <duration>', 'time to wait for a migration or another restore', '0s')
    .action(async (location: string, flags: Flags) => {
      const lockTimeoutMs = parseDurationFlag('--lock-timeout', flags.lockTimeout)
      const settings = overridesOf(flags)
      const source = await resolveBackup(cli, location)
      const started = new Date()
      const target = await openLocalTarget(cli, 'restore', settings)
      const { describeDocuments, documentCounts } = await import('../src/backup/manifest.ts')
      const { readDatabaseName, assertEmpty, restoreBackup } = await import('../src/backup/restore/restore.ts')
      const name = await readDatabaseName(target)
      if (flags.confirm !== undefined && flags.confirm !== name)
        throw usage(`--confirm ${flags.confirm}: the name of the database is "${name}"; nothing was changed`)
      const report = (counts: object, sentence: string, lists: object = {}) => {
        const summary = buildSummary(cli, 'restore', { dry_run: flags.dryRun === true, ...counts, ...lists }, started)
        cli.print(summary, { columns: columnsOf([...Object.keys(counts), 'duration_seconds']), sentence })
      }
      const policy = await loadSignaturePolicy(target.config.backup.key_file, flags)
      if (flags.dryRun) {
        const [{ readHead }, { checkManifest }] = await Promise.all([
          import('../src/backup/backup-source.ts'),
          import('../src/backup/backup-repository.ts'),
        ])
        const head = await readHead(source)
        if (location !== '-') await checkManifest(source.name, head, policy)
        else if (policy.key) cli.warn('warning: -n does not read a pipe to its end, where the signature is: it was not checked')
        const { created_at, dms, files, bytes } = head
        const conflict = await assertEmpty(target).catch((error: unknown) => ({ error }))
        if (conflict) cli.exit = exitOf(conflict.error)
        const sentence = `${conflict ? 'the backup has' : 'would restore'} ${describeDocuments(head)} of ${created_at} (dms ${dms})`
        report({ created_at, ...documentCounts(head), files, bytes }, sentence)
        if (conflict) throw conflict.error
        return
      }
      const installation = await openLocalInstallation(cli, 'restore', settings, { creates: true, isRestore: true })
      const progress = cli.progress('restore')
      const result = await restoreBackup(installation, source, {
        ...policy,
        lockTimeoutMs,
        skipsDamaged: flags.skipDamaged === true,
        keepsSources: flags.keepSourcesEnabled === true,
        signal: cli.signal,
        onHead: (head) => cli.note(`restoring ${describeDocuments(head)} of ${head.created_at} (dms ${head.dms})`),
        onProgress: ({ done, total, bytes, totalBytes }) => progress.update({ done, total, bytes_done: bytes, bytes_total: totalBytes }),
      })
      progress.done()
      warnOfGaps(cli, result)
      const { manifest, skipped, lost, disabledSources } = result
      const { created_at, files, bytes } = manifest
      const details = { backup: source.name, created_at, ...documentCounts(manifest), files, lost: lost.length, skipped: skipped.length }
      const { tryAuditCommand } = await import('../src/cli/remote/local-client.ts')
      // Afterwards: the log is part of the backup.
      await tryAuditCommand(installation.database, cli, { action: 'dms restore', details })
      if (lost.length + skipped.length > 0) cli.exit = 'PARTIAL'
      const notIndexed = flags.reindex ? await reindex(cli, settings).catch((error: unknown) => ({ error })) : undefined
      const current = lost.filter((version) => version.current).length
      report(
        { created_at, ...documentCounts(manifest), files, bytes, without_file: current, old_without_file: lost.length - current },
        [
          `restored ${describeDocuments(manifest)} and ${files} files, as of ${created_at}`,
          ...(current > 0 ? [`${current} documents have no file`] : []),
          ...(lost.length > current ? [`${lost.length - current} old versions have no file`] : []),
        ].join('; '),
        { skipped, items: lost, failed: lost.length, disabled_sources: disabledSources },
      )
      if (!notIndexed) return
      const fix = cli.options.formatFix(dms`search reindex`)
      cli.warn(`warning: everything is restored, but search does not find it yet: its index is not complete   fix: ${fix}`)
      throw notIndexed.error
    })

/** Warns of everything that differs from the archive at the time of the backup. */
function warnOfGaps(cli: Cli, { manifest, ignored, skipped, lost, keptSecrets, disabledSources }: RestoreResult): void {
  for (const table of ignored) cli.warn(`warning: skipped table ${table}, which does not belong to dms`)
  for (const { path, problem } of skipped) cli.warn(`warning: skipped ${path}, which is ${problem} in the backup`)
  for (const version of lost) cli.warn(`warning: ${formatLost(version)}`)
  if (disabledSources.length > 0) {
    const names = disabledSources.map(({ name }) => `"${name}"`).join(', ')
    cli.note(`disabled sources: ${names}; to enable one: ${cli.options.formatFix(dms`sources update NAME --status active`)}`)
  }
  for (const name of keptSecrets) cli.warn(`warning: kept the existing ${name}`)
  if (!manifest.has_files) cli.warn('warning: the backup has no files; copy them to the document store')
}

const formatLost = ({ document_id, title, filename, version, current, problem, origin }: LostDocument): string =>
  `${current ? '' : `version ${version} of `}document ${document_id} "${title}" (${filename}) has no file: it ${origin === 'store' ? 'was' : 'is'} ${problem} in the ${origin === 'store' ? 'document store when the backup was made' : 'backup'}`

function overridesOf({ toDatabase, filesTo, keyFile }: Flags): FlagSettings {
  rejectUrlPassword(toDatabase)
  return {
    'backup.key_file': keyFile,
    ...(toDatabase === undefined ? {} : { 'database.url': toDatabase, 'database.migration_url': '' }),
    ...(filesTo === undefined ? {} : { 'storage.kind': 'disk', 'storage.path': filesTo }),
  }
}

async function reindex(cli: Cli, settings: FlagSettings): Promise<void> {
  const loaded = await cli.config(settings)
  const [{ openApp }, { openCommandLog }, search] = await Promise.all([
    import('../src/open-app.ts'),
    import('../src/cli/remote/local-client.ts'),
    import('../src/search/search.ts'),
  ])
  const app = await openApp(loaded.config, await openCommandLog(loaded, cli.options), { migrate: 'never', hasStatementTimeout: false })
  const progress = cli.progress('index')
  try {
    await search.reindex(app, { signal: cli.signal, onProgress: (done, total) => progress.update({ done, total }) })
  } finally {
    progress.done()
    await app.close()
  }
}
