/**
 * The database clock. All limits, windows and expiries use it, because the clocks of server processes differ and can be set back.
 * `now()` would be wrong: it is the start of the transaction, and may precede rows that others have committed.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from './pool.ts'

/** The current database time. A subquery is evaluated once per statement, so that comparisons can use an index. */
export const clock = sql<Date>`(select clock_timestamp())`

/** The current database time in milliseconds, the precision of the API. */
export const clockMs = sql<Date>`(select date_trunc('milliseconds', clock_timestamp()))`

/** Returns an expression for `seconds` before the current database time. */
export const secondsAgo = (seconds: number): RawBuilder<Date> => sql<Date>`(select clock_timestamp() - make_interval(secs => ${seconds}))`

/** Returns an expression for `seconds` after the current database time. */
export const secondsAhead = (seconds: number): RawBuilder<Date> => secondsAgo(-seconds)

/**
 * Returns a condition on `seen_at`, the last heartbeat of a server or worker: it was sent within the last `seconds`. A heartbeat in the future was sent
 * before the clock was set back, and counts as old: its process may have died since.
 */
export const hasRecentHeartbeat = (seconds: number): RawBuilder<boolean> =>
  sql<boolean>`seen_at between ${secondsAgo(seconds)} and ${secondsAhead(seconds)}`

/** Time without a heartbeat after which a server counts as dead. It sends one every 20 seconds. */
export const serverTimeoutSeconds = 50
/** Condition for a row of a live server. */
export const isLiveServer = hasRecentHeartbeat(serverTimeoutSeconds)

/**
 * Returns the exclusive end of a range whose last millisecond is `time`. The database stores microseconds, but the API shows milliseconds and its
 * ranges include their end.
 */
export const afterMillisecond = (time: Date): Date => new Date(time.getTime() + 1)

/** Returns the time of the database, which also advances within a transaction. */
export async function databaseNow(db: Db): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(db)
  return rows[0]!.now
}
