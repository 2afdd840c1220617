import { getCookie, type H3Event } from 'h3'
import { z } from 'zod'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { integerText } from '../http/input.ts'
import { anyone, type Route } from '../http/route.ts'
import { issueToken } from './auth.ts'
import * as oidc from './oidc.ts'
import { cookieLine, cookieName, localPath, sessionCookie } from './page-session.ts'
import { SignInAnswer, signInAnswer } from './routes.ts'

const ShellQuery = z
  .object({
    shell_port: integerText(1, 65_535).describe('Loopback port to which the browser is finally redirected with `code` or `error`.'),
    shell_challenge: z.string().regex(/^[\w-]{43}$/, 'a SHA-256 in base64url'),
    page: z.string().max(2000).describe('Path of the web page to open with a session cookie after the login.'),
  })
  .partial()
  .refine((query) => (query.shell_port === undefined) === (query.shell_challenge === undefined), {
    path: ['shell_challenge'],
    message: 'shell_port and shell_challenge come together',
  })
const Exchange = z.object({ code: z.string().min(1).max(4000), verifier: z.string().min(43).max(128) })

export const HealthAnswer = z.object({
  status: z.enum(['ok', 'disabled']),
  issuer: z.string().optional(),
  checks: z.record(z.string(), z.string()).optional(),
})

const loginName = 'dms_oidc'

export const routes = (app: App): Route[] => [
  anyone(
    'GET /api/auth/oidc/login',
    {
      summary: 'Redirect to the OpenID Connect provider to log in',
      query: ShellQuery,
      status: 302,
      errors: ['NOT_FOUND', 'SERVICE_UNAVAILABLE'],
    },
    async ({ query: { shell_port: port, shell_challenge: challenge, page } }) => {
      const shell = port !== undefined && challenge !== undefined ? { port, challenge } : null
      const target = { shell, page: page === undefined ? null : localPath(page) }
      const { url, cookie, seconds } = await oidc.startLogin(app, target)
      return redirect(url, loginCookie(app, cookie, seconds))
    },
  ),
  anyone(
    'GET /api/auth/oidc/callback',
    {
      summary: 'Complete the OpenID Connect login; returns the token in the fragment of oidc.post_login_url, or as JSON if that is not set',
      query: z.object({ state: z.string().optional(), code: z.string().optional(), error: z.string().optional() }),
      answer: SignInAnswer,
      otherAnswers: { 302: z.null() },
      description: 'HEAD answers 200 and does not use up the code.',
      hasSideEffects: true,
      errors: ['NOT_FOUND', 'UNAUTHORIZED', 'FORBIDDEN', 'DUPLICATE_RESOURCE', 'SERVICE_UNAVAILABLE'],
    },
    ({ event }) => handleCallback(app, event),
  ),
  anyone(
    'POST /api/auth/oidc/exchange',
    {
      summary: 'Exchange the code of a command-line login for a token; `verifier` is the PKCE code verifier',
      body: Exchange,
      answer: SignInAnswer,
      errors: ['UNAUTHORIZED'],
    },
    async ({ body, event }) => signInAnswer(event, await oidc.exchangeShellCode(app, body.code, body.verifier)),
  ),
  anyone(
    'GET /api/health/auth/oidc',
    { summary: 'Check each step of an OpenID Connect login', answer: HealthAnswer, errors: ['SERVICE_UNAVAILABLE'] },
    async () => {
      const health = await oidc.checkProvider(app)
      if (!health) return { status: 'disabled' }
      const { isFine, ...rest } = health
      if (!isFine) throw new AppError('SERVICE_UNAVAILABLE', rest, 'People cannot sign in by OpenID Connect now.')
      return { status: 'ok', ...rest }
    },
  ),
]

async function handleCallback(app: App, event: H3Event): Promise<Response | z.infer<typeof SignInAnswer>> {
  const { post_login_url: postLoginUrl } = app.config.oidc
  const gone = loginCookie(app, '', 0)
  let failureUrl = postLoginUrl && `${postLoginUrl}#error=`
  try {
    const login = await oidc.readPendingLogin(app, getCookie(event, cookieName(loginName, hasHttpsCallback(app))))
    const shellUrl = login.shell && `http://127.0.0.1:${login.shell.port}/`
    if (shellUrl) failureUrl = `${shellUrl}?error=`
    else if (login.page) failureUrl = `/sign-in?${new URLSearchParams({ next: login.page, error: '' })}`
    const { user, linked } = await oidc.handleCallback(app, login, event.url.search)
    if (linked) event.context.auditDetails = { linked }
    event.context.actor = { id: user.id, role: user.role, username: user.username }
    if (login.shell) return redirect(`${shellUrl}?code=${await oidc.issueShellCode(app, user, login.shell)}`, gone)
    const signedIn = await issueToken(app, user)
    if (login.page) return redirect(login.page, gone, sessionCookie(app, signedIn.token))
    if (postLoginUrl)
      return redirect(`${postLoginUrl}#${new URLSearchParams({ token: signedIn.token, expires_at: signedIn.expires_at })}`, gone)
    event.res.headers.append('set-cookie', gone)
    return signInAnswer(event, signedIn)
  } catch (error) {
    // The page or the command line gets the error code and explains it.
    if (failureUrl) event.context.explain = ({ code }) => redirect(`${failureUrl}${code}`, gone)
    throw error
  }
}

const redirect = (location: string, ...cookies: readonly string[]): Response =>
  new Response(null, {
    status: 302,
    headers: [['location', location], ['cache-control', 'no-store'], ...cookies.map((cookie): [string, string] => ['set-cookie', cookie])],
  })

/** Returns the login cookie. SameSite=Lax: the redirect from the provider carries it. */
const loginCookie = (app: App, value: string, seconds: number): string => cookieLine(loginName, value, seconds, hasHttpsCallback(app))

const hasHttpsCallback = (app: App): boolean => oidc.callbackUrl(app).protocol === 'https:'
