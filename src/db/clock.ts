/**
 * The database clock. Limits, windows and expiries are judged by it alone: the clocks of server processes differ from each other and can be set
 * back. `clock_timestamp()` and not `now()`, which stands still within a transaction and so can lie before rows that others have committed.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from './pool.ts'

/** A subquery, so that PostgreSQL asks the clock once for each statement and can use an index on what is compared with it. */
export const clock = sql<Date>`(select clock_timestamp())`

/** `seconds` before the database's present. */
export const secondsAgo = (seconds: number): RawBuilder<Date> => sql<Date>`(select clock_timestamp() - make_interval(secs => ${seconds}))`

/** `seconds` after the database's present. */
export const secondsAhead = (seconds: number): RawBuilder<Date> => secondsAgo(-seconds)

/** The database's present. */
export async function databaseNow(db: Db): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
  return (rows[0] as { now: Date }).now
}
