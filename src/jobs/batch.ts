/** Job batches: a worker that leases one job also handles pending jobs of its kind. */
import { sql } from 'kysely'
import type { Db, Trx } from '../db/pool.ts'
import type { Job, Kind, Payloads } from './queue.ts'

export interface BatchJob<K extends Kind> {
  readonly id: string
  readonly payload: Payloads[K]
  /** changes when the job is enqueued again */
  readonly version: string
}

/**
 * Returns at most `limit` runnable jobs of the kind of `job`. They are not leased: other workers may run them too. Leaves out jobs that a transaction is
 * deleting, because it has locked what they are about.
 */
export async function loadBatch<K extends Kind>(db: Db, job: Job<K>, limit: number): Promise<BatchJob<K>[]> {
  const { rows } = await sql<BatchJob<K>>`
    select id, payload, xmin::text as version from jobs
    where queue = ${job.queue} and kind = ${job.kind} and status = 'pending' and run_at <= now()
    order by priority desc, run_at, id limit ${limit} for key share skip locked`.execute(db)
  return rows
}

/**
 * Deletes jobs that are still pending. Jobs that were enqueued again since loadBatch() stay, because of a later change. So do locked jobs: a
 * transaction that may last minutes is enqueuing them again.
 */
export async function finishBatch(trx: Trx, finished: readonly BatchJob<Kind>[]): Promise<void> {
  await sql`
    with done as (
      select jobs.id from jobs
      join unnest(${finished.map(({ id }) => id)}::uuid[], ${finished.map(({ version }) => version)}::text[]) as batch (id, version) using (id)
      where status = 'pending' and jobs.xmin::text = version for update of jobs skip locked
    )
    delete from jobs using done where jobs.id = done.id and jobs.status = 'pending'`.execute(trx)
}

/** Maximum number of attempts that deferred jobs inherit. More would let their backoff grow until they failed finally. */
const maxCountedAttempts = 3

/** Defers the other jobs of the batch until `job` is retried, after a failure that is not about the job itself. */
export async function deferBatch<K extends Kind>(trx: Trx, job: Job<K>, limit: number): Promise<void> {
  await sql`
    with failed as (
      update jobs set attempts = least(attempts, ${maxCountedAttempts}) where id = ${job.id} and status = 'pending'
      returning run_at, attempts, error_code, error_message
    )
    update jobs set run_at = failed.run_at, attempts = failed.attempts, error_code = failed.error_code, error_message = failed.error_message
    from failed where jobs.id in (
      select id from jobs where queue = ${job.queue} and kind = ${job.kind} and status = 'pending' and run_at <= now()
      order by priority desc, run_at, id limit ${limit} for update skip locked
    )`.execute(trx)
}

/** Jobs that one call examines. The next successful job handles the rest. */
const maxScanned = 1000

/** Makes jobs that failed with `code` runnable at once. */
export async function retryBatchNow<K extends Kind>(trx: Trx, job: Job<K>, code: string): Promise<void> {
  await sql`
    with last as materialized (
      select id, run_at, error_code from jobs where queue = ${job.queue} and kind = ${job.kind} and status = 'pending'
      order by priority, run_at desc, id desc limit ${maxScanned}
    )
    update jobs set run_at = now() where id in (
      select id from jobs where id in (select id from last where run_at > now() and error_code = ${code}) and status = 'pending'
      order by id for update skip locked
    )`.execute(trx)
}
