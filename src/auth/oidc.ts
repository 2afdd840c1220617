/** Sign-in by OpenID Connect, for a browser or for the command line. */
import { hash } from 'node:crypto'
import type { App } from '../app.ts'
import { databaseNow } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import { AppError, invalid } from '../errors.ts'
import { tryCountHit } from '../http/rate-limit.ts'
import { notify } from '../notifications/notifications.ts'
import { IdentityFailure, type IdentityProvider, type LoginState } from '../ports/identity-provider.ts'
import * as sharedLinks from '../shared-links/shared-links.ts'
import * as sources from '../sources/sources.ts'
import * as tokens from '../tokens/tokens.ts'
import { deleteTokens } from '../users/email-verification.ts'
import * as external from '../users/external-identity.ts'
import * as users from '../users/users.ts'
import { issueToken, type SignIn } from './auth.ts'

/** Time limits for the sign-in at the provider and for the code exchange by the command line. */
const loginTimeoutSeconds = 600
const codeLifetimeSeconds = 60

/** Command line that waits on a loopback port for a code which only it can exchange (RFC 8252, RFC 7636). */
export interface ShellLogin {
  port: number
  /** base64url SHA-256 of the verifier */
  challenge: string
}

interface ShellCode {
  user_id: string
  challenge: string
}

/** Destination after a login: a command line, a path of the web page, or neither. */
export interface LoginTarget {
  shell: ShellLogin | null
  page: string | null
}

interface PendingLogin extends LoginTarget {
  loginState: LoginState
}

/** Returns the redirect URI of the provider. */
export const callbackUrl = ({ config: { oidc, server } }: App): URL =>
  new URL(oidc.redirect_uri || `${server.public_url.replace(/\/+$/, '')}/api/auth/oidc/callback`)

/** Starts a sign-in. Returns the authorization URL and the login cookie. Throws NOT_FOUND, SERVICE_UNAVAILABLE. */
export async function startLogin(app: App, target: LoginTarget): Promise<{ url: string; cookie: string; seconds: number }> {
  const { url, loginState } = await requireProvider(app).startLogin(callbackUrl(app).href).catch(throwAppError(app))
  const cookie = await app.encryptedTokens.encrypt(
    'oidc',
    { loginState, ...target } satisfies PendingLogin,
    loginTimeoutSeconds,
    await databaseNow(app.db),
  )
  return { url, cookie, seconds: loginTimeoutSeconds }
}

/** Decrypts the login cookie. Throws VALIDATION_ERROR if it is absent, expired or invalid. */
export async function readPendingLogin(app: App, cookie: string | undefined): Promise<PendingLogin> {
  const pending = cookie === undefined ? null : await app.encryptedTokens.decrypt('oidc', cookie, await databaseNow(app.db))
  if (pending === null) throw invalid('state', 'this browser has started no login within the last 10 minutes: start again')
  return pending as PendingLogin
}

/** Completes a sign-in from the query string of the callback. Throws VALIDATION_ERROR, and like signInByIdentity(). */
export async function handleCallback(app: App, { loginState }: PendingLogin, search: string): Promise<external.ExternalSignIn> {
  const provider = requireProvider(app)
  const callback = callbackUrl(app)
  callback.search = search
  if (callback.searchParams.get('state') !== loginState.state)
    throw invalid('state', 'does not match the login that this browser started: start again')
  if (!(await tryCountHit(app, `oidc:${loginState.state}`, { max: 1, windowSeconds: loginTimeoutSeconds })))
    throw invalid('state', 'already used: start again')
  const identity = await provider.handleCallback(callback, loginState).catch(throwAppError(app))
  const { user, linked } = await external.signInByIdentity(app, identity, revokeCredentials)
  if (linked) app.log.warn({ user_id: user.id, issuer: identity.issuer, ...linked }, 'a local account was linked to an OIDC identity')
  return { user: await users.recordSignIn(app, user), linked }
}

/**
 * Revokes the API tokens and verification links of a user and notifies the user. If the e-mail address was never verified, somebody else may have
 * created the account. In this case also revokes its shared links and disables its sources. The caller raises token_version.
 */
async function revokeCredentials(app: App, trx: Trx, user: users.User): Promise<external.RevokedCredentials> {
  const isTrusted = user.email_verified_at !== null
  const revoked = {
    api_tokens: await tokens.removeAll(trx, user.id),
    shared_links: isTrusted ? 0 : await sharedLinks.revokeAll(app, trx, user.id),
    sources: isTrusted ? 0 : await sources.disableAll(app, trx, user.id),
  }
  await deleteTokens(trx, user.id)
  const counts = `${revoked.api_tokens} API tokens and ${revoked.shared_links} shared links were revoked, ${revoked.sources} sources disabled.`
  await notify(app, trx, user.id, 'account_linked', {
    title: 'Your account was linked to single sign-on',
    message: `Your local password and all earlier sessions have ended. ${counts}`,
    data: { user_id: user.id },
  })
  return revoked
}

/** Issues the code that the browser hands to the command line. It is useless without the verifier. */
export const issueShellCode = async (app: App, user: users.User, { challenge }: ShellLogin): Promise<string> =>
  app.encryptedTokens.encrypt(
    'oidc-shell',
    { user_id: user.id, challenge } satisfies ShellCode,
    codeLifetimeSeconds,
    await databaseNow(app.db),
  )

/** Exchanges the code for a token, once. Throws UNAUTHORIZED. */
export async function exchangeShellCode(app: App, code: string, verifier: string): Promise<SignIn> {
  const login = (await app.encryptedTokens.decrypt('oidc-shell', code, await databaseNow(app.db))) as ShellCode | null
  const isVerified = login?.challenge === hash('sha256', verifier, 'base64url')
  const key = `oidc-shell:${hash('sha256', code)}`
  if (!login || !isVerified || !(await tryCountHit(app, key, { max: 1, windowSeconds: codeLifetimeSeconds })))
    throw new AppError('UNAUTHORIZED')
  const user = await users.findByIdentifier(app.db, login.user_id)
  if (!user || user.disabled) throw new AppError('UNAUTHORIZED', {}, 'This account was deleted or disabled during the sign-in.')
  return issueToken(app, user)
}

/** Checks the provider: each endpoint with `ok` or the problem. Returns null without a provider. */
export async function checkProvider({
  identities,
}: App): Promise<{ issuer: string; checks: Record<string, string>; isFine: boolean } | null> {
  if (!identities) return null
  const checks = await identities.check()
  return { issuer: identities.issuer, checks, isFine: Object.values(checks).every((check) => check === 'ok') }
}

function requireProvider({ identities }: App): IdentityProvider {
  if (!identities) throw new AppError('NOT_FOUND', {}, 'OpenID Connect is not configured on this server. Fix: set auth.method = "oidc".')
  return identities
}

/** Logs the provider's reason and throws a message without details. */
const throwAppError =
  (app: App) =>
  (error: unknown): never => {
    if (!(error instanceof IdentityFailure)) throw error
    app.log.warn({ err: error.message, kind: error.kind }, 'OIDC sign-in failed')
    if (error.kind === 'unavailable') throw new AppError('SERVICE_UNAVAILABLE', {}, 'The sign-in provider cannot be reached.')
    throw new AppError('UNAUTHORIZED', {}, 'The sign-in at the provider is not valid.')
  }
