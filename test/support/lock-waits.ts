/** Requests that wait for the lock of a transaction. */
import { sql } from 'kysely'
import { expect } from 'vitest'
import type { App } from '../../src/app.ts'
import type { Db, Trx } from '../../src/db/pool.ts'

/** Returns the number of statements that wait for a lock. */
export async function countWaiting(db: Db): Promise<number> {
  const { rows } = await sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
  return rows.length
}

/** Runs `ask` while `hold` has run in a transaction, and commits this one after `go`, as soon as `ask` waits for a lock. Returns what `ask` returns. */
export async function meanwhile<T>(
  { db }: App,
  hold: (trx: Trx) => Promise<unknown>,
  ask: () => Promise<T>,
  go: (trx: Trx) => Promise<unknown>,
) {
  const { answer } = await db.transaction().execute(async (trx) => {
    await hold(trx)
    const answer = ask()
    answer.catch(() => {})
    // More than one: a sync also records its progress, and may wait there for its own transaction.
    await expect.poll(() => countWaiting(db)).toBeGreaterThanOrEqual(1)
    await go(trx)
    return { answer }
  })
  return answer
}
