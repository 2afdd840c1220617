import type { H3Event } from 'h3'
import type { App } from '../app.ts'
import { bearer } from '../auth/auth.ts'
import { bearerToken } from '../http/bearer.ts'
import type { SignIns } from './sign-ins.ts'

/** Where a token says nothing: a client that still sends its expired one must be able to sign in, refresh, and use public links. */
const ignored = /^\/(?:healthz|readyz|api\/(?:v1\/)?(?:auth\/(?:login|refresh)|health|public\/.*))$/

/** Whether a token sent to that path is not even looked at. */
export const ignoresToken = (path: string): boolean => ignored.test(path)

/** What may end somebody's rights or sessions. */
const changing = /^\/api\/(?:v1\/)?(?:auth|users)\//

/** Puts who is asking into the event. No token: nobody. Throws UNAUTHORIZED for a token that is not good. */
export async function authenticate(app: App, event: H3Event, signIns?: SignIns): Promise<void> {
  if (event.context.actor || ignoresToken(event.url.pathname)) return
  const token = bearerToken(event)
  if (token !== null) Object.assign(event.context, await (signIns ? signIns.of(token) : bearer(app, token)))
}

/** Before the answer leaves: whoever gets it and asks again is not met by what was remembered before. */
export function forgetSignIns(event: H3Event, signIns: SignIns | undefined): void {
  if (signIns && event.req.method !== 'GET' && changing.test(event.url.pathname)) signIns.forgetAll()
}
