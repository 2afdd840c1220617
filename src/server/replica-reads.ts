/**
 * Decides which requests read from the replica of database.read_url. A read of a route with `readsReplica` goes there if the replica is at most
 * database.max_lag behind, and if its user has neither written nor received an event for that long, on any server.
 */
import type { H3Event } from 'h3'
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { App } from '../app.ts'
import { isUnavailable } from '../db/pool.ts'
import { loadPrimary, loadStandby, type Position } from '../db/replica.ts'
import { AppError, codes } from '../errors.ts'
import { type BodyLimits, type Route, scopeOf } from '../http/route.ts'
import { type Family, family, gauge } from '../metrics/exposition.ts'

export interface ReplicaReads {
  /** Returns the routes of the primary, with reads that the routes of the replica answer, and with writes that are noted. */
  combine(routes: readonly Route[], replicaRoutes: (app: App) => readonly Route[]): Route[]
  /** Sends the reads of these users to the primary from now on. Call after a commit, before they learn of it. Never rejects. */
  noteWrites(userIds: readonly string[]): Promise<void>
  families(): Family[]
  close(): void
}

interface Observation extends Position {
  /** app.monotonicMs() before the query */
  at: number
}

/** Time without reads after which the replica is not watched. */
const idleMs = 10_000
const maxUsers = 10_000

/** Opens the decision; null without database.read_url. */
export function openReplicaReads(app: App): ReplicaReads | null {
  const { replica, log, database } = app
  if (!replica) return null
  const maxLagMs = app.config.database.max_lag
  /** Users who wrote, with the time until which their reads go to the primary. */
  const pinnedUntil = new LRUCache<string, number>({ max: maxUsers })
  const counts = { replica: 0, primary: 0 }
  const unanswered = { replica: 0, primary: 0 }
  let positions: Observation[] = []
  /** The replica has everything that was committed before this time. */
  let freshAt = Number.NEGATIVE_INFINITY
  let askedAt = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | undefined
  let problem: string | null = null

  const setProblem = (message: string | null) => {
    if (message !== null && message !== problem) log.warn({ reason: message }, 'reads go to the primary database')
    if (message === null && problem !== null) log.info('reads go to the replica')
    problem = message
  }

  const watchOnce = async () => {
    const at = app.monotonicMs()
    const primary = { at, ...(await loadPrimary(app.reads)) }
    if (positions.some(({ wal }) => wal > primary.wal)) positions = []
    positions = [...positions.filter((position) => position.at >= at - maxLagMs), primary]
    const standby = await loadStandby(replica.reads)
    if (standby.wal === null) throw new Error('the database of database.read_url is no standby')
    const reached = positions.findLast(({ wal, heartbeat }) => wal <= standby.wal! && heartbeat <= standby.heartbeat)
    if (reached) freshAt = reached.at
    const isFresh = app.monotonicMs() - freshAt <= maxLagMs
    setProblem(isFresh ? null : 'the replica is further behind than database.max_lag')
  }

  const watch = async () => {
    if (app.monotonicMs() - askedAt > idleMs) {
      timer = undefined
      positions = []
      return
    }
    await watchOnce().catch((error: Error) => {
      freshAt = Number.NEGATIVE_INFINITY
      positions = []
      setProblem(error.message)
    })
    if (timer) timer = setTimeout(watch, maxLagMs / 4).unref()
  }

  const accepts = async (userId: string): Promise<boolean> => {
    const now = app.monotonicMs()
    askedAt = now
    timer ??= setTimeout(watch).unref()
    if (now - freshAt > maxLagMs || (pinnedUntil.get(userId) ?? 0) > now) return false
    const { rows } = await sql`
      select from call_windows where key = ${keyOf(userId)} and starts_at > clock_timestamp() - ${2 * maxLagMs} * interval '1 ms'`.execute(
      database.auth,
    )
    return rows.length === 0
  }

  const noteWrites = async (userIds: readonly string[]): Promise<void> => {
    const now = app.monotonicMs()
    // A pin lasts twice as long as needed, so that not every write has to renew it.
    const due = userIds.filter((id) => (pinnedUntil.get(id) ?? 0) - now < maxLagMs)
    if (due.length === 0) return
    const pin = (durationMs: number) => {
      for (const id of due) pinnedUntil.set(id, now + durationMs)
    }
    await sql`
      insert into call_windows (key, starts_at, used) select key, clock_timestamp(), 0 from unnest(${due.map(keyOf).sort()}::text[]) as key
      on conflict (key) do update set starts_at = excluded.starts_at`
      .execute(app.db)
      .then(() => pin(2 * maxLagMs))
      .catch((error: Error) => {
        // The next write tries again.
        pin(maxLagMs)
        log.warn({ err: error.message }, 'other servers do not know of a write')
      })
  }

  const count = async <T>(where: keyof typeof counts, answer: () => Promise<T>): Promise<T> => {
    unanswered[where]++
    try {
      const answered = await answer()
      counts[where]++
      return answered
    } finally {
      unanswered[where]--
    }
  }

  const read = (route: Route, onReplica: Route) => async (event: H3Event, limits: BodyLimits) => {
    const userId = event.context.actor?.id
    // The faster database has fewer unanswered reads, so that both share the load.
    if (userId && unanswered.replica <= unanswered.primary && (await accepts(userId))) {
      try {
        return await count('replica', () => onReplica.handle(event, limits))
      } catch (error) {
        // A document that the replica lacks may be new. The validated body is still there.
        if (!isUnavailable(error) && !(error instanceof AppError && codes[error.code][0] === 404)) throw error
      }
    }
    return count('primary', () => route.handle(event, limits))
  }

  const write = (route: Route) => async (event: H3Event, limits: BodyLimits) => {
    try {
      return await route.handle(event, limits)
    } finally {
      const userId = event.context.actor?.id
      if (userId) await noteWrites([userId])
    }
  }

  return {
    combine(routes, replicaRoutes) {
      const others = new Map(replicaRoutes({ ...app, ...replica }).map((route) => [`${route.method} ${route.path}`, route]))
      return routes.map((route) => {
        const { method, path, access, shape } = route
        if (shape.readsReplica) return { ...route, handle: read(route, others.get(`${method} ${path}`)!) }
        const isRead = (method === 'GET' && !shape.hasSideEffects) || scopeOf(access, method, shape) === 'read'
        return isRead ? route : { ...route, handle: write(route) }
      })
    },
    noteWrites,
    families: () => [
      family('dms_replica_reads_total', 'counter', 'Requests that a replica may answer, by the database that did.', [
        { labels: { database: 'replica' }, value: counts.replica },
        { labels: { database: 'primary' }, value: counts.primary },
      ]),
      gauge('dms_replica_usable', '1 if reads go to the replica. 0 also without reads for ten seconds.', isUsable() ? 1 : 0),
    ],
    close() {
      clearTimeout(timer)
      timer = undefined
    },
  }

  function isUsable(): boolean {
    return app.monotonicMs() - freshAt <= maxLagMs
  }
}

const keyOf = (userId: string): string => `write:${userId}`
