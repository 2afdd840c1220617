/**
 * Decides which requests read from a replica of database.read_url. A read of a route with `readsReplica` goes there if that replica is at most
 * database.max_lag behind, and if its user has neither written nor received an event for that long, on any server.
 */
import type { H3Event } from 'h3'
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { App } from '../app.ts'
import { isUnavailable } from '../db/pool.ts'
import { AppError, codes } from '../errors.ts'
import { StreamedAnswer } from '../http/json/stream.ts'
import { type BodyLimits, type Route, scopeOf } from '../http/route.ts'
import { type Family, family, gauge } from '../metrics/exposition.ts'
import { openReplicaLag } from './replica-lag.ts'

export interface ReplicaReads {
  /** Returns the routes of the primary: reads may go to a replica, and writes are noted. */
  combine(routes: readonly Route[], replicaRoutes: (app: App) => readonly Route[]): Route[]
  /** Sends the reads of these users to the primary from now on. Call after a commit, before they learn of it. Never rejects. */
  noteWrites(userIds: readonly string[]): Promise<void>
  families(): Family[]
  close(): void
}

const maxUsers = 10_000

/** Opens the decision; null without database.read_url. */
export function openReplicaReads(app: App): ReplicaReads | null {
  const { log, database } = app
  if (app.replicas.length === 0) return null
  const replicas = app.replicas.map((replica) => ({ lag: openReplicaLag(app, replica), unanswered: 0 }))
  const primary = { unanswered: 0 }
  const maxLagMs = app.config.database.max_lag
  /** Users who wrote, with the time until which their reads go to the primary. */
  const pinnedUntil = new LRUCache<string, number>({ max: maxUsers })
  const counts = { replica: 0, primary: 0 }
  const accepts = async (userId: string): Promise<boolean> => {
    if ((pinnedUntil.get(userId) ?? 0) > app.monotonicMs()) return false
    const { rows } = await sql`
      select from call_windows where key = ${keyOf(userId)} and starts_at > clock_timestamp() - ${2 * maxLagMs} * interval '1 ms'`.execute(
      database.auth,
    )
    return rows.length === 0
  }

  const noteWrites = async (userIds: readonly string[]): Promise<void> => {
    const now = app.monotonicMs()
    // A pin lasts twice as long as needed: not every write has to renew it.
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

  const count = async <T>(where: keyof typeof counts, database: { unanswered: number }, answer: () => Promise<T>): Promise<T> => {
    database.unanswered++
    try {
      const answered = await answer()
      counts[where]++
      return answered
    } finally {
      database.unanswered--
    }
  }

  const read = (route: Route, onReplicas: readonly Route[]) => async (event: H3Event, limits: BodyLimits) => {
    const userId = event.context.actor?.id
    const fresh = userId ? replicas.filter(({ lag }) => lag.isFresh()) : []
    const [idlest] = fresh.toSorted((one, other) => one.unanswered - other.unanswered)
    // The faster database has fewer unanswered reads. This shares the load.
    if (userId && idlest && idlest.unanswered <= primary.unanswered && (await accepts(userId))) {
      try {
        return await count('replica', idlest, () => onReplicas[replicas.indexOf(idlest)]!.handle(event, limits))
      } catch (error) {
        // A document that the replica lacks may be new. The validated body is still there.
        if (!isUnavailable(error) && !(error instanceof AppError && codes[error.code][0] === 404)) throw error
      }
    }
    return count('primary', primary, () => route.handle(event, limits))
  }

  /** Notes a write before each chunk of an answer, because the route writes until the answer ends. */
  async function* noteEach(chunks: StreamedAnswer['chunks'], userId: string) {
    for await (const chunk of chunks) {
      await noteWrites([userId])
      yield chunk
    }
  }

  const write = (route: Route) => async (event: H3Event, limits: BodyLimits) => {
    try {
      const answer = await route.handle(event, limits)
      const userId = event.context.actor?.id
      return userId && answer instanceof StreamedAnswer ? new StreamedAnswer(noteEach(answer.chunks, userId), answer.headers) : answer
    } finally {
      const userId = event.context.actor?.id
      if (userId) await noteWrites([userId])
    }
  }

  return {
    combine(routes, replicaRoutes) {
      const others = app.replicas.map(
        (replica) => new Map(replicaRoutes({ ...app, ...replica }).map((route) => [`${route.method} ${route.path}`, route])),
      )
      return routes.map((route) => {
        const { method, path, access, shape } = route
        if (shape.readsReplica)
          return {
            ...route,
            handle: read(
              route,
              others.map((one) => one.get(`${method} ${path}`)!),
            ),
          }
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
      gauge(
        'dms_replica_usable',
        '1 if reads go to a replica. 0 also without reads for ten seconds.',
        replicas.some(({ lag }) => lag.wasFresh()) ? 1 : 0,
      ),
    ],
    close() {
      for (const { lag } of replicas) lag.close()
    },
  }
}

const keyOf = (userId: string): string => `write:${userId}`
