import { getCookie, type H3Event } from 'h3'
import { z } from 'zod'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { integerText } from '../http/input.ts'
import { anyone, type Route } from '../http/route.ts'
import { issueToken } from './auth.ts'
import * as oidc from './oidc.ts'
import { SignInAnswer, signInAnswer } from './routes.ts'

export const ShellQuery = z
  .object({
    shell_port: integerText(1, 65_535).describe('Loopback port to which the browser is finally redirected with `code` or `error`.'),
    shell_challenge: z.string().regex(/^[\w-]{43}$/, 'a SHA-256 in base64url'),
  })
  .partial()
  .refine((query) => (query.shell_port === undefined) === (query.shell_challenge === undefined), {
    path: ['shell_challenge'],
    message: 'shell_port and shell_challenge come together',
  })
export const Exchange = z.object({ code: z.string().min(1).max(4000), verifier: z.string().min(43).max(128) })

export const HealthAnswer = z.object({
  status: z.enum(['ok', 'disabled']),
  issuer: z.string().optional(),
  checks: z.record(z.string(), z.string()).optional(),
})

const cookieName = 'dms_oidc'

export const routes = (app: App): Route[] => [
  anyone(
    'GET /api/auth/oidc/login',
    {
      summary: 'Redirect to the OpenID Connect provider to log in',
      query: ShellQuery,
      status: 302,
      errors: ['NOT_FOUND', 'SERVICE_UNAVAILABLE'],
    },
    async ({ query: { shell_port: port, shell_challenge: challenge } }) => {
      const { url, cookie, seconds } = await oidc.startLogin(
        app,
        port !== undefined && challenge !== undefined ? { port, challenge } : null,
      )
      return redirect(url, cookieLine(app, cookie, seconds))
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
      audit: true,
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
  const { post_login_url: page } = app.config.oidc
  const gone = cookieLine(app, '', 0)
  let goal = page
  try {
    const login = await oidc.readPendingLogin(app, getCookie(event, cookieName))
    if (login.shell) goal = `http://127.0.0.1:${login.shell.port}/`
    const { user, linked } = await oidc.handleCallback(app, login, event.url.search)
    if (linked) event.context.auditDetails = { linked }
    event.context.actor = { id: user.id, role: user.role, username: user.username }
    if (login.shell) return redirect(`${goal}?code=${await oidc.issueShellCode(app, user, login.shell)}`, gone)
    const signedIn = await issueToken(app, user)
    if (page) return redirect(`${page}#${new URLSearchParams({ token: signedIn.token, expires_at: signedIn.expires_at })}`, gone)
    event.res.headers.append('set-cookie', gone)
    return signInAnswer(event, signedIn)
  } catch (error) {
    // The page or the command line gets the error code and explains it.
    if (goal) event.context.explain = ({ code }) => redirect(goal === page ? `${page}#error=${code}` : `${goal}?error=${code}`, gone)
    throw error
  }
}

const redirect = (location: string, cookie: string): Response =>
  new Response(null, { status: 302, headers: { location, 'set-cookie': cookie, 'cache-control': 'no-store' } })

/** Returns the login cookie of the callback route. SameSite=Lax: the redirect from the provider carries it. */
function cookieLine(app: App, value: string, seconds: number): string {
  const { protocol, pathname } = oidc.callbackUrl(app)
  const path = pathname.slice(0, pathname.lastIndexOf('/')) || '/'
  return `${cookieName}=${value}; Max-Age=${seconds}; Path=${path}; HttpOnly; SameSite=Lax${protocol === 'https:' ? '; Secure' : ''}`
}
