/** Session of the web page: a cookie with a session token. Only the page reads it; the API accepts bearer tokens only. */
import type { App } from '../app.ts'

/** The prefix makes browsers refuse a cookie that another host or a plain connection sets (RFC 6265bis, 4.1.3.2). */
const cookieName = (app: App): string => (isSecure(app) ? '__Host-dms_session' : 'dms_session')

/** Tells if the public address of the server is https. The cookie is then sent over https only. */
export const isSecure = ({ config }: App): boolean => config.server.public_url.startsWith('https:') || config.server.tls_cert !== ''

/**
 * Returns the Set-Cookie line of a session. SameSite=Lax: links in mails and the redirect from an OIDC provider open the page signed in, and no
 * GET changes anything.
 */
export function sessionCookie(app: App, { token, expires_at }: { token: string; expires_at: string }): string {
  return cookieLine(app, token, Math.max(0, Math.floor((Date.parse(expires_at) - app.now().getTime()) / 1000)))
}

/** Returns the Set-Cookie line that removes the session. */
export const expiredCookie = (app: App): string => cookieLine(app, '', 0)

const cookieLine = (app: App, value: string, seconds: number): string =>
  `${cookieName(app)}=${value}; Max-Age=${seconds}; Path=/; HttpOnly; SameSite=Lax${isSecure(app) ? '; Secure' : ''}`

/** Returns the token of the session cookie, or null. */
export function readSessionCookie(app: App, header: string | null): string | null {
  const name = `${cookieName(app)}=`
  const pair = (header ?? '').split(';').find((part) => part.trim().startsWith(name))
  return pair?.trim().slice(name.length) || null
}

/** Returns the path for a redirect after the login. Returns `/` for a path that leaves this server, such as `//example.org` or `/\example.org`. */
export function localPath(path: string | null | undefined): string {
  const base = 'http://dms'
  if (!path?.startsWith('/') || path.length > 2000 || !URL.canParse(path, base)) return '/'
  const { origin, pathname, search } = new URL(path, base)
  return origin === base && !pathname.startsWith('//') ? pathname + search : '/'
}
