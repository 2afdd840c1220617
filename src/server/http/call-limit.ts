/**
 * Limits calls per minute of a user or an address, counted in PostgreSQL for all server processes. Each route has a cost in calls. A process
 * takes shares of a window instead of counting each call there: the limit costs 7.4 % of the benchmark "one document" (bench/api.ts).
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { App } from '../../app.ts'
import { isReadOnly } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'

interface Window {
  /** End by app.monotonicMs(). */
  endsAt: number
  /** Remaining calls of the share of this process. */
  left: number
  /** Calls of all shares of this process. */
  granted: number
  isUsedUp: boolean
  request: Promise<void> | null
}

const minuteMs = 60_000
/** Maximum number of keys in memory. An evicted key takes a new share. */
const maxKeys = 10_000
/** Tolerance for sums of fractional costs. */
const rounding = 1e-6
/** Expired windows are deleted once per this many shares. */
const cleanupInterval = 500

/**
 * Opens the limiter, which throws RATE_LIMITED with the seconds until the window ends. Over all processes, no more calls pass than the limit.
 * Unused shares (at most a twentieth of the limit for each process) are lost, so slightly fewer may pass. While the database is read-only, the
 * limit applies to each process separately.
 */
export function openCallLimit(app: App): (key: string, routeCost: number) => Promise<void> {
  const limit = app.config.limits.api_calls_per_minute
  const minShare = Math.max(1, Math.floor(limit / 20))
  const windows = new LRUCache<string, Window>({ max: maxKeys })
  let requestCount = 0

  const requestShare = async (key: string, window: Window, cost: number): Promise<void> => {
    const share = Math.max(minShare, Math.ceil(cost - window.left - rounding))
    if (++requestCount % cleanupInterval === 0)
      await sql`delete from call_windows where starts_at < now() - interval '10 minutes'`.execute(app.db)
    // Reads the clock after the row is locked. An earlier time could lie before a write of another process.
    const isOver = sql`(call_windows.starts_at <= clock_timestamp() - interval '1 minute' or call_windows.starts_at > clock_timestamp())`
    const { rows } = await sql<{ left_ms: number; used: number }>`
      insert into call_windows (key, starts_at, used) values (${key}, clock_timestamp(), ${share})
      on conflict (key) do update set
        starts_at = case when ${isOver} then excluded.starts_at else call_windows.starts_at end,
        used = case when ${isOver} then ${share} else call_windows.used + ${share} end
      returning extract(epoch from starts_at + interval '1 minute' - clock_timestamp())::float8 * 1000 as left_ms, used`.execute(app.db)
    const { left_ms, used } = rows[0]!
    window.endsAt = app.monotonicMs() + left_ms
    const granted = Math.max(0, share - Math.max(0, used - limit))
    window.left += granted
    window.granted += granted
    window.isUsedUp = granted < share
  }

  /** Grants the rest of the limit, so that users can continue to read. */
  const grantRest = (error: unknown, window: Window): void => {
    if (!isReadOnly(error)) throw error
    window.left += limit - window.granted
    window.granted = limit
    window.isUsedUp = true
  }

  const currentWindow = (key: string, now: number): Window => {
    const current = windows.get(key)
    if (current && current.endsAt > now) return current
    const window: Window = { endsAt: now + minuteMs, left: 0, granted: 0, isUsedUp: false, request: null }
    windows.set(key, window)
    return window
  }

  return async (key, routeCost) => {
    // A route that costs more than the limit takes all of it.
    const cost = Math.min(routeCost, limit)
    while (limit > 0) {
      const now = app.monotonicMs()
      const window = currentWindow(key, now)
      if (window.left + rounding >= cost) {
        window.left -= cost
        return
      }
      if (window.isUsedUp) throw new AppError('RATE_LIMITED', { retry_after_secs: Math.max(1, Math.ceil((window.endsAt - now) / 1000)) })
      // Concurrent calls wait for one share instead of taking one each.
      window.request ??= requestShare(key, window, cost)
        .catch((error) => grantRest(error, window))
        .finally(() => {
          window.request = null
        })
      await window.request
    }
  }
}
