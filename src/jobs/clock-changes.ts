/** Corrections after the clock of the database was set back. */
import { sql } from 'kysely'
import type { Db } from '../db/pool.ts'

/** Later than the longest delay of a job: a time beyond it comes from a clock that was ahead. */
const maxDelay = sql`interval '1 hour'`

/**
 * Makes jobs runnable that were enqueued while the clock was ahead, and shortens leases of that time to `leaseMs`. Otherwise, both would last until the
 * clock shows that time again. Skips locked jobs; the next call corrects them.
 */
export async function correctJobTimes(db: Db, leaseMs: number): Promise<void> {
  await sql`
    update jobs set run_at = now() where status = 'pending' and id in (
      select id from jobs where status = 'pending' and run_at > now() + ${maxDelay} order by id for update skip locked)`.execute(db)
  const lease = sql`${leaseMs} * interval '1 ms'`
  await sql`
    update jobs set lease_until = now() + ${lease} where status = 'processing' and id in (
      select id from jobs where status = 'processing' and lease_until > now() + ${lease} + ${maxDelay} order by id for update skip locked)`.execute(
    db,
  )
}
