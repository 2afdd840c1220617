/**
 * Who has which job: a claim is a lease with a fence. The number goes up at each claim, and whoever comes back late with an old one changes
 * nothing.
 */
import { sql } from 'kysely'
import type { Db, Trx } from '../db/pool.ts'
import { type Job, type JobProblem, kinds, ocrPausedKey, priorities, type Queue } from './queue.ts'

/**
 * Takes the next job of a queue for `lease` milliseconds, or null: of the highest priority, and within it the oldest job of each owner in turn.
 * An owner never has more than `maxRunning` of the queue's jobs running (0: no limit). While OCR is paused, documents wait; helpers of one being
 * read go on.
 */
export async function leaseNext(db: Db, queue: Queue, worker: string, lease: number, maxRunning = 0): Promise<Job | null> {
  const { rows } = await sql<Job>`select * from dms_claim_job(${queue}, ${worker}, ${lease}, ${maxRunning})`.execute(db)
  return rows[0] ?? null
}

/** Whether another owner's job of the same priority or a higher one could run now if this one made room; `maxRunning` as in claim(). */
export async function shouldYield(db: Db, { queue, priority, owner_id }: Job, maxRunning = 0): Promise<boolean> {
  // Both sides of the owner's own jobs: those are not read, however many there are.
  const other = (side: '<' | '>') => sql`
    (select owner_id from jobs where queue = ${queue} and status = 'pending' and priority = level and owner_id ${sql.raw(side)} ${owner_id}::uuid
      and run_at <= now() and not exists (select from users where id = jobs.owner_id and disabled)
      and (${maxRunning}::integer = 0 or ${maxRunning}::integer > (
        select count(*) from jobs other where other.queue = jobs.queue and other.status = 'processing' and other.owner_id = jobs.owner_id)) limit 1)`
  const { rows } = await sql<{ is_awaited: boolean }>`
    select not exists (select from instance where key = ${ocrPausedKey}) and exists (
      select from unnest(${Object.values(priorities).filter((level) => level >= priority)}::smallint[]) level
      cross join lateral (${other('<')} union all ${other('>')}) waiting) as is_awaited`.execute(db)
  return rows[0]?.is_awaited ?? false
}

/** Keeps a claim alive; false when it is no longer ours (cancelled, or given to another after a silence). */
export async function renewLease(db: Db, job: Job, lease: number): Promise<boolean> {
  const { numUpdatedRows } = await whereLeased(db, job)
    .set({ lease_until: sql<Date>`now() + ${lease} * interval '1 ms'` })
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

/** Keeps the claim, and keeps it from being taken away before the transaction ends; throws LeaseLost. */
export async function lockLease(trx: Trx, job: Job, lease: number): Promise<void> {
  await lockDocument(trx, job)
  if (!(await renewLease(trx, job, lease))) throw new LeaseLost()
}

/** Says how far it is; throws LeaseLost. */
export async function setProgress(db: Db, job: Job, done: number, total: number): Promise<void> {
  const { numUpdatedRows } = await whereLeased(db, job).set({ pages_done: done, pages_total: total }).executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
}

/** Whether somebody is at work who helps this job. */
export async function hasRunningHelpers(db: Db, job: Job): Promise<boolean> {
  const helpers = await db
    .selectFrom('jobs')
    .select('id')
    .where('parent_id', '=', job.id)
    .where('status', '=', 'processing')
    .limit(1)
    .execute()
  return helpers.length > 0
}

/** Says how far the job is that this one helps, while both are live. */
export async function setParentProgress(db: Db, job: Job, done: number, total: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ pages_done: done, pages_total: total })
    .where('id', '=', job.parent_id)
    .where('status', '=', 'processing')
    .execute()
}

/** Ends a job well; throws LeaseLost, so that the caller's transaction is undone, when it is no longer ours. */
export async function completeJob(trx: Trx, job: Job): Promise<void> {
  await lockDocument(trx, job)
  const { numUpdatedRows } = await whereLeased(trx, job)
    .set({ status: 'completed', lease_until: null, finished_at: sql<Date>`now()` })
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
  if (!kinds[job.kind].keepsFinished) await trx.deleteFrom('jobs').where('id', '=', job.id).execute()
}

/** Ends a try badly; true when that was the last. Throws LeaseLost. */
export async function failJob(trx: Trx, job: Job, problem: JobProblem): Promise<boolean> {
  await lockDocument(trx, job)
  const final = !problem.isRetryable || job.attempts >= job.max_attempts
  const { numUpdatedRows } = await whereLeased(trx, job)
    .set({
      error_code: problem.code,
      error_message: problem.message,
      lease_until: null,
      worker: null,
      ...(final
        ? { status: 'failed', finished_at: sql<Date>`now()` }
        : { status: 'pending', dedupe_key: null, run_at: sql<Date>`now() + ${backoffMs(job.attempts)} * interval '1 ms'` }),
    })
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
  // A kind of a later version has no entry.
  if (final && kinds[job.kind]?.keepsFinished === false) await trx.deleteFrom('jobs').where('id', '=', job.id).execute()
  return final
}

/** Gives a job back unharmed, to be run in `delay` milliseconds: the try does not count. Throws LeaseLost. */
export async function releaseLease(trx: Trx, job: Job, delay = 0): Promise<void> {
  await lockDocument(trx, job)
  const { numUpdatedRows } = await whereLeased(trx, job)
    .set((eb) => ({
      status: 'pending',
      attempts: eb('attempts', '-', 1),
      run_at: sql<Date>`greatest(run_at, now() + ${delay} * interval '1 ms')`,
      lease_until: null,
      worker: null,
      dedupe_key: null,
    }))
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
  await sql`select pg_notify('dms_jobs', 'ready')`.execute(trx)
}

/** Claims whose worker fell silent, one at a time, each already fenced off from it. */
export async function leaseExpired(db: Db, worker: string, lease: number): Promise<Job | null> {
  const { rows } = await sql<Job>`
    with lost as (select id from jobs where status = 'processing' and lease_until < now() limit 1 for update skip locked)
    update jobs set fence = fence + 1, worker = ${worker}, lease_until = now() + ${lease} * interval '1 ms'
    from lost where jobs.id = lost.id returning jobs.*`.execute(db)
  return rows[0] ?? null
}

/** Ends the leases of workers known to be dead, without the wait. */
export async function expireLeases(db: Db, workers: readonly string[]): Promise<void> {
  if (workers.length === 0) return
  await db
    .updateTable('jobs')
    .set({ lease_until: new Date(0) })
    .where('status', '=', 'processing')
    .where('worker', 'in', workers)
    .execute()
}

export interface AbandonedJob extends Pick<Job, 'id' | 'kind' | 'worker' | 'document_id' | 'fence'> {
  /** seconds since the claim ended */
  since: number
}

/** Claims that ended minutes ago and that nobody took over, as any worker would have; at most `most`. */
export async function loadAbandoned(db: Db, most: number): Promise<AbandonedJob[]> {
  const { rows } = await sql<AbandonedJob>`
    select id, kind, worker, document_id, fence, extract(epoch from now() - lease_until)::int as since from jobs
    where status = 'processing' and (lease_until is null or lease_until < now() - interval '5 minutes') order by id limit ${most}`.execute(
    db,
  )
  return rows
}

/** Lets such a job wait again; false where somebody has taken it over by now. */
export async function requeue(db: Db, { id, fence }: Pick<AbandonedJob, 'id' | 'fence'>): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update jobs set status = 'pending', fence = fence + 1, lease_until = null, worker = null, dedupe_key = null
    where id = ${id} and fence = ${fence} and status = 'processing'`.execute(db)
  return numAffectedRows === 1n
}

/** The workers that hold claims now, and for how many seconds nobody has seen them (null: never seen). */
export async function loadLeaseHolders(db: Db): Promise<{ worker: string; silent: number | null }[]> {
  const { rows } = await sql<{ worker: string; silent: number | null }>`
    select worker, extract(epoch from now() - max(seen_at))::float8 as silent
    from jobs left join workers on name = worker where status = 'processing' and worker is not null group by worker`.execute(db)
  return rows
}

/** The job made room for other owners: it goes back to the queue, and what it has done stays. */
export class Yielded extends Error {
  constructor() {
    super('the job made room for others')
    this.name = 'Yielded'
  }
}

/** The claim is no longer ours: somebody cancelled the job, or another worker has it. */
export class LeaseLost extends Error {
  constructor() {
    super('the job is no longer ours')
    this.name = 'LeaseLost'
  }
}

/**
 * Whoever changes a document and its jobs locks the document first: deleting, retrying and cancelling come from that side, and two who
 * lock in different orders wait for each other.
 */
export async function lockDocument(trx: Trx, { document_id }: Pick<Job, 'document_id'>): Promise<void> {
  if (document_id !== null) await trx.selectFrom('documents').select('id').where('id', '=', document_id).forNoKeyUpdate().execute()
}

const whereLeased = (db: Db, job: Job) =>
  db.updateTable('jobs').where('id', '=', job.id).where('fence', '=', job.fence).where('status', '=', 'processing')

/** Milliseconds before try number attempts + 1: 5 s, 20 s, 45 s, … at most 10 minutes, spread by a quarter so that many do not come back at once. */
const backoffMs = (attempts: number): number => Math.min(600_000, 5_000 * attempts ** 2) * (0.75 + Math.random() / 2)
