/** Batches jobs: a worker that leases one job also takes waiting jobs of the same kind. */
import { sql } from 'kysely'
import type { Db, Trx } from '../db/pool.ts'
import type { Job, Kind, Payloads } from './queue.ts'

export interface BatchJob<K extends Kind> {
  readonly id: string
  readonly payload: Payloads[K]
  /** changes when the job is enqueued again */
  readonly version: string
}

/** Returns up to `most` runnable jobs of the same kind. They are not leased: other workers may run them too. */
export async function loadBatch<K extends Kind>(db: Db, job: Job<K>, most: number): Promise<BatchJob<K>[]> {
  const { rows } = await sql<BatchJob<K>>`
    select id, payload, xmin::text as version from jobs
    where queue = ${job.queue} and kind = ${job.kind} and status = 'pending' and run_at <= now()
    order by priority desc, run_at, id limit ${most}`.execute(db)
  return rows
}

/** Deletes jobs that are still pending and were not enqueued again since they were read. A second request may stand for a later change. */
export async function finishBatch(trx: Trx, finished: readonly BatchJob<Kind>[]): Promise<void> {
  await sql`
    delete from jobs using unnest(${finished.map(({ id }) => id)}::uuid[], ${finished.map(({ version }) => version)}::text[]) as done (id, version)
    where jobs.id = done.id and jobs.status = 'pending' and jobs.xmin::text = done.version`.execute(trx)
}

/** Attempts that count for deferred jobs. Without a limit their backoff would grow until they failed for good. */
const maxCountedAttempts = 3

/** Defers the other jobs of the batch until `job` is retried, after a failure that is not about the job itself. */
export async function deferBatch<K extends Kind>(trx: Trx, job: Job<K>, most: number): Promise<void> {
  await sql`
    with failed as (
      update jobs set attempts = least(attempts, ${maxCountedAttempts}) where id = ${job.id} and status = 'pending'
      returning run_at, attempts, error_code, error_message
    )
    update jobs set run_at = failed.run_at, attempts = failed.attempts, error_code = failed.error_code, error_message = failed.error_message
    from failed where jobs.id in (
      select id from jobs where queue = ${job.queue} and kind = ${job.kind} and status = 'pending' and run_at <= now()
      order by priority desc, run_at, id limit ${most} for update skip locked
    )`.execute(trx)
}

/** Jobs that one call examines. The next job that succeeds handles the rest. */
const maxScanned = 1000

/** Makes jobs runnable at once that failed with `code`, when the cause is gone. */
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
