/** Runs of syncs: one row each, which says how far it is, what came of it, and who holds it. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { isLocked } from '../../db/lock.ts'
import type { Db, Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { publish } from '../../events.ts'
import { notify } from '../../notifications/notifications.ts'

export interface FileError {
  path: string
  code: string
  message: string
}

/** What became of files. */
export const outcomes = ['created', 'updated', 'unchanged', 'skipped', 'failed', 'removed'] as const
export type Outcome = (typeof outcomes)[number]
export type Counts = Record<Outcome, number> & { bytes: number }

export interface Run extends Counts {
  id: string
  source_id: string
  /** made anew each time that somebody takes the run up */
  holder: string
  /** of errors that are kept */
  errors: number
}

/** Errors that a run keeps; the others are only counted. */
const maxErrors = 100
/** Runs that a source keeps. */
const maxRuns = 50

/** Of a run whose process is gone without having said so. */
export const interrupted = { error_code: 'INTERRUPTED', error_message: 'The sync was interrupted.' }

/** The run is no longer ours: it was cancelled, its source was removed, or somebody else took it up. */
export class RunLost extends Error {
  constructor() {
    super('the sync was cancelled')
    this.name = 'RunLost'
  }
}

export const none = (): Counts => ({ created: 0, updated: 0, unchanged: 0, skipped: 0, failed: 0, removed: 0, bytes: 0 })

/** The name of a source's lock. */
export const lockOf = (sourceId: string): string => `source:${sourceId}`

/** Whether a sync of the source goes on now, as a condition; `id` is a column. */
export const isSyncing = (id: string) => isLocked(sql<string>`'source:' || ${sql.ref(id)}::text`)

/** Begins a run, or takes it up again after a crash; null where it has ended. The caller holds the source's lock: other runs of it are over. */
export async function begin(app: App, sourceId: string, id: string): Promise<Run | null> {
  return app.db.transaction().execute(async (trx) => {
    await endLost(app, trx, sourceId, id)
    const holder = randomUUID()
    const row = await trx
      .insertInto('source_syncs')
      .values({ id, source_id: sourceId, holder, errors: '[]', started_at: app.now() })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ holder }).where('source_syncs.state', '=', 'running'))
      .returningAll()
      .executeTakeFirst()
    await sql`delete from source_syncs where source_id = ${sourceId} and id not in
      (select id from source_syncs where source_id = ${sourceId} order by started_at desc, id desc limit ${maxRuns})`.execute(trx)
    return row ? { ...row, errors: row.errors.length } : null
  })
}

/** Ends runs of a source whose process is gone without having said so. The caller holds the source's lock. */
async function endLost(app: App, trx: Trx, sourceId: string, but: string): Promise<void> {
  await trx
    .updateTable('source_syncs')
    .set({
      state: 'failed',
      ...interrupted,
      current_file: null,
      finished_at: app.now(),
    })
    .where('source_id', '=', sourceId)
    .where('state', '=', 'running')
    .where('id', '!=', but)
    .execute()
}

/** Makes the transaction one of the run's holder. Throws RunLost. */
export async function hold(trx: Trx, run: Run): Promise<void> {
  const row = await held(trx, run).set({ holder: run.holder }).returning('id').executeTakeFirst()
  if (!row) throw new RunLost()
}

/** Adds to what the run came to. Call tally() once it is committed. */
export async function count(trx: Trx, run: Run, more: Partial<Counts>, errors: readonly FileError[] = []): Promise<void> {
  const kept = errors.slice(0, Math.max(0, maxErrors - run.errors))
  await held(trx, run)
    .set((eb) => ({
      ...Object.fromEntries(Object.entries(more).map(([name, value]) => [name, eb(name as Outcome, '+', value)])),
      ...(kept.length === 0 ? {} : { errors: sql<string>`errors || ${JSON.stringify(kept)}::jsonb` }),
    }))
    .execute()
}

export const sum = (one: Counts, other: Counts): Counts => {
  const both = { ...one }
  for (const [name, value] of Object.entries(other)) both[name as Outcome] += value
  return both
}

/** The same in memory. */
export function tally(run: Run, more: Partial<Counts>, errors: readonly FileError[] = []): void {
  for (const [name, value] of Object.entries(more)) run[name as Outcome] += value
  run.errors = Math.min(maxErrors, run.errors + errors.length)
}

/** Says how far the run is. Throws RunLost. */
export async function tell(app: App, run: Run, ownerId: string, total: number, currentFile: string | null): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    const row = await held(trx, run)
      .set({ total: Math.max(total, processed(run)), current_file: currentFile })
      .returning('id')
      .executeTakeFirst()
    if (!row) throw new RunLost()
    await tellAll(trx, run, ownerId, total, currentFile)
  })
}

const tellAll = (trx: Trx, run: Run, ownerId: string, total: number, current_file: string | null): Promise<void> =>
  publish(trx, 'sync_progress', ownerId, {
    source_id: run.source_id,
    processed: processed(run),
    total: Math.max(total, processed(run)),
    current_file,
  })

/** Files that were dealt with. */
export const processed = (counts: Omit<Counts, 'bytes'>): number =>
  counts.created + counts.updated + counts.unchanged + counts.skipped + counts.failed

/** Ends a run well, with all that follows from it for its source. `late`: what was not counted yet but in memory. Throws RunLost. */
export async function complete(app: App, run: Run, total: number, late: Counts): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await count(trx, run, late)
    const ended = await end(app, trx, run.id, 'completed', null)
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
      .set({ next_sync: next(at) })
      .where('id', '=', run.source_id)
      .returning(['owner_id', 'name'])
      .executeTakeFirst()
    if (!source) throw new RunLost()
    await trx
      .updateTable('source_syncs')
      .set({ total: Math.max(total, processed(ended)) })
      .where('id', '=', run.id)
      .execute()
    await tellAll(trx, { ...run, ...ended, errors: 0 }, source.owner_id, total, null)
    const { created, updated, failed, removed } = ended
    if (created + updated + failed + removed === 0) return
    const parts = Object.entries({ new: created, changed: updated, 'gone there': removed, failed }).filter(([, files]) => files > 0)
    const message = `${source.name}: ${parts.map(([what, files]) => `${files} ${what}`).join(', ')}.`
    await notify(app, trx, source.owner_id, 'sync_completed', { title: 'Sync completed', message, data: { source_id: run.source_id } })
  })
}

/** A try that failed, and with `final` the run: the source says why, and is left alone longer each time. */
export async function fail(app: App, trx: Trx, id: string, problem: Pick<FileError, 'code' | 'message'>, final: boolean): Promise<void> {
  const run = await trx.selectFrom('source_syncs').select(['source_id', 'state']).where('id', '=', id).executeTakeFirst()
  if (run?.state !== 'running') return
  if (final) await end(app, trx, id, 'failed', problem)
  const source = await trx
    .updateTable('sources')
    .set((eb) => ({
      status: sql<'error'>`case status when 'disabled' then status else 'error' end`,
      last_error: problem.message,
      // An account that is enabled again is not to wait for hours.
      ...(final
        ? { failures: eb('failures', '+', 1), next_sync: problem.code === 'SOURCE_OWNER_DISABLED' ? next(app.now()) : backoff(app.now()) }
        : {}),
    }))
    .where('id', '=', run.source_id)
    .returning(['owner_id', 'name', 'failures'])
    .executeTakeFirst()
  // Once for a row of failures: whoever is told each hour stops to read.
  if (!source || !final || source.failures > 1) return
  const message = `${source.name}: ${problem.message}`
  await notify(app, trx, source.owner_id, 'sync_failed', {
    title: 'Sync failed',
    message,
    data: { source_id: run.source_id, code: problem.code },
  })
}

/** One interval from now, where there is one. */
export const next = (now: Date) =>
  sql<Date>`case when sync_interval = 0 then null else ${now}::timestamptz + sync_interval * interval '1 s' end`

/** The interval, twice as long with each failure, up to six hours or the interval itself where that is more. */
const backoff = (now: Date) => sql<Date>`case when sync_interval = 0 then null else
  ${now}::timestamptz + least(sync_interval * power(2, least(failures, 20)), greatest(sync_interval, 21600)) * interval '1 s' end`

/** Ends runs because somebody wants it; whoever is at them notices within a second. The next comes when it would have come after this one. Returns how many. */
export async function cancel(app: App, trx: Trx, sourceId: string): Promise<number> {
  const live = await trx.selectFrom('source_syncs').select('id').where('source_id', '=', sourceId).where('state', '=', 'running').execute()
  let count = 0
  for (const { id } of live) if (await end(app, trx, id, 'cancelled', null)) count++
  await trx
    .updateTable('sources')
    .set({ next_sync: next(app.now()) })
    .where('id', '=', sourceId)
    .execute()
  return count
}

async function end(
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

/** The latest run of a source. */
export const latest = (db: Db, sourceId: string): Promise<Row<'source_syncs'> | undefined> =>
  db
    .selectFrom('source_syncs')
    .selectAll()
    .where('source_id', '=', sourceId)
    .orderBy('started_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Whether the run is still ours. */
export const isHeld = async (db: Db, run: Run): Promise<boolean> =>
  (await db
    .selectFrom('source_syncs')
    .select('id')
    .where('id', '=', run.id)
    .where('holder', '=', run.holder)
    .where('state', '=', 'running')
    .executeTakeFirst()) !== undefined

const held = (db: Db, run: Run) =>
  db.updateTable('source_syncs').where('id', '=', run.id).where('holder', '=', run.holder).where('state', '=', 'running')
