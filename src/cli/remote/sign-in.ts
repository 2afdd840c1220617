/** Sign-in at a remote server. */

import { Failure, usage } from '../runtime/exit.ts'
import { type Credential, createCredential } from './credentials.ts'
import { type ConnectOptions, openAnonymousClient, type RemoteTarget } from './remote-client.ts'

/** Signs in with user name or e-mail address and password. Throws Failure AUTH if they are wrong. */
export async function signInWithPassword(
  there: RemoteTarget,
  way: ConnectOptions,
  username: string,
  password: string,
): Promise<Credential> {
  const client = await openAnonymousClient(there, way)
  try {
    return createCredential(there.url, await client.auth.login(username, password))
  } catch (error) {
    throw (error as { status?: unknown }).status === 401 ? new Failure('AUTH', `${there.url}: wrong name or password`) : error
  } finally {
    await client.close()
  }
}

/** Verifies a token and requests its user. Throws Failure AUTH, USAGE. */
export async function signInWithToken(there: RemoteTarget, way: ConnectOptions, token: string): Promise<Credential> {
  const expires_at = parseTokenExpiry(token)
  const client = await openAnonymousClient(there, way, token)
  try {
    return createCredential(there.url, { token, expires_at, user: await client.auth.profile().catch(limitedUser) })
  } catch (error) {
    throw (error as { status?: unknown }).status === 401 ? new Failure('AUTH', `${there.url} refuses the token`) : error
  } finally {
    await client.close()
  }
}

/** API tokens may lack the scope to read their user. */
function limitedUser(error: unknown): { username: string; role: string } {
  if ((error as { status?: unknown }).status === 403) return { username: 'api-token', role: 'limited' }
  throw error
}

/** Returns the expiry of a JWT; null for API tokens. Throws Failure USAGE for an invalid token. */
export function parseTokenExpiry(token: string): string | null {
  if (token.startsWith('dms_')) return null
  try {
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { exp: number }
    return new Date(exp * 1000).toISOString()
  } catch {
    throw usage('what came on standard input is no token of dms')
  }
}
