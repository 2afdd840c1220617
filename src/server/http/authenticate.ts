import type { H3Event } from 'h3'
import type { App } from '../../app.ts'
import { authenticateToken } from '../../auth/auth.ts'
import { bearerToken } from '../../http/bearer.ts'
import type { AuthCache } from './auth-cache.ts'

/** Where a token says nothing: a client that still sends its expired one must be able to sign in, refresh, and use public links. */
const ignoredPaths = /^\/(?:healthz|readyz|api\/(?:v1\/)?(?:auth\/(?:login|refresh)|health|public\/.*))$/

/** Whether a token sent to that path is not even looked at. */
export const ignoresToken = (path: string): boolean => ignoredPaths.test(path)

/** What may end somebody's rights or sessions. */
const sessionChangingPaths = /^\/api\/(?:v1\/)?(?:auth|users)\//

/** Puts who is asking into the event, at once where that is remembered. No token: nobody. Throws UNAUTHORIZED for a token that is not good. */
export function authenticate(app: App, event: H3Event, signIns?: AuthCache): void | Promise<void> {
  if (event.context.actor || ignoresToken(event.url.pathname)) return
  const token = bearerToken(event)
  if (token === null) return
  const remembered = signIns?.getCached(token)
  if (!remembered) return (signIns ? signIns.authenticate(token) : authenticateToken(app, token)).then((found) => setActor(event, found))
  setActor(event, remembered)
}

function setActor(event: H3Event, { actor, session }: Awaited<ReturnType<typeof authenticateToken>>): void {
  event.context.actor = actor
  event.context.session = session
}

/** Before the answer leaves: whoever gets it and asks again is not met by what was remembered before. */
export function clearAuthCache(event: H3Event, signIns: AuthCache | undefined): void {
  if (signIns && event.req.method !== 'GET' && sessionChangingPaths.test(event.url.pathname)) signIns.clear()
}
