/** Starts, cancels and reports syncs on behalf of users. */
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Row } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import * as jobs from '../../jobs/queue.ts'
import { get, lockSource } from '../sources.ts'
import { cancelRuns } from './finish-run.ts'
import * as runs from './run-records.ts'

/** Enqueues a sync. Returns the job id. Throws SOURCE_NOT_FOUND, SOURCE_SYNC_IN_PROGRESS, or CONFLICT for a disabled source. */
export async function startSync(app: App, actor: Actor, id: string, full: boolean): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    const source = await lockSource(trx, actor, id)
    if (source.status === 'disabled') throw new AppError('CONFLICT', { status: 'disabled' }, 'The source is disabled.')
    const { is_syncing } = await get(app, actor, id, trx)
    const [live] = await runs.listActiveJobs(trx, id)
    // A job that waits for a retry is replaced by one that runs now.
    const isWaiting = live?.status === 'pending' && live.attempts > 0 && !is_syncing
    if (isWaiting) await jobs.cancel(trx, [live.id])
    else if (live || is_syncing) {
      const job_id = live?.id ?? (await runs.findLatestRun(trx, id))?.id
      throw new AppError('SOURCE_SYNC_IN_PROGRESS', { job_id })
    }
    return runs.enqueueSync(trx, source, full)
  })
}

/** Cancels the pending or running sync. Returns the job id. Throws SOURCE_NOT_FOUND, or CONFLICT where none is active. */
export async function cancelSync(app: App, actor: Actor, id: string): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    await get(app, actor, id, trx)
    const latest = await runs.findLatestRun(trx, id)
    const ended = await cancelRuns(app, trx, id)
    const live = await jobs.cancel(
      trx,
      (await runs.listActiveJobs(trx, id)).map((job) => job.id),
    )
    const [job = ended > 0 ? latest?.id : undefined] = live
    if (job === undefined) throw new AppError('CONFLICT', {}, 'The source is not being synced.')
    return job
  })
}

export interface SyncStatus extends Omit<Row<'source_syncs'>, 'id' | 'holder' | 'state' | 'started_at'> {
  job_id: string | null
  state: 'idle' | 'queued' | 'running' | 'completed' | 'failed' | 'cancelled'
  started_at: Date | null
  processed: number
}

/** Returns the progress of the active sync, or the result of the last one. Throws SOURCE_NOT_FOUND. */
export async function syncStatus(app: App, actor: Actor, id: string): Promise<SyncStatus> {
  const { is_syncing } = await get(app, actor, id)
  const [live] = await runs.listActiveJobs(app.db, id)
  const latest = await runs.findLatestRun(app.db, id)
  const nothing = { ...runs.emptyCounts(), total: 0, current_file: null, errors: [], error_code: null, error_message: null }
  // Between the lock and the first write of a run, the latest row is still the previous run.
  const isOther = is_syncing && latest?.state === 'running'
  if (live && live.id !== latest?.id && !isOther)
    return { ...nothing, source_id: id, job_id: live.id, state: 'queued', processed: 0, started_at: null, finished_at: null }
  if (!latest) return { ...nothing, source_id: id, job_id: null, state: 'idle', processed: 0, started_at: null, finished_at: null }
  const { id: job_id, holder, ...run } = latest
  // The process ended without finishing the run, or returned the job to the queue.
  const isLeft = run.state === 'running' && !is_syncing && live?.status !== 'processing'
  const state = isLeft ? (live ? 'queued' : 'failed') : run.state
  if (isLeft) Object.assign(run, { current_file: null }, live ? {} : runs.interruptedError)
  return { ...run, job_id, state, processed: runs.countProcessed(run), total: Math.max(run.total, runs.countProcessed(run)) }
}
