/** Who is behind a token, remembered for up to a second, so that a busy client costs one look a second instead of one a request. */
import { LRUCache } from 'lru-cache'
import type { App } from '../../app.ts'
import { authenticateToken } from '../../auth/auth.ts'
import { listen } from '../../db/listen.ts'

type Authentication = Awaited<ReturnType<typeof authenticateToken>>

export interface AuthCache {
  /** Who is behind a token, if that is remembered: most requests need not wait. */
  getCached(token: string): Authentication | undefined
  /** Throws UNAUTHORIZED for a token that is not good. */
  authenticate(token: string): Promise<Authentication>
  /** Somebody's rights changed in this process: nothing remembered counts any more. */
  clear(): void
  close(): Promise<void>
}

/** Milliseconds; changes elsewhere are heard of at once, and should that fail, count no later than this. */
const maxAgeMs = 1000

/** Remembers, and listens for whose rights change (the triggers of migration 0013 tell). */
export function openAuthCache(app: App): AuthCache {
  const cache = new LRUCache<string, Authentication & { until: number }>({ max: 10_000 })
  let changes = 0
  const evict = (shouldEvict: (one: Authentication) => boolean) => {
    changes++
    for (const [token, one] of cache.entries()) if (shouldEvict(one)) cache.delete(token)
  }
  const forgetAll = () => evict(() => true)
  const onNotification = (payload: string) => {
    const [word, userId] = payload.split(':')
    if (word === 'session') evict(({ actor }) => actor.id === userId)
  }
  const listening = listen(app.database, app.log, 'dms_live', onNotification, forgetAll)

  const remembered = (token: string) => {
    const found = cache.get(token)
    return found && found.until > app.monotonicMs() ? found : undefined
  }
  return {
    getCached: remembered,
    async authenticate(token) {
      const found = remembered(token)
      if (found) return found
      const now = app.monotonicMs()
      const before = changes
      const fresh = await authenticateToken(app, token)
      // Something changed while we looked: what we saw may be from before.
      if (changes === before) cache.set(token, { ...fresh, until: now + Math.min(maxAgeMs, fresh.remainingMs) })
      return fresh
    },
    clear: forgetAll,
    close: () => listening.close(),
  }
}
