/** Waiting jobs of a kind that are done together with one that was claimed: a hundred small changes cost little more than one. */
import { sql } from 'kysely'
import type { Db, Trx } from '../db/pool.ts'
import type { Job, Kind, Payloads } from './queue.ts'

export interface BatchJob<K extends Kind> {
  readonly id: string
  readonly payload: Payloads[K]
  /** tells whether it was asked for once more meanwhile */
  readonly version: string
}

/** Jobs of the same kind that could be claimed now, at most `most`. They are not claimed: others may do them too. */
export async function loadBatch<K extends Kind>(db: Db, job: Job<K>, most: number): Promise<BatchJob<K>[]> {
  const { rows } = await sql<BatchJob<K>>`
    select id, payload, xmin::text as version from jobs
    where queue = ${job.queue} and kind = ${job.kind} and status = 'pending' and run_at <= now()
    order by priority desc, run_at, id limit ${most}`.execute(db)
  return rows
}

/** Takes away those that nobody has claimed and nobody has asked for again since they were read: that request came with a change that was not seen. */
export async function finishBatch(trx: Trx, finished: readonly BatchJob<Kind>[]): Promise<void> {
  await sql`
    delete from jobs using unnest(${finished.map(({ id }) => id)}::uuid[], ${finished.map(({ version }) => version)}::text[]) as done (id, version)
    where jobs.id = done.id and jobs.status = 'pending' and jobs.xmin::text = done.version`.execute(trx)
}

/** Tries that are counted of what is put off: with more it would wait longer and longer, and be given up in the end. */
const maxCountedAttempts = 3

/** Lets as many as would have been riders wait as long as this one, which has just failed for a reason that is not its own. */
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

/** Those that are looked at, whatever waits besides: if there are more, the next job that ends well brings the others forward. */
const maxScanned = 1000

/** Lets those that failed with this code be tried at once: the reason is gone. */
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
