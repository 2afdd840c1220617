/** Locks keys after repeated failures, to stop guessing from many addresses. Each further lock within a day lasts twice as long. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { clock, secondsAgo } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError, type Code } from '../errors.ts'
import type { Limit } from './rate-limit.ts'

/** Time for which a lock doubles the next one. It is also the retention of rate_hits. */
const lockMemorySeconds = 86_400

/**
 * Throws `code` with `retry_after_secs` while `key` is locked. The first lock within 24 hours lasts for the window of the limit.
 */
export async function rejectLocked(app: App, key: string, limit: Limit, code: Code): Promise<void> {
  const wait = await remainingLockSeconds(app.db, key, limit)
  if (wait > 0) throw new AppError(code, { retry_after_secs: wait })
}

/**
 * Counts a failure under `key`, and locks the key after the last allowed one. `onLock` runs in the same transaction, with the seconds of the lock.
 * Throws `code` if the key is locked; concurrent requests get no more guesses than sequential requests.
 */
export async function countFailure(
  app: App,
  key: string,
  limit: Limit,
  code: Code,
  onLock: (trx: Trx, seconds: number) => Promise<void>,
): Promise<void> {
  const wait = await app.db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`.execute(trx)
    const left = await remainingLockSeconds(trx, key, limit)
    if (left > 0) return left
    const { failures } = await trx
      .selectFrom('rate_hits')
      .select(sql<number>`count(*)::int`.as('failures'))
      .where('key', '=', key)
      .where('at', '>', secondsAgo(limit.windowSeconds))
      .where('at', '<=', clock)
      .executeTakeFirstOrThrow()
    if (failures + 1 < limit.max) {
      await trx.insertInto('rate_hits').values({ key, at: clock }).execute()
      return 0
    }
    await trx.deleteFrom('rate_hits').where('key', '=', key).execute()
    await trx
      .insertInto('rate_hits')
      .values({ key: lockOf(key), at: clock })
      .execute()
    await onLock(trx, await remainingLockSeconds(trx, key, limit))
    return 0
  })
  if (wait > 0) throw new AppError(code, { retry_after_secs: wait })
}

/** Returns the remaining seconds of the lock, or 0. Locks in the future, from before the clock was set back, do not count. */
async function remainingLockSeconds(db: Db, key: string, { windowSeconds }: Limit): Promise<number> {
  const { seconds } = await db
    .selectFrom('rate_hits')
    .select(
      sql<number>`coalesce(greatest(0, ceil(extract(epoch from max(at) - ${clock}) + ${windowSeconds} * power(2, count(*) - 1))), 0)::int`.as(
        'seconds',
      ),
    )
    .where('key', '=', lockOf(key))
    .where('at', '>', secondsAgo(lockMemorySeconds))
    .where('at', '<=', clock)
    .executeTakeFirstOrThrow()
  return seconds
}

const lockOf = (key: string): string => `${key}:lock`
