/** Access tokens of requests and their renewal. */
import { readFile } from 'node:fs/promises'
import type { Client } from '../../client/client.ts'
import { describePasswordSource, hasPasswordSource, readPassword } from '../arguments/password-source.ts'
import { Failure, usage } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import type { Env } from '../runtime/private-file.ts'
import { type Credential, createCredential, loadCredentials, saveCredential, withCredentialsLock } from './credentials.ts'
import type { Target } from './target.ts'

/** A token is renewed this long before it expires. */
const renewBeforeMs = 5 * 60_000
/** A new token is used this long without a look at the clock, which may be wrong. */
const trustNewTokenMs = 60_000

export interface Session {
  /** returns the token for a request; null: none */
  token(): Promise<string | null>
  /** returns a new token after the server rejected `refused`; null: none. Throws Failure AUTH if the user must sign in. */
  renew(refused: string | null): Promise<string | null>
  /** returns the user of the token, if known without a request */
  account(): Promise<Pick<Credential, 'username' | 'role' | 'expires_at'> | null>
}

export interface SessionOptions {
  readonly env: Env
  readonly options: Pick<GlobalOptions, 'canPrompt'>
  /** opens a client of the same server without a token */
  readonly openAnonymousClient: () => Promise<Pick<Client, 'auth'>>
  readonly warn: (text: string) => void
}

/** Opens the session of a remote target: DMS_TOKEN with --url or DMS_URL, else the saved credential of the context. Throws Failure USAGE. */
export function openSession(target: Target, session: SessionOptions): Session {
  const { DMS_TOKEN: token, DMS_TOKEN_FILE: file } = session.env
  if (target.isByUrl && token && file) throw usage('DMS_TOKEN and DMS_TOKEN_FILE are both set; use one of them')
  if (target.isByUrl && token) {
    const renew = () => Promise.reject(refusedTokenError(target, 'DMS_TOKEN'))
    return { token: async () => token, renew, account: async () => null }
  }
  if (target.isByUrl && file) return openFileSession(target, file)
  return openContextSession(target, session)
}

/** Reads the token again after a rejection: another program updates the file. */
function openFileSession(target: Target, file: string): Session {
  let held: Promise<string> | null = null
  const token = () => {
    held ??= readFile(file, 'utf8').then(
      (text) => text.trim(),
      (error: Error) => {
        throw new Failure('AUTH', `DMS_TOKEN_FILE=${file}: ${error.message}`)
      },
    )
    return held
  }
  return {
    token,
    async renew(refused) {
      held = null
      const now = await token()
      if (now === refused) throw refusedTokenError(target, `DMS_TOKEN_FILE=${file}`)
      return now
    },
    account: async () => null,
  }
}

function openContextSession(target: Target, { env, options, openAnonymousClient, warn }: SessionOptions): Session {
  const { name, url, context } = target
  let held: { credential: Credential; since: number } | null = null
  let isRead = false
  let renewing: Promise<string | null> | null = null

  const stored = async (): Promise<Credential | null> => {
    const found = (await loadCredentials(env, isRead ? undefined : warn))[name]
    isRead = true
    return found?.url === url ? found : null
  }
  const hold = (credential: Credential): string => {
    held = { credential, since: performance.now() }
    return credential.token
  }
  const refreshed = async (old: Credential | null): Promise<Credential | null> => {
    if (!old?.expires_at) return null
    const { auth } = await openAnonymousClient()
    return auth.refresh(old.token).then((answer) => createCredential(url ?? '', answer), ignoreUnauthorized)
  }
  const signedIn = async (): Promise<Credential | null> => {
    if (!context || !hasPasswordSource(context)) return null
    if (context.username === undefined) throw new Failure('CONFIG', `context "${name}" has a password but no username`)
    const password = await readPassword(context, env, options)
    const { auth } = await openAnonymousClient()
    const answer = await auth.login(context.username, password).catch((error) => {
      if (!isUnauthorized(error)) throw error
      throw new Failure('AUTH', `${url} refuses ${context.username} with the password in ${describePasswordSource(context)}`)
    })
    return createCredential(url ?? '', answer)
  }
  /** Concurrent commands renew once; the others find the new token. */
  const renewal = async (refused: string | null): Promise<string | null> => {
    const before = await stored()
    if (before && before.token !== refused && !expiresSoon(before)) return hold(before)
    const next = (await refreshed(before)) ?? (await signedIn())
    if (next) {
      await saveCredential(env, name, next).catch(ignoreUnwritable)
      return hold(next)
    }
    // No renewal is possible: use the token until it expires.
    if (before && before.token !== refused && isValid(before)) return hold(before)
    throw notSignedInError(target, before !== null)
  }
  const renew = (refused: string | null): Promise<string | null> => {
    renewing ??= withCredentialsLock(env, () => renewal(refused))
      .catch((error) => (isUnwritable(error) ? renewal(refused) : Promise.reject(error)))
      .finally(() => {
        renewing = null
      })
    return renewing
  }
  return {
    async token() {
      const now = held ?? (await fresh())
      if (now && (performance.now() - now.since < trustNewTokenMs || !expiresSoon(now.credential))) return now.credential.token
      return now || (context && hasPasswordSource(context)) ? renew(null) : null
    },
    renew: (refused) => {
      // Another request has already renewed the token.
      if (held && refused !== null && held.credential.token !== refused) return Promise.resolve(held.credential.token)
      return renew(refused)
    },
    account: async () => held?.credential ?? (await stored()),
  }

  async function fresh(): Promise<typeof held> {
    const credential = await stored()
    if (credential) held = { credential, since: Number.NEGATIVE_INFINITY }
    return held
  }
}

/** Returns the error that asks the user to sign in. */
export function notSignedInError({ name, url }: Target, isOver: boolean): Failure {
  const place = name === url ? url : `${name} (${url})`
  return new Failure('AUTH', isOver ? `the session with ${place} is over` : `not signed in to ${place}`, {
    fix: name === url ? `dms login ${url}, or set DMS_TOKEN or DMS_TOKEN_FILE` : `dms login ${url} --name ${name}`,
  })
}

/** Tokens of variables cannot be renewed here. */
const refusedTokenError = ({ url }: Target, place: string): Failure =>
  new Failure('AUTH', `${url} refuses the token of ${place}: it has ended, or was never its`, {
    fix: `dms login ${url}, or a token that does not end: dms tokens create`,
  })

const expiresSoon = (credential: Credential): boolean => !isValid(credential, renewBeforeMs)

const isValid = ({ expires_at }: Credential, left = 0): boolean => expires_at === null || Date.parse(expires_at) - Date.now() > left

const isUnauthorized = (error: unknown): boolean => (error as { status?: unknown }).status === 401

const ignoreUnauthorized = (error: unknown): null => {
  if (isUnauthorized(error)) return null
  throw error
}

/** A read-only home does not fail the command; the next one signs in again. */
const isUnwritable = (error: unknown): boolean =>
  ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code))

const ignoreUnwritable = (error: unknown): void => {
  if (!isUnwritable(error)) throw error
}
