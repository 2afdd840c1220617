import { existsSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadSignaturePolicy, rejectUrlPassword, resolveBackup, type SigningKeyFlags } from '../../src/cli/arguments/backup-source.ts'
import { parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { startFindings } from '../../src/cli/output/findings.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'
import { openLocalInstallation } from '../../src/cli/runtime/installation.ts'
import type { Config } from '../../src/config/schema.ts'
import { escapeControls } from '../../src/log/escape.ts'
import { dms } from '../../src/log/fix.ts'
import type { Log } from '../../src/log/log.ts'
import { nullIfMissing } from '../../src/missing-file.ts'
import type { Installation } from '../../src/open-app.ts'

interface Flags extends SigningKeyFlags {
  toDatabase?: string
  workDir?: string
  lockTimeout: string
}

interface Problem {
  readonly path: string
  readonly problem: string
}

export const rehearse = (cli: Cli) =>
  manual('rehearse [backup]', {
    summary: 'Restore a backup temporarily and compare it',
    examples: [
      ['backup rehearse', 'the newest archive of backup.path with files'],
      ['dms backup rehearse /mnt/nas/dms -q', 'from cron'],
      ['backup rehearse --to-database postgres://dms@db/rehearsal', 'in an empty database, which stays empty'],
    ],
    exits:
      '0 restored and equal · 3 damaged or different · 6 no such backup · 7 database not empty · 75 another rehearsal is running, or a backup has updated the folder · 78 backup is newer than this dms',
    notes: [
      'Starts a temporary PostgreSQL in the data folder and removes it at the end. Needs as much disk space as the backup.',
      'The rows are restored in one transaction, which is rolled back. Live data is not touched.',
    ],
  })
    .option('--to-database <url>', 'empty database to use; no password in the URL (use PGPASSFILE or PGPASSWORD)')
    .option('--work-dir <folder>', 'folder for files and database (default: rehearsal in the data folder)')
    .option('--key-file <file>', 'key to verify the signature with (default: backup.key_file)')
    .option('--unsigned-ok', 'accept an unsigned backup although a key is configured')
    .option('--lock-timeout <duration>', 'time to wait for another rehearsal', '0s')
    .action(async (reference: string | undefined, flags: Flags) => {
      const lockTimeoutMs = parseDurationFlag('--lock-timeout', flags.lockTimeout)
      rejectUrlPassword(flags.toDatabase)
      const installation = await openLocalInstallation(cli, 'backup rehearse', { 'backup.key_file': flags.keyFile })
      const { config, log, database } = installation
      const source = await resolveBackup(
        cli,
        reference === undefined || reference === 'latest' ? await latestBackup(installation) : reference,
      )
      const policy = await loadSignaturePolicy(config.backup.key_file, flags)
      const [{ rehearseRestore }, { BackupDamaged, describeDocuments, documentCounts }, { withLock }, { recordSuccess }] =
        await Promise.all([
          import('../../src/backup/rehearse.ts'),
          import('../../src/backup/manifest.ts'),
          import('../../src/db/lock.ts'),
          import('../../src/jobs/last-success.ts'),
        ])
      const columns = [{ name: 'problem' }, { name: 'path' }] as const
      const findings = startFindings<Problem>(
        cli,
        'backup rehearse',
        columns,
        ({ path, problem }) => escapeControls(`${problem}  ${path}`),
        'path',
      )
      const rehearse = async () => {
        const folder = join(flags.workDir ?? config.data_dir, 'rehearsal')
        const progress = cli.progress('rehearsal')
        const result = await withScratch(cli, scratchConfig(config, folder, flags.toDatabase ?? ''), log, (scratch) =>
          rehearseRestore(scratch, source, {
            ...policy,
            lockTimeoutMs,
            signal: cli.signal,
            onHead: (head) => cli.note(`rehearsing with ${describeDocuments(head)} of ${head.created_at} (dms ${head.dms})`),
            onProgress: ({ done, total, bytes, totalBytes }) =>
              progress.update({ done, total, bytes_done: bytes, bytes_total: totalBytes }),
          }),
        ).catch((error: unknown) => {
          if (!(error instanceof BackupDamaged)) throw error
          findings.add({ path: source.name, problem: error.message })
          if (error.fix) cli.warn(`fix: ${escapeControls(cli.options.formatFix(error.fix))}`)
          return null
        })
        progress.done()
        for (const problem of result?.problems ?? []) findings.add(problem)
        for (const { sha256, problem } of result?.manifest.damaged ?? [])
          findings.add({ path: sha256, problem: `the stored file was ${problem} when the backup was made` })
        const isGood = result !== null && result.problems.length + result.manifest.damaged.length === 0
        if (isGood) await recordSuccess(database.db, 'rehearsal')
        const about = result && {
          backup: source.name,
          created_at: result.manifest.created_at,
          ...documentCounts(result.manifest),
          rows: result.rows,
          has_compared_rows: result.hasComparedRows,
          files: result.files,
        }
        const verdict = about ? `${about.rows} rows and ${about.files} files restored and compared` : `${source.name} cannot be restored`
        findings.finish(about ?? { backup: source.name }, escapeControls(isGood ? `✓ ${verdict}` : `damaged: ${verdict}`))
      }
      await withLock(database, 'rehearsal', lockTimeoutMs, rehearse, { signal: cli.signal })
    })

/** Returns the path of the latest backup in backup.path. Throws Failure NOT_FOUND. */
async function latestBackup({ config: { backup }, database }: Installation): Promise<string> {
  const [{ findLatestBackup }, { loadStoreId }] = await Promise.all([
    import('../../src/backup/backup-repository.ts'),
    import('../../src/files/store-marker.ts'),
  ])
  const name = await findLatestBackup(backup.path, await loadStoreId(database.db))
  if (name === null) throw new Failure('NOT_FOUND', `no backup in ${backup.path}`, { fix: [dms`backup create`, ', or give a path'] })
  return join(backup.path, name)
}

/** Returns the settings of a temporary installation, which needs no durability. `url` '': with its own PostgreSQL. */
const scratchConfig = (config: Config, folder: string, url: string): Config => ({
  ...config,
  data_dir: folder,
  storage: { ...config.storage, kind: 'disk', path: join(folder, 'files'), tmp_path: '', fsync: false },
  database: { ...config.database, url, migration_url: '' },
})

/** Opens a temporary installation for `work` and removes it afterwards, also after a failure. */
async function withScratch<T>(cli: Cli, config: Config, log: Log, work: (scratch: Installation) => Promise<T>): Promise<T> {
  const { openInstallation } = await import('../../src/open-app.ts')
  const folder = config.data_dir
  await removeScratch(folder, log)
  // Under root, PostgreSQL runs as another user, who must be able to enter the folder.
  await mkdir(folder, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
  await writeFile(join(folder, markerName), '', { flush: true })
  let scratch: Awaited<ReturnType<typeof openInstallation>> | null = null
  const remove = async () => {
    await scratch?.close().catch(() => {})
    scratch = null
    await removeFolder(folder)
  }
  void cli.signal
  cli.onForcedExit(remove)
  try {
    scratch = await openInstallation(config, log, { creates: true })
    return await work(scratch)
  } finally {
    await remove()
  }
}

/** Marks a folder as temporary: the next rehearsal may remove it. */
const markerName = '.dms-rehearsal'

/** Stops the PostgreSQL of a killed rehearsal and removes its folder. Throws Failure CONFLICT for another folder. */
async function removeScratch(folder: string, log: Log): Promise<void> {
  const names = (await readdir(folder).catch(nullIfMissing)) ?? []
  if (names.length > 0 && !names.includes(markerName))
    throw new Failure('CONFLICT', `${folder} is not the folder of a rehearsal: it has ${names[0]}`, { fix: 'pass another --work-dir' })
  if (existsSync(join(folder, 'postgres', 'PG_VERSION'))) {
    const { joinEmbedded } = await import('../../src/db/embedded/embedded.ts')
    // The last process that leaves the server stops it.
    await joinEmbedded({ dataDir: folder, log })
      .then((embedded) => embedded.release())
      .catch((error: Error) => log.warn({ err: error.message }, 'cannot stop the PostgreSQL of an earlier rehearsal; removing its folder'))
  }
  await removeFolder(folder)
}

/** Removes a folder with its marker last: if this is interrupted, the next rehearsal may remove the rest. */
async function removeFolder(folder: string): Promise<void> {
  const names = await readdir(folder).catch((): string[] => [])
  const options = { recursive: true, force: true, maxRetries: 5 }
  for (const name of names) if (name !== markerName) await rm(join(folder, name), options)
  await rm(folder, options)
}
