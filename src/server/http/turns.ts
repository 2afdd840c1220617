/**
 * Limits how many searches and how many changes of one user run at once: each takes a connection of the database for up to its statement timeout, and
 * there are few. Others of the same user wait for their turn. Admins and commands on this machine are not limited.
 */
import type { H3Event } from 'h3'
import { isAdmin } from '../../actor.ts'
import { openSlots, type Slots } from '../../concurrency.ts'
import { AppError } from '../../errors.ts'
import type { Route } from '../../http/route.ts'

type Kind = 'search' | 'change'

/** One connection less than searches have; the pool for changes has ten by default. */
const maxAtOnce: Readonly<Record<Kind, number>> = { search: 3, change: 4 }
const maxWaiting = 100
const waitMs = 10_000
const retryAfterSecs = 5

interface Use {
  readonly slots: Slots
  /** requests that run or wait */
  requests: number
}

/** Runs a request when it is its turn. Throws RATE_LIMITED after ten seconds, or if too many wait. */
export type RunInTurn = <T>(event: H3Event, route: Route, request: () => Promise<T>) => Promise<T>

export function openTurns(): RunInTurn {
  const uses = new Map<string, Use>()
  return async ({ context: { actor, isLocal } }, route, request) => {
    const kind = kindOf(route)
    if (kind === null || !actor || isLocal || isAdmin(actor)) return request()
    const key = `${kind} ${actor.id}`
    const use = uses.get(key) ?? { slots: openSlots(maxAtOnce[kind]), requests: 0 }
    if (use.requests >= maxAtOnce[kind] + maxWaiting) throw refusal()
    uses.set(key, use)
    use.requests++
    try {
      await use.slots.acquire('', AbortSignal.timeout(waitMs)).catch(() => {
        throw refusal()
      })
      try {
        return await request()
      } finally {
        use.slots.release()
      }
    } finally {
      if (--use.requests === 0) uses.delete(key)
    }
  }
}

/** Uploads take a connection for their bytes only once these have arrived. */
function kindOf({ method, shape }: Route): Kind | null {
  if (shape.isSearch) return 'search'
  return method === 'GET' || shape.form ? null : 'change'
}

const refusal = (): AppError =>
  new AppError('RATE_LIMITED', { retry_after_secs: retryAfterSecs }, 'Too many of your requests run at once. Wait for their answers first.')
