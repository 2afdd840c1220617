import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Option } from 'commander'
import type { BackupResult } from '../../src/backup/create/create-backup.ts'
import type { BackupSink } from '../../src/backup/create/tar-sink.ts'
import { parseCount, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { columnsOf } from '../../src/cli/output/output.ts'
import { buildSummary } from '../../src/cli/output/result-stream.ts'
import { listSettings } from '../../src/cli/output/setting-rows.ts'
import { rejectClosedReader } from '../../src/cli/remote/download-target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { openLocalInstallation } from '../../src/cli/runtime/installation.ts'
import { dms } from '../../src/log/fix.ts'

interface Flags {
  to?: string
  format?: 'tar' | 'dir'
  files: boolean
  jobs?: string
  includeConfig?: boolean
  includeSecrets?: boolean
  lockTimeout: string
  keyFile?: string
}

export const create = (cli: Cli) =>
  manual('create', {
    summary: 'Back up database and files while the server runs',
    examples: [
      ['backup create', 'a new archive in backup.path'],
      ['backup create --format dir --to /mnt/nas/dms', 'an incremental folder'],
      ['dms backup create --to - | age -r "$KEY" > dms.tar.age', 'to a pipe'],
    ],
    exits:
      '0 done · 3 done, but stored files are missing or corrupt (also in later backups, until repaired) · 7 target exists · 75 another backup is running',
    notes: [
      'The backup is a snapshot of one moment. It has no search index, which a restore rebuilds.',
      'It has no keys of this machine either: after a restore, users sign in again and source passwords are entered again.',
      '--include-secrets adds the keys. Whoever can read such a backup can sign in as any user.',
    ],
  })
    .option('--to <place>', 'file, folder, or - for standard output (default: a new archive in backup.path)')
    .addOption(new Option('--format <format>', 'tar: one archive; dir: an incremental folder').choices(['tar', 'dir']))
    .option('--no-files', 'back up tables only')
    .option('--jobs <n>', 'parallel file copies, for --format dir (default: 8)')
    .option('--include-config', 'include the current settings, without secrets')
    .option('--include-secrets', 'include jwt_secret and sources_key')
    .option('--key-file <file>', 'key to sign the backup with (default: backup.key_file)')
    .option('--lock-timeout <duration>', 'time to wait for another backup', '0s')
    .action(async (flags: Flags) => {
      const lockTimeoutMs = parseDurationFlag('--lock-timeout', flags.lockTimeout)
      if (flags.to === '-' && process.stdout.isTTY)
        throw usage('--to - does not write an archive to a terminal', 'redirect it to a file or a pipe')
      const jobs = parseCount('--jobs', flags.jobs ?? '8', { max: 99 })
      if (flags.jobs !== undefined && flags.format !== 'dir') throw usage('--jobs needs --format dir: an archive is written sequentially')
      if (flags.to === '-' && flags.format === 'dir') throw usage('--format dir needs a folder, not standard output')
      const started = new Date()
      const installation = await openLocalInstallation(cli, 'backup create', { 'backup.key_file': flags.keyFile })
      const { place, sink } = await openSink(flags, jobs, installation.config.backup.path)
      if (flags.format !== 'dir' && /\.(?:gz|t[bgx]z|bz2|xz|zst|zip|7z)$/i.test(place))
        cli.warn(
          `warning: ${place} is a tar archive without compression; to compress it: ${cli.options.formatFix(dms`backup create --to -`)} | gzip > FILE.tar.gz`,
        )
      const [{ createBackup }, { describeDocuments, documentCounts, filePath }, { readKey }] = await Promise.all([
        import('../../src/backup/create/create-backup.ts'),
        import('../../src/backup/manifest.ts'),
        import('../../src/backup/signature.ts'),
      ])
      const { runAudited } = await import('../../src/cli/remote/local-client.ts')
      // A database that is full or read-only needs its backup most.
      const entry = { action: 'dms backup create', details: { place, with_secrets: flags.includeSecrets === true }, isOptional: true }
      const progress = cli.progress('backup')
      const runBackup = async () =>
        createBackup(installation, sink, {
          withFiles: flags.files,
          settings: flags.includeConfig ? await loadSettings(cli) : null,
          withSecrets: flags.includeSecrets === true,
          key: await readKey(installation.config.backup.key_file),
          lockTimeoutMs,
          signal: cli.signal,
          onProgress: ({ done, total, bytes, totalBytes }) => progress.update({ done, total, bytes_done: bytes, bytes_total: totalBytes }),
        })
      const result = await runAudited(installation.database, cli, entry, runBackup)
      progress.done()
      const { manifest, lostInStore, recordError } = result
      warnOfDamage(cli, result, (sha256) => join(place, filePath(sha256)))
      if (recordError) cli.warn(`warning: not recorded as the last success: ${recordError.message}`)
      if (manifest.damaged.length + lostInStore.length > 0) cli.exit = 'PARTIAL'
      const { files, bytes, damaged } = manifest
      const counts = {
        place,
        ...documentCounts(manifest),
        files,
        bytes,
        damaged: damaged.length,
        failed: damaged.length,
        lost_in_store: lostInStore.length,
        dry_run: false,
      }
      const summary = buildSummary(cli, 'backup create', counts, started)
      const sentence = `backed up ${describeDocuments(manifest)}, ${files} files, ${(bytes / 1e6).toFixed(1)} MB in ${summary.duration_seconds.toFixed(1)} s: ${place}`
      if (place === '-') return cli.note(sentence)
      const columns = columnsOf(['place', 'documents', 'files', 'bytes', 'damaged', 'duration_seconds'])
      cli.print(summary, { columns, id: 'place', sentence })
    })

function warnOfDamage(cli: Cli, { manifest, lostInStore, unreadable }: BackupResult, pathOf: (sha256: string) => string): void {
  const isUnreadable = new Set(unreadable)
  for (const { sha256, problem } of manifest.damaged)
    cli.warn(`warning: stored file ${sha256} ${isUnreadable.has(sha256) ? 'cannot be read: permission denied' : `is ${problem}`}`)
  for (const sha256 of lostInStore)
    cli.warn(`warning: stored file ${sha256} is damaged in the document store, but intact in the backup: ${pathOf(sha256)}`)
  if (manifest.damaged.length > 0)
    cli.warn(
      `the backup is incomplete: the files above are not in it, or corrupt; fix: ${cli.options.formatFix(dms`check`)} lists their documents`,
    )
}

async function openSink({ to, format }: Flags, jobs: number, backupFolder: string): Promise<{ place: string; sink: BackupSink }> {
  const [sinks, { folderSink }, { archiveName, defaultFolderName }] = await Promise.all([
    import('../../src/backup/create/tar-sink.ts'),
    import('../../src/backup/create/folder-sink.ts'),
    import('../../src/backup/backup-repository.ts'),
  ])
  if (to === '-') {
    rejectClosedReader()
    return { place: '-', sink: sinks.streamSink(process.stdout) }
  }
  const target = to === undefined ? null : resolve(to)
  if (format === 'dir') {
    const place = target ?? join(backupFolder, defaultFolderName)
    return { place, sink: folderSink(place, jobs) }
  }
  const isFolder = target === null || to?.endsWith('/') || (await stat(target).catch(() => null))?.isDirectory() === true
  const place = isFolder ? join(target ?? backupFolder, archiveName(new Date())) : target
  return { place, sink: sinks.fileSink(place) }
}

/** Returns the settings without defaults and secrets, by dotted key. */
async function loadSettings(cli: Cli): Promise<object> {
  const rows = listSettings(await cli.config(), { setOnly: true })
  return Object.fromEntries(rows.filter(({ secret }) => !secret).map(({ key, value }) => [key, value]))
}
