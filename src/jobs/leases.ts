/** Job leases. Each lease increments the job's fencing token (`fence`). A worker that writes with an old token changes nothing. */
import { type RawBuilder, sql, type UpdateObject } from 'kysely'
import { hasRecentHeartbeat } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Schema } from '../db/schema.ts'
import { type Job, type JobProblem, kinds, moveFinished, ocrPausedKey, priorities, type Queue } from './queue.ts'

/**
 * Leases the next job of a queue for `leaseMs`; null if none can run. Takes the highest priority, and within it owners in turn.
 * An owner has at most `maxRunning` running jobs of the queue (0: no limit). While OCR is paused, only helpers of running jobs are leased.
 */
export async function leaseNext(db: Db, queue: Queue, worker: string, leaseMs: number, maxRunning = 0): Promise<Job | null> {
  const { rows } = await sql<Job>`select * from dms_claim_job(${queue}, ${worker}, ${leaseMs}, ${maxRunning})`.execute(db)
  return rows[0] ?? null
}

/**
 * Returns whether a job of another owner, of equal or higher priority, could run in place of this one. With `maxRunning` (see leaseNext()) also one of the same
 * owner, which may wait for this job. While OCR is paused, none could run in place of an OCR job.
 */
export async function shouldYield(db: Db, { queue, priority, owner_id }: Job, maxRunning = 0): Promise<boolean> {
  // Index ranges before and after the owner's own jobs: the owner may have many.
  const waiting = (side: '<' | '=' | '>', condition: RawBuilder<unknown>) => sql`
    (select owner_id from jobs where queue = ${queue} and status = 'pending' and priority = level and owner_id ${sql.raw(side)} ${owner_id}::uuid
      and run_at <= now() and not exists (select from users where id = jobs.owner_id and disabled) and ${condition} limit 1)`
  const hasRoom = sql`(${maxRunning}::integer = 0 or ${maxRunning}::integer > (
    select count(*) from jobs other where other.queue = jobs.queue and other.status = 'processing' and other.owner_id = jobs.owner_id))`
  const all = [waiting('<', hasRoom), waiting('>', hasRoom), waiting('=', sql`${maxRunning}::integer > 0`)]
  const { rows } = await sql<{ is_awaited: boolean }>`
    select (${queue} <> 'ocr' or not exists (select from instance where key = ${ocrPausedKey})) and exists (
      select from unnest(${Object.values(priorities).filter((level) => level >= priority)}::smallint[]) level
      cross join lateral (${sql.join(all, sql` union all `)}) waiting) as is_awaited`.execute(db)
  return rows[0]?.is_awaited ?? false
}

/** Updates a job that is leased with this fencing token. Throws LeaseLost if the job was cancelled or another worker leased it. */
async function updateLeased(db: Db, job: Job, values: UpdateObject<Schema, 'jobs'>): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('jobs')
    .set(values)
    .where('id', '=', job.id)
    .where('fence', '=', job.fence)
    .where('status', '=', 'processing')
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
}

export const msFromNow = (ms: number): RawBuilder<Date> => sql<Date>`now() + ${ms} * interval '1 ms'`

/** Extends the lease. Throws LeaseLost. */
export const renewLease = (db: Db, job: Job, leaseMs: number): Promise<void> => updateLeased(db, job, { lease_until: msFromNow(leaseMs) })

/**
 * Extends the leases of jobs. Returns the ids of the jobs that still have their lease, with whether a transaction has locked their rows. Leaves a locked
 * row alone: a long transaction that cancels one job must not expire the others. A locked row cannot be leased by another worker.
 */
export async function renewLeases(db: Db, jobs: readonly Job[], leaseMs: number): Promise<Map<string, boolean>> {
  if (jobs.length === 0) return new Map()
  const { rows } = await sql<{ id: string; is_locked: boolean }>`
    with lease as (
      select * from unnest(${jobs.map(({ id }) => id)}::uuid[], ${jobs.map(({ fence }) => fence)}::bigint[]) as lease (id, fence)
    ), unlocked as (
      select jobs.id from jobs join lease using (id, fence) where status = 'processing' for no key update of jobs skip locked
    ), renewed as (
      update jobs set lease_until = ${msFromNow(leaseMs)} from unlocked where jobs.id = unlocked.id and status = 'processing'
    )
    select jobs.id, unlocked.id is null as is_locked from jobs join lease using (id, fence) left join unlocked using (id)
    where status = 'processing'`.execute(db)
  return new Map(rows.map(({ id, is_locked }) => [id, is_locked]))
}

/** Locks the jobs of locked documents: no worker leases them, and running ones occupy no slot until the transaction ends. */
export async function lockJobs(trx: Trx, ids: readonly string[]): Promise<void> {
  await sql`select from jobs where document_id = any(${ids}) and status in ('pending', 'processing') order by id for update`.execute(trx)
}

/** Extends the lease and locks its row until the transaction ends. Throws LeaseLost. */
export async function lockLease(trx: Trx, job: Job, leaseMs: number): Promise<void> {
  await lockDocument(trx, job)
  await renewLease(trx, job, leaseMs)
}

/** The largest number of finished pages so far. A worker may store its number after a worker that counted more pages. */
const pagesDone = (done: number): RawBuilder<number> => sql<number>`greatest(pages_done, ${done}::integer)`

/** Stores the progress of a job in pages. Throws LeaseLost. */
export const setProgress = (db: Db, job: Job, done: number, total: number): Promise<void> =>
  updateLeased(db, job, { pages_done: pagesDone(done), pages_total: total })

/** Returns whether a job that helps this one is running. */
export async function hasRunningHelpers(db: Db, job: Job): Promise<boolean> {
  const { rows } = await sql`select from jobs where parent_id = ${job.id} and status = 'processing' limit 1`.execute(db)
  return rows.length > 0
}

/** Stores the progress of the parent job while it is running. */
export async function setParentProgress(db: Db, job: Job, done: number, total: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ pages_done: pagesDone(done), pages_total: total })
    .where('id', '=', job.parent_id)
    .where('status', '=', 'processing')
    .execute()
}

/** Marks a job as completed. Throws LeaseLost, which rolls the caller's transaction back. */
export async function completeJob(trx: Trx, job: Job): Promise<void> {
  await lockDocument(trx, job)
  await finishLeased(trx, job, { status: 'completed' })
}

/** Ends a job that is leased with this fencing token. Throws LeaseLost. */
async function finishLeased(trx: Trx, { id, fence, kind }: Job, changes: object): Promise<void> {
  const isLeased = sql`id = ${id} and fence = ${fence} and status = 'processing'`
  // A kind of a later version has no entry.
  const finish =
    kinds[kind]?.keepsFinished === false
      ? sql`delete from jobs_live where ${isLeased}`
      : moveFinished(isLeased, sql`${JSON.stringify(changes)}::jsonb`)
  const { numAffectedRows } = await finish.execute(trx)
  if (numAffectedRows !== 1n) throw new LeaseLost()
}

/** Columns of a job without a lease. */
const pending = { status: 'pending', lease_until: null, worker: null, dedupe_key: null } as const

/** Records a failed attempt. Returns whether it was the last one. Throws LeaseLost. */
export async function failJob(trx: Trx, job: Job, problem: JobProblem): Promise<boolean> {
  await lockDocument(trx, job)
  const isFinal = !problem.isRetryable || job.attempts >= job.max_attempts
  const error = { error_code: problem.code, error_message: problem.message.toWellFormed() }
  if (isFinal) await finishLeased(trx, job, { ...error, worker: null, status: 'failed' })
  else await updateLeased(trx, job, { ...pending, ...error, run_at: msFromNow(backoffMs(job.attempts)) })
  return isFinal
}

/**
 * Number of lost leases that do not count as attempts, because the worker may have died of another job. After that, a job that reads files runs
 * alone, and each further loss counts.
 */
const maxUncountedLosses = 2

/** Returns whether the job must be the only job of its worker. Returns false for sync and index jobs, which may run for hours. */
export const mustRunAlone = ({ queue, losses }: Job): boolean => queue === 'ocr' && losses >= maxUncountedLosses

/** Records that the worker of a job died. Returns whether it was the last attempt. Throws LeaseLost. */
export async function loseJob(trx: Trx, job: Job, problem: JobProblem): Promise<boolean> {
  // The parent of a helper job reads its pages.
  if (job.parent_id !== null || job.losses >= maxUncountedLosses) return failJob(trx, job, problem)
  await lockDocument(trx, job)
  await updateLeased(trx, job, {
    ...pending,
    error_code: problem.code,
    error_message: problem.message,
    attempts: sql<number>`attempts - 1`,
    losses: sql<number>`losses + 1`,
    run_at: msFromNow(backoffMs(job.losses + 1)),
  })
  return false
}

/** Returns a job to the queue, to run after `delayMs`. The attempt does not count. Throws LeaseLost. */
export async function releaseLease(trx: Trx, job: Job, delayMs = 0): Promise<void> {
  await lockDocument(trx, job)
  await updateLeased(trx, job, {
    ...pending,
    attempts: sql<number>`attempts - 1`,
    run_at: sql<Date>`greatest(run_at, ${msFromNow(delayMs)})`,
  })
  await sql`select pg_notify('dms_jobs', 'ready')`.execute(trx)
}

/** Leases one job whose lease has expired, with a new fencing token; null if there is none. */
export async function leaseExpired(db: Db, worker: string, leaseMs: number): Promise<Job | null> {
  const { rows } = await sql<Job>`
    with lost as (select id from jobs where status = 'processing' and lease_until < now() limit 1 for update skip locked)
    update jobs set fence = fence + 1, worker = ${worker}, lease_until = ${msFromNow(leaseMs)}
    from lost where jobs.id = lost.id returning jobs.*`.execute(db)
  return rows[0] ?? null
}

/** Expires the leases of the named workers at once. Leaves out locked rows, which a transaction is changing. */
export async function expireLeases(db: Db, workers: readonly string[]): Promise<void> {
  if (workers.length === 0) return
  await sql`
    with leased as (select id from jobs where status = 'processing' and worker = any(${workers}) for no key update skip locked)
    update jobs set lease_until = ${new Date(0)} from leased where jobs.id = leased.id and status = 'processing'`.execute(db)
}

export interface AbandonedJob extends Pick<Job, 'id' | 'kind' | 'worker' | 'document_id' | 'fence'> {
  /** seconds since the lease expired */
  since: number
}

/** Returns at most `limit` jobs whose lease expired at least five minutes ago and that no worker has recovered. */
export async function loadAbandoned(db: Db, limit: number): Promise<AbandonedJob[]> {
  const { rows } = await sql<AbandonedJob>`
    select id, kind, worker, document_id, fence, extract(epoch from now() - lease_until)::int as since from jobs
    where status = 'processing' and (lease_until is null or lease_until < now() - interval '5 minutes')
    order by id limit ${limit}`.execute(db)
  return rows
}

/** Makes an abandoned job pending again. Returns false if a worker has leased it meanwhile. */
export async function requeue(db: Db, { id, fence }: Pick<AbandonedJob, 'id' | 'fence'>): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update jobs set status = 'pending', fence = fence + 1, lease_until = null, worker = null, dedupe_key = null
    where id = ${id} and fence = ${fence} and status = 'processing'`.execute(db)
  return numAffectedRows === 1n
}

/** Time without a heartbeat after which a worker counts as dead. An idle worker sends one every 20 seconds, a busy one each second. */
export const workerTimeoutSeconds = 30
/** Condition for a row of a live worker. */
export const isLiveWorker = hasRecentHeartbeat(workerTimeoutSeconds)

/** Returns the workers that hold leases, with the seconds since their last heartbeat (null: no heartbeat). */
export async function loadLeaseHolders(db: Db): Promise<{ worker: string; silent: number | null }[]> {
  const { rows } = await sql<{ worker: string; silent: number | null }>`
    select worker, extract(epoch from now() - max(seen_at))::float8 as silent
    from jobs left join workers on name = worker where status = 'processing' and worker is not null group by worker`.execute(db)
  return rows
}

/** The job yields to other owners: it returns to the queue and keeps its progress. */
export class Yielded extends Error {
  constructor() {
    super('the job yielded to others')
    this.name = 'Yielded'
  }
}

/** The lease is lost: the job was cancelled, or another worker has it. */
export class LeaseLost extends Error {
  constructor() {
    super('the lease of the job is lost')
    this.name = 'LeaseLost'
  }
}

/**
 * Locks the document of a job. Every transaction that changes a document and its jobs locks the document first, which prevents deadlocks
 * with deletions, retries and cancellations.
 */
export async function lockDocument(trx: Trx, { document_id }: Pick<Job, 'document_id'>): Promise<void> {
  if (document_id !== null) await trx.selectFrom('documents').select('id').where('id', '=', document_id).forNoKeyUpdate().execute()
}

/** Returns the time before the next attempt: 5 s, 20 s, 45 s, … at most 10 minutes, with 25 % jitter. */
const backoffMs = (attempts: number): number => Math.min(600_000, 5_000 * attempts ** 2) * (0.75 + Math.random() / 2)
