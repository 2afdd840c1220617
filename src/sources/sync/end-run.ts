/** Ends sync runs: completed, failed or cancelled, with the consequences for the source. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { notify } from '../../notifications/notifications.ts'
import { addCounts, type Counts, countProcessed, type FileError, outcomes, publishProgressEvent, type Run, RunLost } from './run-records.ts'

/** Completes a run and updates its source. `pendingCounts` are those not written yet. Throws RunLost. */
export async function completeRun(app: App, run: Run, total: number, pendingCounts: Counts): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await addCounts(trx, run, pendingCounts)
    const ended = await endRun(app, trx, run.id, 'completed', null)
    if (!ended || ended.holder !== run.holder) throw new RunLost()
    const at = app.now()
    const source = await trx
      .updateTable('sources')
      .set({
        status: sql<'active'>`case status when 'disabled' then status else 'active' end`,
        last_sync: at,
        last_error: null,
        failures: 0,
      })
      .set({ next_sync: nextSyncTime(at) })
      .where('id', '=', run.source_id)
      .returning(['owner_id', 'name'])
      .executeTakeFirst()
    if (!source) throw new RunLost()
    await trx
      .updateTable('source_syncs')
      .set({ total: Math.max(total, countProcessed(ended)) })
      .where('id', '=', run.id)
      .execute()
    await publishProgressEvent(trx, { ...run, ...ended, errors: 0 }, source.owner_id, total, null)
    const { created, updated, failed, removed } = ended
    if (created + updated + failed + removed === 0) return
    const parts = Object.entries({ new: created, changed: updated, 'removed at the source': removed, failed }).filter(
      ([, files]) => files > 0,
    )
    const message = `${source.name}: ${parts.map(([label, files]) => `${files} ${label}`).join(', ')}.`
    await notify(app, trx, source.owner_id, 'sync_completed', { title: 'Sync completed', message, data: { source_id: run.source_id } })
  })
}

/** Records a failed attempt; with `final` the run ends and the source waits longer after each failure. */
export async function failRun(app: App, trx: Trx, id: string, problem: Pick<FileError, 'code' | 'message'>, final: boolean): Promise<void> {
  const run = await trx.selectFrom('source_syncs').select(['source_id', 'state']).where('id', '=', id).executeTakeFirst()
  if (run?.state !== 'running') return
  if (final) await endRun(app, trx, id, 'failed', problem)
  const source = await trx
    .updateTable('sources')
    .set((eb) => ({
      status: sql<'error'>`case status when 'disabled' then status else 'error' end`,
      last_error: problem.message,
      // A source of a re-enabled account should not wait for hours.
      ...(final
        ? {
            failures: eb('failures', '+', 1),
            next_sync: problem.code === 'SOURCE_OWNER_DISABLED' ? nextSyncTime(app.now()) : backoffTime(app.now()),
          }
        : {}),
    }))
    .where('id', '=', run.source_id)
    .returning(['owner_id', 'name', 'failures'])
    .executeTakeFirst()
  // Notify once per series of failures: notifications every hour are ignored.
  if (!source || !final || source.failures > 1) return
  const message = `${source.name}: ${problem.message}`
  await notify(app, trx, source.owner_id, 'sync_failed', {
    title: 'Sync failed',
    message,
    data: { source_id: run.source_id, code: problem.code },
  })
}

/** SQL: one interval from now; null for manual sources. */
export const nextSyncTime = (now: Date) =>
  sql<Date>`case when sync_interval = 0 then null else ${now}::timestamptz + sync_interval * interval '1 s' end`

/** SQL: the interval, doubled with each failure, at most six hours (or the interval, if longer). */
const backoffTime = (now: Date) => sql<Date>`case when sync_interval = 0 then null else
  ${now}::timestamptz + least(sync_interval * power(2, least(failures, 20)), greatest(sync_interval, 21600)) * interval '1 s' end`

/** Cancels running syncs. Their processes notice within a second. The schedule continues. Returns the number of runs. */
export async function cancelRuns(app: App, trx: Trx, sourceId: string): Promise<number> {
  const live = await trx.selectFrom('source_syncs').select('id').where('source_id', '=', sourceId).where('state', '=', 'running').execute()
  let count = 0
  for (const { id } of live) if (await endRun(app, trx, id, 'cancelled', null)) count++
  await trx
    .updateTable('sources')
    .set({ next_sync: nextSyncTime(app.now()) })
    .where('id', '=', sourceId)
    .execute()
  return count
}

async function endRun(
  app: App,
  trx: Trx,
  id: string,
  state: 'completed' | 'failed' | 'cancelled',
  problem: Pick<FileError, 'code' | 'message'> | null,
): Promise<Row<'source_syncs'> | undefined> {
  const run = await trx
    .updateTable('source_syncs')
    .set({
      state,
      current_file: null,
      error_code: problem?.code ?? null,
      error_message: problem?.message ?? null,
      finished_at: app.now(),
    })
    .where('id', '=', id)
    .where('state', '=', 'running')
    .returningAll()
    .executeTakeFirst()
  if (!run) return undefined
  const now = JSON.stringify(Object.fromEntries(outcomes.map((outcome) => [outcome, run[outcome]])))
  await sql`
    update sources set totals = (
      select jsonb_object_agg(key, coalesce((totals ->> key)::bigint, 0) + value::bigint) from jsonb_each_text(${now}::jsonb)
    ) where id = ${run.source_id}`.execute(trx)
  return run
}
