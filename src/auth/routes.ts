import type { H3Event } from 'h3'
import { z } from 'zod'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { bearerToken } from '../http/input.ts'
import { anyone, type Route, user } from '../http/route.ts'
import * as verification from '../users/email-verification.ts'
import { Email, Role, Username } from '../users/fields.ts'
import { newPassword, Password } from '../users/passwords.ts'
import * as users from '../users/users.ts'
import { UserAnswer, view } from '../users/view.ts'
import * as auth from './auth.ts'

const Login = z.object({ username: z.string().min(1).max(320), password: Password })

export const registration = ({ config }: App) =>
  z.object({ username: Username, email: Email, password: newPassword(config), role: Role.default('user') })

export const MessageAnswer = z.object({ message: z.string() })
const Verification = z.object({ token: z.string().min(1).max(200) })
const Resend = z.object({ email: Email })
export const SignInAnswer = z.object({ token: z.string(), expires_at: z.iso.datetime(), user: UserAnswer })

const passwordChange = ({ config }: App) => z.object({ current_password: Password, new_password: newPassword(config) })
export const PasswordAnswer = z.object({ message: z.string(), token: z.string(), expires_at: z.iso.datetime() })

export const routes = (app: App): Route[] => [
  anyone(
    'POST /api/auth/login',
    {
      summary: 'Log in with a username or email address and a password',
      body: Login,
      answer: SignInAnswer,
      errors: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED', 'EMAIL_NOT_VERIFIED'],
    },
    async ({ body, ip, event }) => signInAnswer(event, await auth.login(app, ip, body)),
  ),
  anyone(
    'POST /api/auth/register',
    {
      summary: 'Register an account',
      body: registration(app),
      status: 201,
      answer: UserAnswer,
      errors: ['FORBIDDEN', 'DUPLICATE_RESOURCE', 'RATE_LIMITED'],
    },
    async ({ actor, body, ip }) => view(await auth.register(app, ip, actor, body)),
  ),
  anyone(
    'GET /api/auth/verify-email',
    {
      summary: 'Verify an email address with the mailed token, valid once within 24 hours',
      description: 'HEAD answers 200 and does not use up the token.',
      hasSideEffects: true,
      query: Verification,
      answer: MessageAnswer,
    },
    async ({ query, event }) => {
      const { id, role, username } = await verification.confirmEmail(app, query.token)
      event.context.actor = { id, role, username }
      return { message: 'The e-mail address is confirmed. You can sign in now.' }
    },
  ),
  anyone(
    'POST /api/auth/verify-email/resend',
    {
      summary: 'Resend the verification email; the response is the same for every address',
      body: Resend,
      status: 202,
      answer: MessageAnswer,
    },
    async ({ body, ip }) => {
      await verification.resendVerification(app, ip, body.email)
      return { message: 'If that address belongs to an account and is not confirmed yet, an e-mail is on its way.' }
    },
  ),
  user(
    'POST /api/users/change-password',
    {
      summary: 'Change your password and end all other sessions',
      scope: 'session',
      body: passwordChange(app),
      answer: PasswordAnswer,
      errors: ['FORBIDDEN', 'USER_NOT_FOUND', 'RATE_LIMITED'],
    },
    async ({ actor, body }) => {
      const { token, expires_at } = await auth.changePassword(app, actor, body.current_password, body.new_password)
      return { message: 'Password changed.', token, expires_at }
    },
  ),
  user(
    'POST /api/auth/logout',
    { summary: 'Log out of this session', answer: MessageAnswer, scope: 'session' },
    async ({ actor, event }) => {
      await auth.logout(app, actor, event.context.session)
      return { message: 'Signed out.' }
    },
  ),
  anyone(
    'POST /api/auth/refresh',
    {
      summary: 'Exchange a valid or recently expired token for a new one',
      answer: SignInAnswer,
      errors: ['UNAUTHORIZED'],
    },
    async ({ event }) => {
      const token = bearerToken(event)
      if (!token) throw new AppError('UNAUTHORIZED')
      return signInAnswer(event, await auth.refresh(app, token))
    },
  ),
  user(
    'GET /api/auth/me',
    { summary: 'Get your account (alias of /api/users/profile)', answer: UserAnswer, errors: ['USER_NOT_FOUND'] },
    async ({ actor }) => view(await users.get(app.db, actor.id)),
  ),
]

/** Makes the signed-in user the actor of the request and forbids caching. Returns the response body. */
export function signInAnswer({ context, res }: H3Event, { user, ...token }: auth.SignIn): z.infer<typeof SignInAnswer> {
  context.actor = { id: user.id, role: user.role, username: user.username }
  res.headers.set('cache-control', 'no-store')
  return { ...token, user: view(user) }
}
