import { join } from 'node:path'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, type PlainColumn } from '../../src/cli/output/output.ts'
import { openCommandLog } from '../../src/cli/remote/local-client.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'
import { acquireFileLock } from '../../src/cli/runtime/file-lock.ts'
import type { LoadedConfig } from '../../src/config/load.ts'
import { NoData } from '../../src/errors.ts'
import { dms } from '../../src/log/fix.ts'

export const database = (cli: Cli) => group('database', 'Upgrade the embedded PostgreSQL', [upgrade(cli), status(cli)])

interface Flags {
  oldBinaries?: string
  forget?: boolean
  yes?: boolean
  dryRun?: boolean
}

const upgrade = (cli: Cli) =>
  manual('upgrade', {
    summary: 'Bring the embedded PostgreSQL to the version of this dms',
    examples: [
      ['database upgrade -n', 'check everything, and show the space it needs'],
      ['database upgrade', 'keeps the old cluster'],
      ['database upgrade --forget', 'delete the old cluster; asks first'],
    ],
    exits:
      '0 upgraded, or nothing to do · 2 no terminal to confirm on, and no --yes · 7 database in use, disk too full, or objects that cannot be copied · 75 another upgrade is running · 78 programs of the old version missing, external database, or the database is newer',
    notes: [
      'Copies the database into a new cluster, compares all rows, and exchanges the two. The old cluster stays unchanged as postgres-VERSION in the data folder.',
      'Stop every `dms serve` and `dms worker` first. After a failure or an interruption the old cluster is in place, and the command can be repeated.',
      'The programs of the old version are looked for in postgres-VERSION-programs in the data folder. Without them, the error names the command that installs them.',
    ],
  })
    .option('--old-binaries <folder>', 'programs of the old version: a folder with bin/postgres, or with node_modules')
    .option('--forget', 'delete kept and unfinished clusters, and programs of older versions')
    .option('-y, --yes', 'delete without asking')
    .option('-n, --dry-run', 'show what would be done')
    .action((flags: Flags) =>
      withLock(cli, 'database upgrade', (loaded) => (flags.forget ? forget(cli, loaded, flags) : runUpgrade(cli, loaded, flags))),
    )

async function runUpgrade(cli: Cli, loaded: LoadedConfig, { oldBinaries, dryRun }: Flags): Promise<void> {
  const dataDir = loaded.config.data_dir
  const [{ planUpgrade }, { removeUpgrade, upgradeCluster }, { keptFolder }] = await Promise.all([
    import('../../src/db/embedded/upgrade/plan.ts'),
    import('../../src/db/embedded/upgrade/upgrade.ts'),
    import('../../src/db/embedded/exchange.ts'),
  ])
  const columns = [...columnsOf(['action', 'from', 'to']), ...columnsOf(['tables', 'rows'], { align: 'right' }), ...columnsOf(['kept'])]
  const plan = await planUpgrade(dataDir, oldBinaries)
  // A killed upgrade may have left its folder.
  if (!plan && !dryRun) await removeUpgrade(dataDir)
  if (!plan)
    return cli.print({ action: 'none' }, { columns: columnsOf(['action']), sentence: '✓ The database has the version of this dms' })
  const { from, to, databaseBytes, neededBytes, freeBytes } = plan
  const about = {
    from,
    to,
    database_bytes: databaseBytes,
    needed_bytes: neededBytes,
    free_bytes: freeBytes,
    kept: keptFolder(dataDir, from),
  }
  if (dryRun)
    return cli.print(
      { action: 'would upgrade', ...about },
      { columns: [...columnsOf(['action', 'from', 'to']), ...columnsOf(['needed_bytes', 'free_bytes'], { align: 'right' })] },
    )
  const started = performance.now()
  let phase = ''
  let progress = cli.progress('files')
  const { tables, rows, foreignSettings } = await upgradeCluster(dataDir, plan, {
    log: await openCommandLog(loaded, cli.options),
    signal: cli.signal,
    onProgress(next, { done, total, bytes, totalBytes, current }) {
      if (next !== phase) {
        progress.done()
        progress = cli.progress(next)
        phase = next
      }
      progress.update({ done, total, bytes_done: bytes, bytes_total: totalBytes, current })
    },
  })
  progress.done()
  for (const setting of foreignSettings) cli.warn(`not copied: ${setting}`)
  const duration_seconds = Math.round((performance.now() - started) / 100) / 10
  cli.print(
    { action: 'upgraded', ...about, tables, rows, not_copied: foreignSettings, duration_seconds },
    {
      columns,
      sentence: `✓ Upgraded to PostgreSQL ${to}: ${rows} rows in ${tables} tables. PostgreSQL ${from} is kept in ${about.kept}: ${cli.options.formatFix(dms`database upgrade --forget`)} deletes it`,
    },
  )
}

async function forget(cli: Cli, { config: { data_dir: dataDir } }: LoadedConfig, { yes, dryRun }: Flags): Promise<void> {
  const { forgetCluster, listClusters } = await import('../../src/db/embedded/upgrade/clusters.ts')
  const kept = (await listClusters(dataDir)).filter(({ state }) => state === 'kept' || state === 'unfinished')
  if (kept.length > 0 && !yes && !dryRun) await confirm(cli.options, `Delete ${kept.map(({ folder }) => folder).join(', ')}?`)
  const rows = []
  for (const cluster of kept) {
    if (!dryRun) await forgetCluster(dataDir, cluster)
    rows.push({ action: dryRun ? 'would delete' : 'deleted', ...cluster })
  }
  cli.print(rows, { columns: [...columnsOf(['action', 'folder']), ...sizes], id: 'folder', isQuery: false })
}

const sizes: PlainColumn[] = columnsOf(['version', 'bytes'], { align: 'right' })

const status = (cli: Cli) =>
  manual('status', {
    summary: 'List the clusters of the embedded PostgreSQL',
    examples: [
      ['database status', ''],
      ['database status -o json | jq -r \'.[] | select(.state == "kept").folder\'', 'kept clusters'],
    ],
    exits: '0 listed · 78 no data, or an external database',
    notes: [
      'States: current, outdated (dms database upgrade), newer (install a newer dms), kept, unfinished (removed by the next upgrade).',
    ],
  }).action(async () => {
    const { config } = await loadEmbedded(cli, 'database status')
    const { listClusters } = await import('../../src/db/embedded/upgrade/clusters.ts')
    cli.print(await listClusters(config.data_dir), { columns: [...columnsOf(['folder', 'state']), ...sizes], id: 'folder' })
  })

/** Loads the configuration, which has an embedded database. Throws Failure for an external database or a remote server, and NoData. */
async function loadEmbedded(cli: Cli, command: string): Promise<LoadedConfig> {
  cli.rejectRemote(command)
  const loaded = await cli.localConfig()
  const { config } = loaded
  if (config.database.url !== '')
    throw new Failure('CONFIG', 'database.url is set: dms upgrades its embedded PostgreSQL only', {
      fix: 'upgrade the external PostgreSQL with its own tools, such as pg_upgrade',
    })
  const [{ hasCluster, readMajor }, { clusterFolder, completeExchange, isExchanging }] = await Promise.all([
    import('../../src/db/embedded/cluster.ts'),
    import('../../src/db/embedded/exchange.ts'),
  ])
  if (!(await hasCluster(config.data_dir))) throw new NoData(config.data_dir)
  // Before the lock, which another user cannot take.
  if (!(await isExchanging(config.data_dir))) await readMajor(clusterFolder(config.data_dir))
  await completeExchange(config.data_dir)
  return loaded
}

/** Runs `work` on the data folder while no other process upgrades it. */
async function withLock(cli: Cli, command: string, work: (loaded: LoadedConfig) => Promise<void>): Promise<void> {
  const loaded = await loadEmbedded(cli, command)
  const release = await acquireFileLock(join(loaded.config.data_dir, 'postgres-upgrade.lock'), {
    deadline: 0,
    words: command,
    heldError: (owner) => new Failure('BUSY', `another upgrade is running (host and process: ${owner.split(' ').slice(0, 2).join(', ')})`),
  })
  try {
    await work(loaded)
  } finally {
    await release()
  }
}
