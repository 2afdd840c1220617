/** Session of the web page: a cookie with a session token. Only the page reads it; the API accepts bearer tokens only. */
import type { App } from '../app.ts'

const sessionName = 'dms_session'

/** Tells if the public address of the server is https. The cookie is then sent over https only. */
export const isSecure = ({ config }: App): boolean => config.server.public_url.startsWith('https:') || config.server.tls_cert !== ''

/**
 * Returns the Set-Cookie line of a new session. It sets a maximum age, because the clock of this server could be wrong.
 * SameSite=Lax lets links in mails and the redirect from an OIDC provider open the page signed in. No GET changes anything.
 */
export const sessionCookie = (app: App, token: string): string =>
  cookieLine(sessionName, token, app.config.auth.session_lifetime_hours * 3600, isSecure(app))

/** Returns the Set-Cookie line that removes the session. */
export const expiredCookie = (app: App): string => cookieLine(sessionName, '', 0, isSecure(app))

/** Returns the name of a cookie. The prefix makes browsers refuse it from another host or over a plain connection (RFC 6265bis, 4.1.3.2). */
export const cookieName = (name: string, isHttps: boolean): string => (isHttps ? `__Host-${name}` : name)

/** Returns a Set-Cookie line for all paths. */
export const cookieLine = (name: string, value: string, seconds: number, isHttps: boolean): string =>
  `${cookieName(name, isHttps)}=${value}; Max-Age=${seconds}; Path=/; HttpOnly; SameSite=Lax${isHttps ? '; Secure' : ''}`

/** Returns the name of the session cookie. */
export const sessionCookieName = (app: App): string => cookieName(sessionName, isSecure(app))

/** Returns the path for a redirect after the login. Returns `/` for a path that leaves this server, such as `//example.org` or `/\example.org`. */
export function localPath(path: string | null | undefined): string {
  const base = 'http://dms'
  if (!path?.startsWith('/') || path.length > 2000 || !URL.canParse(path, base)) return '/'
  const { origin, pathname, search } = new URL(path, base)
  return origin === base && !pathname.startsWith('//') ? pathname + search : '/'
}
