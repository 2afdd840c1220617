/** Syncs as users ask for them: begin one, end it, see how far it is. */
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Row } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import * as jobs from '../../jobs/queue.ts'
import { get, locked } from '../sources.ts'
import { enqueue, liveJobs } from './enqueue-sync.ts'
import * as runs from './run-records.ts'

/** Asks for a sync; its job's id. Throws SOURCE_NOT_FOUND, SOURCE_SYNC_IN_PROGRESS, CONFLICT where the source is disabled. */
export async function startSync(app: App, actor: Actor, id: string, full: boolean): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    const source = await locked(trx, actor, id)
    if (source.status === 'disabled') throw new AppError('CONFLICT', { status: 'disabled' }, 'The source is disabled.')
    const { is_syncing } = await get(app, actor, id, trx)
    const [live] = await liveJobs(trx, id)
    // One that failed and waits for its next try is run now.
    const isWaiting = live?.status === 'pending' && live.attempts > 0 && !is_syncing
    if (isWaiting) await jobs.cancel(trx, [live.id])
    else if (live || is_syncing) {
      const job_id = live?.id ?? (await runs.latest(trx, id))?.id
      throw new AppError('SOURCE_SYNC_IN_PROGRESS', { job_id })
    }
    return enqueue(trx, source, full)
  })
}

/** Ends a sync that waits or runs; its id. Throws SOURCE_NOT_FOUND, CONFLICT where there is none. */
export async function cancelSync(app: App, actor: Actor, id: string): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    await get(app, actor, id, trx)
    const latest = await runs.latest(trx, id)
    const ended = await runs.cancel(app, trx, id)
    const live = await jobs.cancel(
      trx,
      (await liveJobs(trx, id)).map((job) => job.id),
    )
    const [job = ended > 0 ? latest?.id : undefined] = live
    if (job === undefined) throw new AppError('CONFLICT', {}, 'No sync of this source is going on.')
    return job
  })
}

export interface SyncStatus extends Omit<Row<'source_syncs'>, 'id' | 'holder' | 'state' | 'started_at'> {
  job_id: string | null
  state: 'idle' | 'queued' | 'running' | 'completed' | 'failed' | 'cancelled'
  started_at: Date | null
  processed: number
}

/** How far the sync is that waits or runs, or what came of the last one. Throws SOURCE_NOT_FOUND. */
export async function syncStatus(app: App, actor: Actor, id: string): Promise<SyncStatus> {
  const { is_syncing } = await get(app, actor, id)
  const [live] = await liveJobs(app.db, id)
  const latest = await runs.latest(app.db, id)
  const nothing = { ...runs.none(), total: 0, current_file: null, errors: [], error_code: null, error_message: null }
  // Whoever holds the source may not have begun the run yet: what is told then must not be how the one before it ended.
  const isOther = is_syncing && latest?.state === 'running'
  if (live && live.id !== latest?.id && !isOther)
    return { ...nothing, source_id: id, job_id: live.id, state: 'queued', processed: 0, started_at: null, finished_at: null }
  if (!latest) return { ...nothing, source_id: id, job_id: null, state: 'idle', processed: 0, started_at: null, finished_at: null }
  const { id: job_id, holder, ...run } = latest
  // Whoever was at it is gone without a word, or gave it back to the queue.
  const isLeft = run.state === 'running' && !is_syncing && live?.status !== 'processing'
  const state = isLeft ? (live ? 'queued' : 'failed') : run.state
  if (isLeft) Object.assign(run, { current_file: null }, live ? {} : runs.interrupted)
  return { ...run, job_id, state, processed: runs.processed(run), total: Math.max(run.total, runs.processed(run)) }
}
