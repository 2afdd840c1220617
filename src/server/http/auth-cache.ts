/** Caches the user of each token for up to a second. Benchmark "one document" (bench/api.ts): most requests need no query for their user. */
import { LRUCache } from 'lru-cache'
import type { App } from '../../app.ts'
import { authenticateToken } from '../../auth/auth.ts'
import { listen } from '../../db/listen.ts'

type Authentication = Awaited<ReturnType<typeof authenticateToken>>

export interface AuthCache {
  /** Returns the user and session of a token. Throws UNAUTHORIZED for an invalid one. */
  authenticate(token: string): Promise<Authentication>
  /** Discards all entries, because this process changed somebody's rights. */
  clear(): void
  close(): Promise<void>
}

/** Maximum age of an entry. Notifications of other processes remove entries at once; the age limits the effect of a lost notification. */
const maxAgeMs = 1000

/** Opens the cache and listens to changes of users and sessions, which database triggers announce. */
export function openAuthCache(app: App): AuthCache {
  /** Tokens in the cache by user. An import of 10,000 users announces each of them. */
  const tokens = new Map<Authentication['actor']['id'], Set<string>>()
  const forget = ({ actor }: Authentication, token: string) => {
    const ofUser = tokens.get(actor.id)
    ofUser?.delete(token)
    if (ofUser?.size === 0) tokens.delete(actor.id)
  }
  const cache = new LRUCache<string, Authentication & { expiresAt: number }>({ max: 10_000, dispose: forget })
  let changeCount = 0
  const clear = () => {
    changeCount++
    cache.clear()
  }
  const onNotification = (payload: string) => {
    const [kind, userId] = payload.split(':')
    if (kind !== 'session') return
    changeCount++
    for (const token of tokens.get(userId ?? '') ?? []) cache.delete(token)
  }
  const listening = listen(app.database, app.log, 'dms_live', onNotification, clear)
  return {
    async authenticate(token) {
      const cached = cache.get(token)
      const now = app.monotonicMs()
      if (cached && cached.expiresAt > now) return cached
      const changesBefore = changeCount
      const fresh = await authenticateToken(app, token)
      // After a change during the query, its result may be outdated.
      if (changeCount !== changesBefore) return fresh
      cache.set(token, { ...fresh, expiresAt: now + Math.min(maxAgeMs, fresh.remainingMs) })
      tokens.set(fresh.actor.id, (tokens.get(fresh.actor.id) ?? new Set()).add(token))
      return fresh
    },
    clear,
    close: () => listening.close(),
  }
}
