/** Cancels syncs. */
import type { Trx } from '../../db/pool.ts'
import { endRun, nextSyncTime } from './finish-run.ts'
import * as runs from './run-records.ts'

/**
 * Cancels the waiting and running syncs of a source. Their processes notice within a second. The schedule continues. Returns the ids of the jobs and
 * the number of runs. Locks the jobs, then the runs, then the source, as a worker does that records the failure of a sync.
 */
export async function cancelSyncs(trx: Trx, sourceId: string): Promise<{ jobIds: string[]; runCount: number }> {
  const jobIds = await runs.cancelActiveJobs(trx, sourceId)
  return { jobIds, runCount: await cancelRuns(trx, sourceId) }
}

/** Cancels the running syncs of a source, or only one. Returns their number. */
export async function cancelRuns(trx: Trx, sourceId: string, only?: string): Promise<number> {
  const running = trx.selectFrom('source_syncs').select('id').where('source_id', '=', sourceId).where('state', '=', 'running')
  const live = await running.$if(only !== undefined, (query) => query.where('id', '=', only ?? '')).execute()
  let count = 0
  for (const { id } of live) if (await endRun(trx, id, 'cancelled', null)) count++
  await trx.updateTable('sources').set({ next_sync: nextSyncTime }).where('id', '=', sourceId).execute()
  return count
}
