/** The calls a minute that one user, or one address, may make: counted in PostgreSQL for all server processes, asked for a few at a time. */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'

interface Window {
  /** by app.monotonicMs() */
  endsAt: number
  /** calls that this process may still let through without asking */
  left: number
  isUsedUp: boolean
  request: Promise<void> | null
}

const minuteMs = 60_000
/** Keys in memory; one that was pushed out only asks again. */
const maxKeys = 10_000

/**
 * Makes the limiter. It lets a call pass or throws RATE_LIMITED with the seconds until the window ends; a promise only where PostgreSQL must be asked. Never more than the limit pass over all
 * processes; what a process has taken but not used (at most a twentieth of the limit) is lost to the others, so slightly fewer may.
 */
export function openCallLimit(app: App): (key: string) => void | Promise<void> {
  const limit = app.config.limits.api_calls_per_minute
  const share = Math.max(1, Math.floor(limit / 20))
  const windows = new LRUCache<string, Window>({ max: maxKeys })

  let requestCount = 0

  const requestShare = async (key: string, window: Window): Promise<void> => {
    if (++requestCount % 500 === 0) await deleteExpired(app)
    // The clock is read in place, once the row is locked: read before that it could lie before what another process has just written.
    const isOver = sql`(call_windows.starts_at <= clock_timestamp() - interval '1 minute' or call_windows.starts_at > clock_timestamp())`
    const { rows } = await sql<{ left_ms: number; used: number }>`
      insert into call_windows (key, starts_at, used) values (${key}, clock_timestamp(), ${share})
      on conflict (key) do update set
        starts_at = case when ${isOver} then excluded.starts_at else call_windows.starts_at end,
        used = case when ${isOver} then ${share} else call_windows.used + ${share} end
      returning extract(epoch from starts_at + interval '1 minute' - clock_timestamp())::float8 * 1000 as left_ms, used`.execute(app.db)
    const { left_ms, used } = rows[0]!
    window.endsAt = app.monotonicMs() + left_ms
    window.left = Math.max(0, share - Math.max(0, used - limit))
    window.isUsedUp = window.left === 0
  }

  /** Takes one call from what this process has; the window, where it has none. */
  const take = (key: string): Window | null => {
    const now = app.monotonicMs()
    let window = windows.get(key)
    if (!window || window.endsAt <= now) {
      window = { endsAt: now + minuteMs, left: 0, isUsedUp: false, request: null }
      windows.set(key, window)
    }
    if (window.left > 0) {
      window.left--
      return null
    }
    if (window.isUsedUp) throw new AppError('RATE_LIMITED', { retry_after_secs: Math.max(1, Math.ceil((window.endsAt - now) / 1000)) })
    return window
  }

  const requestAndTake = async (key: string, empty: Window): Promise<void> => {
    for (let window: Window | null = empty; window; window = take(key)) {
      const current = window
      // Calls that come while the answer is under way wait for it, instead of taking a share each.
      current.request ??= requestShare(key, current).finally(() => {
        current.request = null
      })
      await current.request
    }
  }

  return (key) => {
    const empty = limit === 0 ? null : take(key)
    if (empty) return requestAndTake(key, empty)
  }
}

/** Windows that are long over, of keys that nobody comes back with. */
async function deleteExpired(app: App): Promise<void> {
  await sql`delete from call_windows where starts_at < now() - interval '10 minutes'`.execute(app.db)
}
