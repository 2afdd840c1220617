/** Who is behind a token, remembered for up to a second, so that a busy client costs one look a second instead of one a request. */
import { LRUCache } from 'lru-cache'
import type { App } from '../../app.ts'
import { authenticateToken } from '../../auth/auth.ts'
import { listen } from '../../db/listen.ts'

type SignIn = Awaited<ReturnType<typeof authenticateToken>>

export interface SignIns {
  /** Who is behind a token, if that is remembered: most requests need not wait. */
  remembered(token: string): SignIn | undefined
  /** Throws UNAUTHORIZED for a token that is not good. */
  of(token: string): Promise<SignIn>
  /** Somebody's rights changed in this process: nothing remembered counts any more. */
  forgetAll(): void
  close(): Promise<void>
}

/** Milliseconds; changes elsewhere are heard of at once, and should that fail, count no later than this. */
const longest = 1000

/** Remembers, and listens for whose rights change (the triggers of migration 0013 tell). */
export function rememberSignIns(app: App): SignIns {
  const known = new LRUCache<string, SignIn & { until: number }>({ max: 10_000 })
  let changes = 0
  const forget = (isHis: (one: SignIn) => boolean) => {
    changes++
    for (const [token, one] of known.entries()) if (isHis(one)) known.delete(token)
  }
  const forgetAll = () => forget(() => true)
  const heard = (payload: string) => {
    const [word, userId] = payload.split(':')
    if (word === 'session') forget(({ actor }) => actor.id === userId)
  }
  const listening = listen(app.database, app.log, 'dms_live', heard, forgetAll)

  const remembered = (token: string) => {
    const found = known.get(token)
    return found && found.until > app.monotonicMs() ? found : undefined
  }
  return {
    remembered,
    async of(token) {
      const found = remembered(token)
      if (found) return found
      const now = app.monotonicMs()
      const before = changes
      const fresh = await authenticateToken(app, token)
      // Something changed while we looked: what we saw may be from before.
      if (changes === before) known.set(token, { ...fresh, until: now + Math.min(longest, fresh.remainingMs) })
      return fresh
    },
    forgetAll,
    close: () => listening.close(),
  }
}
