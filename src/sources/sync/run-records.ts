/** Sync jobs and records of sync runs: one row each, with progress, counts and the current holder. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { clock } from '../../db/clock.ts'
import { isLocked } from '../../db/lock.ts'
import type { Db, Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { publish } from '../../events.ts'
import * as jobs from '../../jobs/queue.ts'

export interface FileError {
  path: string
  code: string
  message: string
}

/** Possible outcomes of a file. */
export const outcomes = ['created', 'updated', 'unchanged', 'skipped', 'failed', 'removed'] as const
export type Outcome = (typeof outcomes)[number]
export type Counts = Record<Outcome, number> & { bytes: number }

export interface Run extends Counts {
  id: string
  source_id: string
  /** random id of the process that runs it; replaced when the run is resumed */
  holder: string
  /** number of recorded errors */
  errors: number
}

/** Recorded errors per run. Further errors are only counted. */
const maxErrors = 100
/** Runs recorded per source. */
const maxRuns = 50

/** Error of a run whose process ended without finishing it. */
export const interruptedError = { error_code: 'INTERRUPTED', error_message: 'The sync was interrupted.' }

/** The run was cancelled, its source was deleted, or another process resumed it. */
export class RunLost extends Error {
  constructor() {
    super('the sync was cancelled')
    this.name = 'RunLost'
  }
}

export const emptyCounts = (): Counts => ({ created: 0, updated: 0, unchanged: 0, skipped: 0, failed: 0, removed: 0, bytes: 0 })

/** Returns the name of a source's advisory lock. */
export const lockName = (sourceId: string): string => `source:${sourceId}`

/** SQL condition: the source is being synced. */
export const isSyncing = isLocked(sql<string>`'source:' || sources.id::text`)

/**
 * Waits for runs of these sources that are beginning, and lets no other begin until the transaction ends. Call it before all other locks: a run that
 * began during the deletion of its source would wait for the documents, and the deletion for the run.
 */
export async function preventStarts(trx: Trx, sourceIds: readonly string[]): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended('begin sync:' || id, 0)) from unnest(${sourceIds.toSorted()}::text[]) id`.execute(
    trx,
  )
}

/** Begins a run or resumes it after a crash. Returns null for a finished run. The caller holds the lock of the source. */
export async function beginRun(app: App, sourceId: string, id: string): Promise<Run | null> {
  return app.db.transaction().execute(async (trx) => {
    await preventStarts(trx, [sourceId])
    await failInterruptedRuns(trx, sourceId, id)
    const holder = randomUUID()
    const row = await trx
      .insertInto('source_syncs')
      .values({ id, source_id: sourceId, holder, errors: '[]', started_at: clock })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ holder }).where('source_syncs.state', '=', 'running'))
      .returningAll()
      .executeTakeFirst()
    await sql`delete from source_syncs where source_id = ${sourceId} and id not in
      (select id from source_syncs where source_id = ${sourceId} order by started_at desc, id desc limit ${maxRuns})`.execute(trx)
    return row ? { ...row, errors: row.errors.length } : null
  })
}

/** Marks runs of the source as failed if their process has ended. The caller holds the lock of the source. */
async function failInterruptedRuns(trx: Trx, sourceId: string, exceptId: string): Promise<void> {
  await trx
    .updateTable('source_syncs')
    .set({
      state: 'failed',
      ...interruptedError,
      current_file: null,
      finished_at: clock,
    })
    .where('source_id', '=', sourceId)
    .where('state', '=', 'running')
    .where('id', '!=', exceptId)
    .execute()
}

/** Locks the row of the run. Throws RunLost if this process no longer holds it. */
export async function assertHeld(trx: Trx, run: Run): Promise<void> {
  await updateHeld(trx, run)
    .set({ holder: run.holder })
    .returning('id')
    .executeTakeFirstOrThrow(() => new RunLost())
}

/** Adds to the counts of the run in the database. Call tallyCounts() after the commit. */
export async function addCounts(trx: Trx, run: Run, delta: Partial<Counts>, errors: readonly FileError[] = []): Promise<void> {
  const recorded = errors.slice(0, Math.max(0, maxErrors - run.errors))
  await updateHeld(trx, run)
    .set((eb) => ({
      ...Object.fromEntries(Object.entries(delta).map(([name, value]) => [name, eb(name as Outcome, '+', value)])),
      ...(recorded.length === 0 ? {} : { errors: sql<string>`errors || ${JSON.stringify(recorded)}::jsonb` }),
    }))
    .execute()
}

export const sumCounts = (one: Counts, other: Counts): Counts => {
  const both = { ...one }
  for (const [name, value] of Object.entries(other)) both[name as Outcome] += value
  return both
}

/** Adds to the counts of the run in memory. */
export function tallyCounts(run: Run, delta: Partial<Counts>, errors: readonly FileError[] = []): void {
  for (const [name, value] of Object.entries(delta)) run[name as Outcome] += value
  run.errors = Math.min(maxErrors, run.errors + errors.length)
}

/** Records and publishes the progress. Throws RunLost. */
export async function publishProgress(app: App, run: Run, ownerId: string, total: number, currentFile: string | null): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await updateHeld(trx, run)
      .set({ total: Math.max(total, countProcessed(run)), current_file: currentFile })
      .returning('id')
      .executeTakeFirstOrThrow(() => new RunLost())
    await publishProgressEvent(trx, run, ownerId, total, currentFile)
  })
}

export const publishProgressEvent = (trx: Trx, run: Run, ownerId: string, total: number, current_file: string | null): Promise<void> =>
  publish(trx, 'sync_progress', ownerId, {
    source_id: run.source_id,
    processed: countProcessed(run),
    total: Math.max(total, countProcessed(run)),
    current_file,
  })

/** Returns the number of processed files. */
export const countProcessed = (counts: Omit<Counts, 'bytes'>): number =>
  counts.created + counts.updated + counts.unchanged + counts.skipped + counts.failed

/** Returns a run; undefined if its source was deleted. */
export const findRun = (db: Db, id: string): Promise<Row<'source_syncs'> | undefined> =>
  db.selectFrom('source_syncs').selectAll().where('id', '=', id).executeTakeFirst()

/** Returns the latest run of a source. */
export const findLatestRun = (db: Db, sourceId: string): Promise<Row<'source_syncs'> | undefined> =>
  db
    .selectFrom('source_syncs')
    .selectAll()
    .where('source_id', '=', sourceId)
    .orderBy('started_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Returns whether another run has failed with this code since the source was last synced. */
export async function hasFailedAlike(db: Db, sourceId: string, id: string, code: string): Promise<boolean> {
  const { rows } = await sql`
    select from source_syncs where source_id = ${sourceId} and id <> ${id} and error_code = ${code} and started_at > coalesce(
      (select max(started_at) from source_syncs where source_id = ${sourceId} and state = 'completed'), '-infinity') limit 1`.execute(db)
  return rows.length > 0
}

const updateHeld = (db: Db, run: Run) =>
  db.updateTable('source_syncs').where('id', '=', run.id).where('holder', '=', run.holder).where('state', '=', 'running')

/** Enqueues a sync for every source that is due. */
export const enqueueDueSyncs = ({ db }: App): Promise<void> =>
  db.transaction().execute(async (trx) => {
    // Workers on other hosts do this at the same time.
    const due = await selectDue(trx).forUpdate().skipLocked().execute()
    if (due.length === 0) return
    const active = new Set((await activeJobs(trx).select(sourceIdOfJob.as('source_id')).execute()).map(({ source_id }) => source_id))
    const idle = due.filter(({ id }) => !active.has(id))
    await jobs.enqueueAll(
      trx,
      idle.map((source) => syncJob(source, { full: false })),
    )
  })

/** SQL: the longest time until the next sync in seconds, also after failures: six hours, or the interval if it is longer. */
export const longestWait = sql<number>`greatest(sync_interval, 21600)`

/** Selects sources that are due and not being synced. A sync beyond the longest wait is due: the clock was ahead. */
const selectDue = (db: Db) =>
  db
    .selectFrom('sources')
    .select(['id', 'owner_id'])
    .where('status', 'in', ['active', 'error'])
    .where(sql<boolean>`(next_sync <= ${clock} or next_sync > ${clock} + ${longestWait} * interval '1 s')`)
    .where((eb) => eb.not(isSyncing))
    .orderBy('next_sync')

type SyncOptions = Omit<jobs.Payloads['sync'], 'source_id'>

/** Enqueues a sync of one source. Returns the job id. */
export async function enqueueSync(trx: Trx, source: Pick<Row<'sources'>, 'id' | 'owner_id'>, options: SyncOptions): Promise<string> {
  const [id = ''] = await jobs.enqueueAll(trx, [syncJob(source, options)])
  return id
}

const syncJob = ({ id, owner_id }: Pick<Row<'sources'>, 'id' | 'owner_id'>, options: SyncOptions) => ({
  kind: 'sync' as const,
  payload: { source_id: id, ...options },
  dedupeKey: `sync:${id}`,
  ownerId: owner_id,
})

const sourceIdOfJob = sql<string>`payload ->> 'source_id'`

const activeJobs = (db: Db) => db.selectFrom('jobs').where('kind', '=', 'sync').where('status', 'in', ['pending', 'processing'])

/** Lists the pending and running sync jobs of a source, running ones first. */
export const listActiveJobs = (db: Db, id: string) =>
  activeJobs(db).select(['id', 'status', 'attempts']).where(sourceIdOfJob, '=', id).orderBy('status', 'desc').execute()

/** Cancels the pending and running jobs of a source. Returns their ids. */
export const cancelActiveJobs = async (trx: Trx, id: string): Promise<string[]> => {
  const active = await listActiveJobs(trx, id)
  return jobs.cancel(
    trx,
    active.map((job) => job.id),
  )
}
