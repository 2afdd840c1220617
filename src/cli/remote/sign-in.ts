/** Sign-in at a remote server. */
import { Failure, usage } from '../runtime/exit.ts'
import { type Credential, createCredential } from './credentials.ts'
import { type ConnectOptions, openAnonymousClient } from './remote-client.ts'
import type { RemoteTarget } from './target.ts'

/** Signs in with user name or e-mail address and password. Throws Failure AUTH if they are wrong. */
export async function signInWithPassword(
  target: RemoteTarget,
  connection: ConnectOptions,
  username: string,
  password: string,
): Promise<Credential> {
  const client = await openAnonymousClient(target, connection)
  try {
    return createCredential(target.url, await client.auth.login(username, password))
  } catch (error) {
    throw (error as { status?: unknown }).status === 401 ? new Failure('AUTH', `${target.url}: wrong user name or password`) : error
  } finally {
    await client.close()
  }
}

/** Verifies a token and requests its user. Throws Failure AUTH, USAGE. */
export async function signInWithToken(target: RemoteTarget, connection: ConnectOptions, token: string): Promise<Credential> {
  const expires_at = parseTokenExpiry(token)
  const client = await openAnonymousClient(target, connection, token)
  try {
    return createCredential(target.url, { token, expires_at, user: await client.auth.profile().catch(limitedUser) })
  } catch (error) {
    throw (error as { status?: unknown }).status === 401 ? new Failure('AUTH', `${target.url} rejected the token`) : error
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
    throw usage('the text on standard input is not a token of dms')
  }
}
