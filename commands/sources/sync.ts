import { Option } from 'commander'
import { parseCount, parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
import { findSource, selectSources } from '../../src/cli/arguments/sources.ts'
import { findServerTime } from '../../src/cli/arguments/time-span.ts'
import { type BatchItem, startBatch } from '../../src/cli/output/batch-output.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import { lookupPrinterOf } from '../../src/cli/remote/curl-lookup.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import type { Progress } from '../../src/cli/runtime/progress.ts'
import { exitOfAbort, mapSequential } from '../../src/cli/runtime/run-batch.ts'
import { combineExits, listPlan, type Planned, type PlannedProblem, planOnServer, reportStop } from '../../src/cli/runtime/sync-plan.ts'
import { busyError, describeSyncError, type SyncResult, syncInProcess, syncOnServer } from '../../src/cli/runtime/sync-source.ts'
import type { Client } from '../../src/client/client.ts'
import type { Source } from '../../src/client/sources.ts'
import { escapeControls } from '../../src/log/escape.ts'
import { dms } from '../../src/log/fix.ts'
import type { RunOptions } from '../../src/sources/sync/sync-job.ts'

interface Flags {
  all?: boolean
  due?: boolean
  full?: boolean
  acceptChanges?: boolean
  dryRun?: boolean
  wait: boolean
  concurrency?: string
  maxFiles?: string
  lockTimeout?: string
}

const columns: Column<BatchItem>[] = [
  ...columnsOf(['source', 'state']),
  ...columnsOf(['new', 'changed', 'unchanged', 'skipped', 'deleted', 'failed', 'bytes'], { align: 'right' }),
  { name: 'duration_seconds', title: 'SECONDS', align: 'right' },
  { name: 'error', value: ({ error }) => error?.message },
]

const notQueueable = ['dryRun', 'concurrency', 'maxFiles', 'lockTimeout']

export const sync = (cli: Cli) =>
  manual('sync [source...]', {
    summary: 'Fetch new and changed files from sources',
    examples: [
      ['sources sync invoices', 'waits and shows the result'],
      ['sources sync --due -q', 'from cron'],
      ['sources sync --all -n', 'dry run'],
      ['sources sync invoices --no-wait -o id', 'queues a job for a worker and prints its id'],
    ],
    exits:
      '0 synced, or nothing due · 3 some files or sources failed · 6 no such source · 8 --timeout passed · 69 source or server unreachable · 75 source is being synced',
    notes: [
      'On the server this process fetches the files and a worker runs OCR. With --url a worker of the remote server does both.',
      'An interrupted sync can be run again and fetches no file twice.',
    ],
  })
    .option('--all', 'every source that is not disabled')
    .option('--due', 'every source whose next sync is due')
    .option('--full', 'check every file again, even if unchanged')
    .option('--accept-changes', 'go on although most files have changed or vanished')
    .option('-n, --dry-run', 'list what would be fetched')
    .addOption(new Option('--no-wait', 'queue a job for a worker and print its id').conflicts(notQueueable))
    .option('--concurrency <n>', 'parallel downloads per source (default: sources.concurrency)')
    .option('--max-files <n>', 'maximum number of files to fetch (with --url: of --dry-run)')
    .option('--lock-timeout <duration>', 'time to wait for a running sync of the source', '0s')
    .action(async (names: string[], flags: Flags) => {
      const { all = false, due = false, dryRun = false } = flags
      if (Number(all) + Number(due) + Number(names.length > 0) !== 1) throw usage('give either source names, --all or --due')
      const isLocal = cli.target.url === null
      if (!isLocal) refuseLocalOptions(flags)
      // The getter installs the signal handler: from here on a signal ends the sync, not the process.
      void cli.signal
      if (!flags.wait || (cli.options.printCurl && !dryRun)) return enqueue(cli, await cli.client(), names, flags)
      if (!isLocal) {
        const client = await cli.client()
        if (dryRun) return listPlan(cli, await listSelected(cli, client, names, flags), planOnServer(cli, client, flags))
        return syncAll(cli, await listSelected(cli, client, names, flags), names, (source, progress) =>
          syncOnServer(cli, client, source, requestOf(flags), progress),
        )
      }
      const app = await cli.app('sources sync', { hasStatementTimeout: false })
      const { openLocalClient } = await import('../../src/cli/remote/local-client.ts')
      const client = await openLocalClient(app, cli)
      const sources = await listSelected(cli, client, names, flags)
      const options = parseOptions(flags, app.config.sources.concurrency)
      if (!dryRun) return syncAll(cli, sources, names, (source, progress) => syncInProcess(cli, { app, client }, source, options, progress))
      const { planSync } = await import('../../src/sources/sync/sync-job.ts')
      await listPlan(cli, sources, async function* (source) {
        const problems: Planned[] = []
        const listener = {
          onFailure: (stop: { code: string; message: string }) => void problems.push(...reportStop(cli, source.name, stop)),
          onProblem: (problem: PlannedProblem) => problems.push(problem),
        }
        for await (const { action, file } of planSync(app, source.id, options, cli.signal, listener)) yield { action, ...file }
        yield* problems
      })
    })

/** Throws Failure USAGE for options that a remote sync does not have. */
function refuseLocalOptions({ dryRun, concurrency, maxFiles, lockTimeout }: Flags): void {
  const values = { '--concurrency': concurrency, '--max-files': maxFiles && !dryRun, '--lock-timeout': lockTimeout !== '0s' }
  const [flag] = Object.entries(values).find(([, value]) => value) ?? []
  if (flag) throw usage(`${flag} works on the server only`, 'omit it, or pass --local')
}

const requestOf = ({ full = false, acceptChanges = false }: Flags) => ({ full, accept_changes: acceptChanges })

function parseOptions(
  { full = false, acceptChanges = false, concurrency, maxFiles, lockTimeout = '0s' }: Flags,
  usual: number,
): RunOptions {
  return {
    full,
    acceptChanges,
    concurrency: concurrency === undefined ? usual : parseCount('--concurrency', concurrency, { max: 256 }),
    maxFiles: maxFiles === undefined ? null : parseCount('--max-files', maxFiles),
    lockTimeoutMs: parseDurationFlag('--lock-timeout', lockTimeout),
  }
}

async function listSelected(cli: Cli, client: Client, names: readonly string[], { due }: Flags): Promise<Source[]> {
  if (lookupPrinterOf(client) && names.length > 0) return mapSequential(names, (name) => findSource(client, name))
  const sources = await client.sources.list()
  if (names.length > 0) return selectSources(sources, names)
  const now = due ? await findServerTime(cli, client) : 0
  const isDue = ({ next_sync }: Source): boolean => next_sync !== null && Date.parse(next_sync) <= now
  return sources.filter((source) => source.status !== 'disabled' && (!due || isDue(source)))
}

/** Syncs the sources one after the other. */
async function syncAll(
  cli: Cli,
  sources: readonly Source[],
  named: readonly string[],
  run: (source: Source, progress: Progress) => Promise<SyncResult>,
): Promise<void> {
  const batch = startBatch(cli, 'sources sync', { columns })
  const progress = cli.progress('syncing')
  const all: SyncResult[] = []
  let stopped = null as { error: unknown } | null
  try {
    for (const source of sources) {
      cli.signal.throwIfAborted()
      const synced = await run(source, progress)
      all.push(synced)
      batch.add(synced.item, escapeControls(formatItem(synced.item)))
      if (!cli.options.isJson && synced.item.error?.code === 'SOURCE_UNAUTHORIZED')
        cli.warn(`         fix: ${cli.options.formatFix(dms`sources update ${source.id} --password-stdin`)}`)
    }
  } catch (error) {
    if (!cli.signal.aborted) throw error
    stopped = { error }
  }
  progress.done()
  const busy = findBusy(all, named)
  if (stopped) cli.exit = exitOfAbort(cli.signal)
  else if (busy) cli.exit = 'BUSY'
  else cli.exit = combineExits(all)
  batch.finish({ sources: all.map(({ item: { action: _, key: __, ...source } }) => ({ error: null, ...source })) })
  if (stopped && cli.exit === 'PENDING')
    throw stopped.error instanceof Failure ? stopped.error : new Failure('PENDING', '--timeout has passed')
  if (!stopped && busy) throw busyError(busy)
}

/** Returns the busy source that makes the command BUSY: a named one, or any if all are busy. Another failure goes before it. */
function findBusy(all: readonly SyncResult[], named: readonly string[]): BatchItem | undefined {
  const busy = all.filter(({ exit }) => exit === 'BUSY')
  const hasFailed = all.some(({ exit }) => exit !== 'BUSY' && exit !== 'OK')
  return !hasFailed && (named.length > 0 || busy.length === all.length) ? busy[0]?.item : undefined
}

function formatItem(item: BatchItem): string {
  const { key, state, error, duration_seconds } = item
  if (state !== 'ok') return `${key}   –  ${error?.message ?? ''}`
  const parts = (['new', 'changed', 'unchanged', 'skipped', 'deleted', 'failed'] as const).map((name) => `${name} ${item[name]}`)
  return `${key}   ✓  ${parts.join(' · ')}     ${(duration_seconds as number).toFixed(1)} s`
}

async function enqueue(cli: Cli, client: Client, names: readonly string[], flags: Flags): Promise<void> {
  const sources = await listSelected(cli, client, names, flags)
  const skipped: SyncResult[] = []
  const rows = await mapSequential(sources, async (source) => {
    try {
      const { job_id } = await client.sources.sync(source.id, requestOf(flags))
      return [{ source: source.name, source_id: source.id, job_id }]
    } catch (error) {
      const result = describeSyncError(source, error, 0)
      if (result.exit !== 'BUSY') throw error
      skipped.push(result)
      cli.note(`${source.name}: ${result.item.error?.message}`)
      return []
    }
  })
  cli.print(rows.flat(), {
    columns: [{ name: 'source' }, { name: 'job_id', title: 'JOB' }, { name: 'source_id', show: 'wide' }],
    id: 'job_id',
    isQuery: false,
  })
  const [busy] = skipped
  if (busy && (names.length > 0 || skipped.length === sources.length)) throw busyError(busy.item)
}
