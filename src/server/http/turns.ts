/**
 * Limits how many searches and how many changes of one user run at once: each takes a connection of the database for up to its statement timeout, and
 * there are few. Others of the same user wait for their turn. Uploads in progress are limited too. Admins and commands on this machine are not.
 */
import type { H3Event } from 'h3'
import { isAdmin } from '../../actor.ts'
import { openSlots, type Slots } from '../../concurrency.ts'
import { AppError } from '../../errors.ts'
import type { TakeTurn } from '../../http/event-context.ts'
import type { Route } from '../../http/route.ts'

interface Limit {
  readonly atOnce: number
  readonly waiting: number
}

/**
 * Searches: one connection less than they have. The pool for changes has ten by default. Each upload holds a file and a connection of its sender, and a sender
 * may be slow: none waits.
 */
const limits = {
  search: { atOnce: 3, waiting: 100 },
  change: { atOnce: 4, waiting: 100 },
  upload: { atOnce: 64, waiting: 0 },
} as const satisfies Record<string, Limit>

type Kind = keyof typeof limits
const waitMs = 10_000
const retryAfterSecs = 5

interface Use {
  readonly slots: Slots
  /** requests that run or wait */
  requests: number
}

/** Runs a request when it is its turn, and gives it `context.takeTurn` for later work. Throws RATE_LIMITED after ten seconds, or if too many wait. */
export type RunInTurn = <T>(event: H3Event, route: Route, request: () => Promise<T>) => Promise<T>

/** Opens the turns of all users on this server. They are not shared with other servers. */
export function openTurns(): RunInTurn {
  const uses = new Map<string, Use>()
  const openTurn =
    (kind: Kind, userId: string): TakeTurn =>
    async (work) => {
      const key = `${kind} ${userId}`
      const { atOnce, waiting } = limits[kind]
      const use = uses.get(key) ?? { slots: openSlots(atOnce), requests: 0 }
      if (use.requests >= atOnce + waiting) throw refusal()
      uses.set(key, use)
      use.requests++
      try {
        await use.slots.acquire('', AbortSignal.timeout(waitMs)).catch(() => {
          throw refusal()
        })
        try {
          return await work()
        } finally {
          use.slots.release()
        }
      } finally {
        if (--use.requests === 0) uses.delete(key)
      }
    }
  return async ({ context }, { method, shape }, request) => {
    const { actor, isLocal } = context
    const kind = shape.isSearch ? 'search' : method === 'GET' ? null : 'change'
    if (kind === null || !actor?.id || isLocal || isAdmin(actor)) return request()
    const takeTurn = openTurn(kind, actor.id)
    context.takeTurn = takeTurn
    // An upload takes a connection only after its bytes have arrived, and a streamed change for each of its steps.
    if (shape.form) return openTurn('upload', actor.id)(request)
    return shape.takesTurns ? request() : takeTurn(request)
  }
}

const refusal = (): AppError =>
  new AppError('RATE_LIMITED', { retry_after_secs: retryAfterSecs }, 'Too many of your requests run at once. Wait for their answers first.')
