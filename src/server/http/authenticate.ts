import type { H3Event } from 'h3'
import type { App } from '../../app.ts'
import { authenticateToken, hasRights } from '../../auth/auth.ts'
import { isForeignKeyViolation } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { bearerToken } from '../../http/input.ts'
import * as users from '../../users/users.ts'
import type { AuthCache } from './auth-cache.ts'

/** Paths that ignore tokens: a client with an expired token must be able to log in, refresh it and open shared links. */
const ignoredPaths = /^\/(?:healthz|livez|readyz|api\/(?:v1\/)?(?:auth\/(?:login|refresh)|health(?:\/auth\/oidc)?|public\/.*))\/?$/

/** Tells if a path ignores tokens. */
export const ignoresToken = (path: string): boolean => ignoredPaths.test(path)

/** Sets actor and session of a request with a token. Throws UNAUTHORIZED for an invalid token. */
export async function authenticate(app: App, event: H3Event, authCache?: AuthCache): Promise<void> {
  if (event.context.actor || ignoresToken(event.url.pathname)) return
  const token = bearerToken(event)
  if (token === null) return
  const { actor, session } = await (authCache ? authCache.authenticate(token) : authenticateToken(app, token))
  event.context.actor = actor
  event.context.session = session
}

/** Throws UNAUTHORIZED if the caller has lost the rights with which the request began. */
export async function recheckRights(app: App, { context: { actor, session } }: H3Event): Promise<void> {
  if (actor && session && !(await hasRights(app, actor, session)))
    throw new AppError('UNAUTHORIZED', {}, 'Your rights have changed during the request. Send it again.')
}

/** Runs a request. If something does not exist because the account of the caller was deleted meanwhile, throws UNAUTHORIZED. */
export async function refuseDeletedCaller<T>({ db }: App, { context: { actor } }: H3Event, request: () => Promise<T>): Promise<T> {
  try {
    return await request()
  } catch (error) {
    const isMissing = isForeignKeyViolation(error) || (error instanceof AppError && error.status === 404)
    if (isMissing && actor?.id && !(await users.exists(db, actor.id))) throw new AppError('UNAUTHORIZED')
    throw error
  }
}

/** Paths that may change rights or end sessions. */
const sessionChangingPaths = /^\/api\/(?:v1\/)?(?:auth|tokens|users)\//

/** Clears the cache before the answer to a change of rights: the next request of the client must see the change. */
export function clearAuthCache(event: H3Event, authCache: AuthCache | undefined): void {
  if (authCache && event.req.method !== 'GET' && sessionChangingPaths.test(event.url.pathname)) authCache.clear()
}
