/** OpenID Connect provider: authorization code flow with PKCE, state and nonce. ID tokens are verified including their signature. */
import { createPrivateKey } from 'node:crypto'
import { importPKCS8 } from 'jose'
import * as oidc from 'openid-client'
import { shareRuns } from '../concurrency.ts'
import type { Config } from '../config/schema.ts'
import { markUnstorable } from '../http/json/parse.ts'
import type { Log } from '../log/log.ts'
import { type Identity, IdentityFailure, type IdentityProvider } from '../ports/identity-provider.ts'

/** Lifetime of the cached discovery document. */
const discoveryCacheMs = 3_600_000

/** Limits for one response of the provider and for its clock. */
const timeoutSeconds = 10
const clockToleranceSeconds = 60

/** Opens the provider. Sends no request yet. */
export function openIdentityProvider(settings: Config['oidc'], log: Log): IdentityProvider {
  const configuration = shareRuns(() => discover(settings), discoveryCacheMs)
  return {
    issuer: settings.issuer,
    async startLogin(redirectUri) {
      const client = await configuration().catch(throwUnavailable)
      const loginState = { verifier: oidc.randomPKCECodeVerifier(), state: oidc.randomState(), nonce: oidc.randomNonce() }
      const url = oidc.buildAuthorizationUrl(client, {
        redirect_uri: redirectUri,
        scope: settings.scope,
        state: loginState.state,
        nonce: loginState.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(loginState.verifier),
        code_challenge_method: 'S256',
      })
      return { url: url.href, loginState }
    },
    async handleCallback(callback, { verifier, state, nonce }) {
      const client = await configuration().catch(throwUnavailable)
      try {
        const tokens = await oidc.authorizationCodeGrant(client, callback, {
          pkceCodeVerifier: verifier,
          expectedState: state,
          expectedNonce: nonce,
          idTokenExpected: true,
        })
        const claims = await loadClaims(client, tokens, settings)
        if (settings.debug) log.info({ claims }, 'OIDC claims')
        checkAudience(claims, settings.audience)
        return identityOf(markUnstorable(claims) as Claims, settings)
      } catch (error) {
        throw failureOf(error)
      }
    },
    // Anybody may ask for the check, and a provider limits its requests.
    check: shareRuns(() => checkEndpoints(settings), checkKeptMs),
  }
}

/** Loads the discovery document. openid-client rejects a document of another issuer. */
async function discover(settings: Config['oidc']): Promise<oidc.Configuration> {
  const issuer = new URL(settings.issuer)
  // The configuration allows plain http only for loopback addresses.
  const execute = [...(issuer.protocol === 'http:' ? [oidc.allowInsecureRequests] : []), oidc.enableNonRepudiationChecks]
  const metadata = { [oidc.clockTolerance]: clockToleranceSeconds }
  return oidc.discovery(issuer, settings.client_id, metadata, await authentication(settings), { execute, timeout: timeoutSeconds })
}

/** Signature algorithms by the type of the key. */
const algorithms: Readonly<Record<string, string>> = { ec: 'ES256', ed25519: 'EdDSA' }

async function authentication(settings: Config['oidc']): Promise<oidc.ClientAuth> {
  const { token_endpoint_auth_method: method, client_secret, client_private_key } = settings
  if (method === 'none') return oidc.None()
  if (method === 'client_secret_basic') return oidc.ClientSecretBasic(client_secret)
  if (method === 'client_secret_post') return oidc.ClientSecretPost(client_secret)
  const { asymmetricKeyType = '' } = createPrivateKey(client_private_key)
  return oidc.PrivateKeyJwt(await importPKCS8(client_private_key, algorithms[asymmetricKeyType] ?? 'RS256'))
}

type Claims = Record<string, unknown> & { sub: string; iss: string; aud: string | string[] }

/** Returns the claims of the ID token, completed from the userinfo endpoint, which must name the same subject. */
async function loadClaims(
  client: oidc.Configuration,
  tokens: oidc.TokenEndpointResponse & oidc.TokenEndpointResponseHelpers,
  { user_claim, groups_claim }: Config['oidc'],
): Promise<Claims> {
  const claims = tokens.claims() as Claims
  const isComplete = [user_claim, groups_claim, 'email'].every((name) => claimAt(claims, name) !== undefined)
  if (isComplete || !client.serverMetadata().userinfo_endpoint) return claims
  return { ...(await oidc.fetchUserInfo(client, tokens.access_token, claims.sub)), ...claims }
}

function checkAudience({ aud }: Claims, audience: string): void {
  if (audience !== '' && ![aud].flat().includes(audience)) throw new IdentityFailure('refused', 'the ID token is for another audience')
}

/** Maximum length of a subject (OpenID Connect Core 1.0, section 2) and of the name of a group. */
const maxSubjectLength = 255
const maxGroupLength = 1000

/** Returns the identity in the claims. Ignores marked values (markUnstorable()), except for the subject. */
function identityOf(claims: Claims, { user_claim, groups_claim }: Config['oidc']): Identity {
  if (typeof claims.sub !== 'string' || claims.sub === '' || claims.sub.length > maxSubjectLength)
    throw new IdentityFailure('refused', `the subject is empty, longer than ${maxSubjectLength} characters or not valid Unicode`)
  const text = (name: string): string | null => {
    const value = claimAt(claims, name)
    return typeof value === 'string' && value !== '' ? value : null
  }
  const groups = claimAt(claims, groups_claim)
  return {
    issuer: claims.iss,
    subject: claims.sub,
    username: text(user_claim),
    email: text('email'),
    isEmailVerified: claims.email_verified === true,
    displayName: text('name') ?? '',
    hostedDomain: text('hd'),
    groups: [groups].flat().filter((group): group is string => typeof group === 'string' && group.length <= maxGroupLength),
  }
}

/** Returns a claim by its name or by a dotted path such as `realm_access.roles`. */
function claimAt(claims: Record<string, unknown>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  return name
    .split('.')
    .reduce<unknown>(
      (value, part) =>
        typeof value === 'object' && value !== null && Object.hasOwn(value, part) ? (value as Record<string, unknown>)[part] : undefined,
      claims,
    )
}

const throwUnavailable = (error: unknown): never => {
  throw new IdentityFailure('unavailable', messageOf(error))
}

function failureOf(error: unknown): IdentityFailure {
  if (error instanceof IdentityFailure) return error
  return new IdentityFailure(isOutage(error) ? 'unavailable' : 'refused', messageOf(error))
}

/** Returns whether an endpoint was not reached, did not answer, or answered 429 or 5xx. The cause may be several errors deep. */
function isOutage(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  if (error instanceof Response) return error.status >= 500 || error.status === 429
  const { message, code, cause } = error as { message?: string; code?: string; cause?: unknown }
  return code === 'OAUTH_TIMEOUT' || (error instanceof TypeError && /^(fetch failed|terminated)$/.test(message ?? '')) || isOutage(cause)
}

/** Returns the message of an error without its body and parameters, which contain codes and tokens. */
const messageOf = (error: unknown): string => {
  const { message, code, error: oauthError } = error as { message?: string; code?: string; error?: string }
  return [message, code, oauthError].filter((part) => typeof part === 'string' && part !== '').join(', ')
}

/** Time for which the result of a check is kept. */
const checkKeptMs = 5000

/** Checks each endpoint that sign-in needs, up to the first that fails. */
async function checkEndpoints(settings: Config['oidc']): Promise<Record<string, string>> {
  const checks: Record<string, string> = {}
  try {
    const server = (await discover(settings)).serverMetadata()
    checks.discovery = 'ok'
    for (const endpoint of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const)
      checks[endpoint] = server[endpoint] ? 'ok' : 'missing in the discovery document'
    if (!server.jwks_uri) return checks
    const response = await fetch(server.jwks_uri, { signal: AbortSignal.timeout(timeoutSeconds * 1000), redirect: 'error' })
    const keys = ((await response.json()) as { keys?: unknown[] }).keys
    checks.jwks = response.ok && Array.isArray(keys) && keys.length > 0 ? 'ok' : 'no keys'
  } catch (error) {
    checks[checks.discovery ? 'jwks' : 'discovery'] = messageOf(error)
  }
  return checks
}
