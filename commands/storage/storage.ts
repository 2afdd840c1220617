import { Option } from 'commander'
import { parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { createThrottle } from '../../src/cli/arguments/throttle.ts'
import { type BatchItem, errorColumn, startBatch } from '../../src/cli/output/batch-output.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { openLocalInstallation } from '../../src/cli/runtime/installation.ts'
import { exitOfAbort, toItemError } from '../../src/cli/runtime/run-batch.ts'
import type { MigrationOptions } from '../../src/files/store-migration.ts'
import type { StoreKind } from '../../src/ports/file-store.ts'

export const storage = (cli: Cli) =>
  group('storage', 'Show document stores and move files between them', [migrate(cli), status(cli), adopt(cli)])

interface MigrateFlags {
  to: StoreKind
  verify?: boolean
  limitRate?: string
  keep?: boolean
  dryRun?: boolean
  lockTimeout: string
}

const columns: Column<BatchItem>[] = [...columnsOf(['action', 'key']), ...columnsOf(['count', 'bytes'], { align: 'right' }), errorColumn]

const migrate = (cli: Cli) =>
  manual('migrate', {
    summary: 'Move stored files to S3, or back to the disk',
    examples: [
      ['storage migrate --to s3 -n', 'dry run'],
      ['storage migrate --to s3 --verify', 'reads every copy back'],
      ['storage migrate --to disk --limit-rate 20MB/s', 'back, at a limited rate'],
    ],
    exits:
      '0 done, or nothing to do · 2 bad flag · 3 done, but some files failed · 69 database or store unreachable · 75 another migration is running · 78 storage.s3_bucket is not set',
    notes: [
      'Runs on the server only, while servers and workers run. They must all have the settings of both stores.',
      'A file is removed from its old store when its copy has the same SHA-256. After an interruption, run the command again.',
      'storage.kind names the store of new files: change it first, and restart the servers one after the other.',
    ],
  })
    .addOption(new Option('--to <kind>', 'store to move the files to').choices(['s3', 'disk']).makeOptionMandatory())
    .option('--verify', 'read each copy back and compare its SHA-256')
    .option('--limit-rate <rate>', 'maximum rate, e.g. 500kB/s or 5MiB/s')
    .option('--keep', 'copy only: keep the files in the old store')
    .option('-n, --dry-run', 'count the files and bytes to move')
    .option('--lock-timeout <duration>', 'time to wait for another migration', '0s')
    .action(async ({ to, verify = false, keep = false, dryRun: isDryRun = false, ...flags }: MigrateFlags) => {
      const lockTimeoutMs = parseDurationFlag('--lock-timeout', flags.lockTimeout)
      const throttle = createThrottle(flags.limitRate)
      const app = await cli.app('storage migrate', { hasStatementTimeout: false })
      const [{ migrateStore, zeroCounts }, { runAudited }] = await Promise.all([
        import('../../src/files/store-migration.ts'),
        import('../../src/cli/remote/local-client.ts'),
      ])
      const batch = startBatch(cli, 'storage migrate', { isDryRun, columns })
      const progress = cli.progress('storage migrate')
      const counts = zeroCounts()
      const done = () => Object.entries(counts).filter(([, { files }]) => files > 0)
      let failure: unknown = null
      try {
        const options: MigrationOptions = {
          to,
          verify,
          keep,
          isDryRun,
          lockTimeoutMs,
          throttle,
          signal: cli.signal,
          onProgress: ({ done, total, bytes, totalBytes }) => progress.update({ done, total, bytes_done: bytes, bytes_total: totalBytes }),
          onFailure: (key, error, bytes) => {
            progress.clear()
            batch.add({ action: 'failed', key, bytes, error: toItemError(error) })
          },
        }
        const work = () => migrateStore(app, counts, options)
        const entry = { action: 'dms storage migrate', target: to, details: { verify, keep }, counts: () => Object.fromEntries(done()) }
        await (isDryRun ? work() : runAudited(app, cli, entry, work))
      } catch (error) {
        failure = error
        if (cli.signal.aborted) cli.exit = exitOfAbort(cli.signal)
      }
      progress.done()
      for (const [action, { files, bytes }] of done()) batch.add({ action, key: 'files', count: files, bytes })
      if (failure && !cli.signal.aborted) throw failure
      batch.finish({ to })
      if (app.stores.primary !== to && !isDryRun)
        cli.note(`new files still go to ${app.stores.primary}: set storage.kind = "${to}", restart the servers, and run this command again`)
    })

const status = (cli: Cli) =>
  manual('status', {
    summary: 'Count the files in each document store',
    examples: [
      ['storage status', ''],
      ['storage status --json | jq \'.[] | select(.role == "secondary").files\'', 'files that are left to move'],
    ],
    exits: '0 all stores answered · 69 database or a store unreachable',
    notes: [
      'Runs on the server only. Lists all files, which takes minutes for millions of them in S3.',
      'New files go to the primary store. The secondary is read where the primary lacks a file.',
    ],
  }).action(async () => {
    const app = await cli.app('storage status', { hasStatementTimeout: false })
    const { describeStores } = await import('../../src/files/store-status.ts')
    const stores = await describeStores(app, cli.signal)
    if (stores.some(({ state }) => state === 'unavailable')) cli.exit = 'UNAVAILABLE'
    const columns = [
      ...columnsOf(['store', 'role', 'state']),
      ...columnsOf(['files', 'bytes'], { align: 'right' }),
      ...columnsOf(['derived_files', 'derived_bytes'], { align: 'right', show: 'wide' }),
      ...columnsOf(['location', 'error']),
    ]
    cli.print(stores, { columns, id: 'store' })
  })

const adopt = (cli: Cli) =>
  manual('adopt', {
    summary: 'Take over document stores from another database',
    examples: [
      ['storage adopt', 'asks first'],
      ['storage adopt --yes', 'after the database was moved, from a script'],
    ],
    exits:
      '0 adopted, or nothing to do · 2 no terminal to confirm on, and no --yes · 69 database or a store unreachable · 78 not the store of this archive, or not mounted',
    notes: [
      'Runs on the server only. Use it after the database was moved to another server with pg_dump or pg_upgrade, or was replaced by a copy.',
      'Stop all servers and workers of the other database first. From now on dms refuses it, and its running servers remove no file.',
    ],
  })
    .option('-y, --yes', 'adopt without asking')
    .action(async ({ yes = false }: { yes?: boolean }) => {
      const { config, database } = await openLocalInstallation(cli, 'storage adopt')
      const [{ loadUsedStores }, { runAudited }] = await Promise.all([
        import('../../src/files/adopt-stores.ts'),
        import('../../src/cli/remote/local-client.ts'),
      ])
      const stores = await loadUsedStores(database.db, config)
      const foreign = stores.filter(({ isOwn }) => !isOwn)
      const locations = foreign.map(({ location }) => location)
      if (foreign.some(({ last }) => last !== null) && !yes)
        await confirm(cli.options, `Take over ${locations.join(' and ')}? dms will refuse the database that used it last.`)
      const details = { locations, previous: foreign.map(({ last }) => last), database: stores[0]?.own }
      const recordAll = async () => {
        for (const { record } of foreign) await record()
      }
      if (foreign.length > 0) await runAudited(database, cli, { action: 'dms storage adopt', details }, recordAll)
      const rows = stores.map(({ kind, location, own, last, isOwn }) => ({
        action: isOwn ? 'unchanged' : 'adopted',
        store: kind,
        location,
        previous: last,
        database: own,
      }))
      cli.print(rows, { columns: columnsOf(['action', 'store', 'location', 'previous', 'database']), id: 'store', isQuery: false })
    })
