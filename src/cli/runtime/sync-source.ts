/** Sync of one source, in this process or by a worker of the server. */
import type { App } from '../../app.ts'
import type { Client } from '../../client/client.ts'
import type { Source, SyncStatus } from '../../client/sources.ts'
import { escapeControls } from '../../log/escape.ts'
import type { RunOptions } from '../../sources/sync/sync-job.ts'
import type { BatchItem } from '../output/batch-output.ts'
import { parseLockHolder } from '../output/error-lines.ts'
import type { Cli } from './context.ts'
import { type Exit, exitOf, Failure } from './exit.ts'
import type { Progress } from './progress.ts'
import { pollUntil, throwIfTimedOut } from './wait.ts'

/** Result of one source. `exit` is OK, PARTIAL, BUSY, or the exit of a sync that failed as a whole. */
export interface SyncResult {
  item: BatchItem
  exit: Exit
}

type SyncCounts = Pick<SyncStatus, 'created' | 'updated' | 'unchanged' | 'skipped' | 'removed' | 'failed' | 'bytes' | 'errors'>

/** Interval of progress requests. The first is delayed too, because a sync without changes takes less time. */
const pollIntervalMs = 1000

/** Syncs the source in this process. `client`: of `app`. */
export async function syncInProcess(
  cli: Cli,
  { app, client }: { app: App; client: Client },
  source: Source,
  options: RunOptions,
  progress: Progress,
): Promise<SyncResult> {
  const [{ syncNow }, { auditCommand }] = await Promise.all([import('../../sources/sync/sync-job.ts'), import('../remote/local-client.ts')])
  await auditCommand(app, cli, { action: 'dms sources sync', target: `id=${source.id}`, details: { name: source.name } })
  const started = performance.now()
  const timer = setInterval(() => void updateProgress(client, source, progress).catch(() => {}), pollIntervalMs)
  try {
    const run = await syncNow(app, source.id, options, cli.signal)
    return describeSync(cli, source, run, seconds(started))
  } catch (error) {
    if (cli.signal.aborted) throw error
    return describeSyncError(source, error, seconds(started))
  } finally {
    clearInterval(timer)
  }
}

/** Starts the sync on the server and waits for its end. */
export async function syncOnServer(
  cli: Cli,
  client: Client,
  source: Source,
  request: { full: boolean; accept_changes: boolean },
  progress: Progress,
): Promise<SyncResult> {
  const started = performance.now()
  let jobId: string
  try {
    jobId = (await client.sources.sync(source.id, request)).job_id
  } catch (error) {
    return describeSyncError(source, error, seconds(started))
  }
  let status = null as SyncStatus | null
  const isOver = await pollUntil(cli, async () => {
    status = await updateProgress(client, source, progress)
    return !['queued', 'running'].includes(status.state)
  })
  if (!isOver || !status) {
    throwIfTimedOut(cli, `the sync of "${source.name}" goes on at the server`)
    throw cli.signal.reason
  }
  // A sync that is cancelled while it waits leaves no run: the status is that of another one.
  const isOther = status.job_id !== jobId
  const { error, state } = status
  if (state === 'completed' && !isOther) return describeSync(cli, source, status, seconds(started))
  const message = isOther ? 'The sync was cancelled, or another one has replaced it.' : 'The sync was cancelled.'
  const problem = (isOther ? null : error) ?? { code: 'CANCELLED', message }
  return describeSyncError(source, Object.assign(new Error(problem.message), { code: problem.code }), seconds(started))
}

async function updateProgress(client: Client, source: Source, progress: Progress): Promise<SyncStatus> {
  const status = await client.sources.syncStatus(source.id)
  const current = status.current_file === null ? source.name : `${source.name}: ${status.current_file}`
  progress.update({ done: status.processed, total: status.total, current })
  return status
}

function describeSync(cli: Cli, source: Source, run: SyncCounts, duration_seconds: number): SyncResult {
  for (const { path, message } of run.errors)
    cli.warn(`${escapeControls(source.name)}: ${path === '' ? '' : `${escapeControls(path)}: `}${escapeControls(message)}`)
  const { created, updated, unchanged, skipped, removed, failed, bytes } = run
  const counts = { new: created, changed: updated, unchanged, skipped, deleted: removed, failed, bytes }
  return { item: buildItem(source, 'synced', 'ok', counts, duration_seconds), exit: failed > 0 ? 'PARTIAL' : 'OK' }
}

/** Converts the error of a failed or skipped sync to a result. Rethrows errors that do not concern the source. */
export function describeSyncError(source: Source, error: unknown, duration_seconds: number): SyncResult {
  const { code, message, holder, since, details } = error as Error & { code?: unknown; holder?: string; since?: Date; details?: object }
  const isBusy = (error as Error).name === 'Busy' || code === 'SOURCE_SYNC_IN_PROGRESS'
  if (!isBusy && !['SourceFailure', 'AppError', 'RunLost'].includes((error as Error).name) && typeof code !== 'string') throw error
  const busy = {
    code: 'SOURCE_SYNC_RUNNING',
    message: `already being synced${holder ? ` by ${holder}` : ''}${since ? ` since ${since.toISOString()}` : ''}`,
  }
  const problem = isBusy
    ? { ...busy, details: holder ? parseLockHolder(error as Error) : details }
    : { code: typeof code === 'string' ? code : 'FAILED', message }
  const nothing = { new: 0, changed: 0, unchanged: 0, skipped: 0, deleted: 0, failed: 0, bytes: 0 }
  const state = isBusy ? 'skipped' : 'failed'
  const item = buildItem(source, state, state, nothing, duration_seconds)
  return { item: { ...item, error: problem }, exit: isBusy ? 'BUSY' : exitOfFailure(error, problem.code) }
}

const unreachable = ['SOURCE_UNREACHABLE', 'SOURCE_BUSY', 'SERVICE_UNAVAILABLE']

/** Returns PARTIAL for errors without an exit of their own. */
function exitOfFailure(error: unknown, code: string): Exit {
  const exit = exitOf(error)
  if (unreachable.includes(code)) return 'UNAVAILABLE'
  return exit === 'FAILED' ? 'PARTIAL' : exit
}

const buildItem = ({ name, id }: Source, action: string, state: string, counts: object, duration_seconds: number): BatchItem => ({
  action,
  key: name,
  id,
  source: name,
  state,
  ...counts,
  duration_seconds,
})

const seconds = (started: number): number => Math.round(performance.now() - started) / 1000

/** Returns the error of a command that did nothing because another sync was running. */
export function busyError({ key, error }: BatchItem): Failure {
  const { code, details } = (error ?? {}) as { code?: string; details?: object }
  return new Failure('BUSY', `source "${key}" is ${error?.message ?? 'already being synced'}`, { code, details })
}
