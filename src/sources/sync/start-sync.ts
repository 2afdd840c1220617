/** Starts, cancels and reports syncs on behalf of users. */
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import * as jobs from '../../jobs/queue.ts'
import { assertEnabled } from '../open-source.ts'
import { get, lockSource } from '../sources.ts'
import { cancelSyncs } from './cancel-syncs.ts'
import * as runs from './run-records.ts'

/** Enqueues a sync. Returns the job id. Throws SOURCE_NOT_FOUND, SOURCE_SYNC_IN_PROGRESS, or CONFLICT for a disabled source. */
export async function startSync(app: App, actor: Actor, id: string, options: Omit<jobs.Payloads['sync'], 'source_id'>): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    // Before the lock of the source: a worker that records the failure of a sync locks in this order too.
    if (!(await get(app, actor, id, trx)).is_syncing) await cancelRetry(trx, id)
    const source = await lockSource(trx, actor, id)
    assertEnabled(source)
    const { is_syncing } = await get(app, actor, id, trx)
    const [activeJob] = await runs.listActiveJobs(trx, id)
    if (activeJob || is_syncing) {
      const job_id = activeJob?.id ?? (await runs.findLatestRun(trx, id))?.id
      throw new AppError('SOURCE_SYNC_IN_PROGRESS', { job_id })
    }
    return runs.enqueueSync(trx, source, options)
  })
}

/** Cancels a job that waits for a retry: another one runs now. */
async function cancelRetry(trx: Trx, id: string): Promise<void> {
  const [job] = await runs.listActiveJobs(trx, id)
  if (job?.status === 'pending' && job.attempts > 0) await jobs.cancel(trx, [job.id])
}

/** Cancels the pending or running sync. Returns the job id. Throws SOURCE_NOT_FOUND, or CONFLICT if none is active. */
export async function cancelSync(app: App, actor: Actor, id: string): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    await get(app, actor, id, trx)
    const latest = await runs.findLatestRun(trx, id)
    const { jobIds, runCount } = await cancelSyncs(trx, id)
    const [job = runCount > 0 ? latest?.id : undefined] = jobIds
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
  const [activeJob] = await runs.listActiveJobs(app.db, id)
  const latest = await runs.findLatestRun(app.db, id)
  const emptyRun = { ...runs.emptyCounts(), total: 0, current_file: null, errors: [], error_code: null, error_message: null }
  // Between the lock and the first write of a run, the latest row is still the previous run.
  const isOther = is_syncing && latest?.state === 'running'
  if (activeJob && activeJob.id !== latest?.id && !isOther)
    return { ...emptyRun, source_id: id, job_id: activeJob.id, state: 'queued', processed: 0, started_at: null, finished_at: null }
  if (!latest) return { ...emptyRun, source_id: id, job_id: null, state: 'idle', processed: 0, started_at: null, finished_at: null }
  const { id: job_id, holder, ...run } = latest
  // The process ended without finishing the run, or returned the job to the queue.
  const isInterrupted = run.state === 'running' && !is_syncing && activeJob?.status !== 'processing'
  const state = isInterrupted ? (activeJob ? 'queued' : 'failed') : run.state
  if (isInterrupted) Object.assign(run, { current_file: null }, activeJob ? {} : runs.interruptedError)
  return { ...run, job_id, state, processed: runs.countProcessed(run), total: Math.max(run.total, runs.countProcessed(run)) }
}
