/**
 * Limits how many searches and how many changes of one user run at once: each takes a connection of the database for up to its statement timeout, and
 * there are few. Others of the same user wait for their turn. Admins and commands on this machine are not limited.
 */
import type { H3Event } from 'h3'
import { isAdmin } from '../../actor.ts'
import { openSlots, type Slots } from '../../concurrency.ts'
import { AppError } from '../../errors.ts'
import type { TakeTurn } from '../../http/event-context.ts'
import type { Route } from '../../http/route.ts'

type Kind = 'search' | 'change'

/** One connection less than searches have; the pool for changes has ten by default. */
const maxAtOnce: Readonly<Record<Kind, number>> = { search: 3, change: 4 }
const maxWaiting = 100
/** Uploads of one user that are received at once: each holds a file and a connection. */
const maxUploads = 64
const waitMs = 10_000
const retryAfterSecs = 5

interface Use {
  readonly slots: Slots
  /** requests that run or wait */
  requests: number
}

/** Runs a request when it is its turn, and gives it `context.takeTurn` for later work. Throws RATE_LIMITED after ten seconds, or if too many wait. */
export type RunInTurn = <T>(event: H3Event, route: Route, request: () => Promise<T>) => Promise<T>

export function openTurns(): RunInTurn {
  const uses = new Map<string, Use>()
  const uploads = new Map<string, number>()
  const receive = async <T>(userId: string, request: () => Promise<T>): Promise<T> => {
    const count = (change: number) => (uploads.get(userId) ?? 0) + change
    if (count(1) > maxUploads) throw refusal()
    uploads.set(userId, count(1))
    try {
      return await request()
    } finally {
      if (count(-1) === 0) uploads.delete(userId)
      else uploads.set(userId, count(-1))
    }
  }
  const openTurn =
    (kind: Kind, userId: string): TakeTurn =>
    async (work) => {
      const key = `${kind} ${userId}`
      const use = uses.get(key) ?? { slots: openSlots(maxAtOnce[kind]), requests: 0 }
      if (use.requests >= maxAtOnce[kind] + maxWaiting) throw refusal()
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
    if (shape.form) return receive(actor.id, request)
    return shape.takesTurns ? request() : takeTurn(request)
  }
}

const refusal = (): AppError =>
  new AppError('RATE_LIMITED', { retry_after_secs: retryAfterSecs }, 'Too many of your requests run at once. Wait for their answers first.')
