/** Access tokens of requests and their renewal. */
import { readFile } from 'node:fs/promises'
import type { Client } from '../../client/client.ts'
import { dms } from '../../log/fix.ts'
import { describePasswordSource, hasPasswordSource, readPassword } from '../arguments/password-source.ts'
import { Failure, usage } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import type { Env } from '../runtime/private-file.ts'
import { type Credential, createCredential, loadCredentials, saveCredential, withCredentialsLock } from './credentials.ts'
import type { RemoteTarget } from './target.ts'

/** Time before its expiry at which a token is renewed. */
const renewBeforeMs = 5 * 60_000
/** Time for which a new token is used without regard to the clock, which may be wrong. */
const trustNewTokenMs = 60_000

export interface Session {
  /** returns the token for a request; null: none */
  token(): Promise<string | null>
  /** returns a new token after the server rejected `rejected`; null: none. Throws Failure AUTH if the user must sign in. */
  renew(rejected: string | null): Promise<string | null>
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
export function openSession(target: RemoteTarget, session: SessionOptions): Session {
  const { DMS_TOKEN: token, DMS_TOKEN_FILE: file } = session.env
  if (target.isByUrl && token && file) throw usage('DMS_TOKEN and DMS_TOKEN_FILE are both set; use one of them')
  if (target.isByUrl && token) {
    const renew = () => Promise.reject(rejectedTokenError(target, 'DMS_TOKEN'))
    return { token: async () => token, renew, account: async () => null }
  }
  if (target.isByUrl && file) return openFileSession(target, file)
  return openContextSession(target, session)
}

/** Reads the token again after a rejection: another program updates the file. */
function openFileSession(target: RemoteTarget, file: string): Session {
  const read = async () => {
    try {
      return (await readFile(file, 'utf8')).trim()
    } catch (error) {
      throw new Failure('AUTH', `cannot read DMS_TOKEN_FILE=${file}: ${(error as Error).message}`)
    }
  }
  let token: Promise<string> | null = null
  return {
    token: () => {
      token ??= read()
      return token
    },
    async renew(rejected) {
      token = read()
      if ((await token) === rejected) throw rejectedTokenError(target, `DMS_TOKEN_FILE=${file}`)
      return token
    },
    account: async () => null,
  }
}

function openContextSession(target: RemoteTarget, { env, options, openAnonymousClient, warn }: SessionOptions): Session {
  const { name, url, context } = target
  let cached: { credential: Credential; issuedMs: number } | null = null
  let hasLoaded = false
  let renewing: Promise<string | null> | null = null

  const load = async (): Promise<Credential | null> => {
    const credential = (await loadCredentials(env, hasLoaded ? undefined : warn))[name]
    hasLoaded = true
    return credential?.url === url ? credential : null
  }
  const cache = (credential: Credential): string => {
    cached = { credential, issuedMs: performance.now() }
    return credential.token
  }
  const refresh = async (old: Credential | null): Promise<Credential | null> => {
    if (!old?.expires_at) return null
    const { auth } = await openAnonymousClient()
    return auth.refresh(old.token).then((answer) => createCredential(url, answer), ignoreUnauthorized)
  }
  const signIn = async (): Promise<Credential | null> => {
    if (!context || !hasPasswordSource(context)) return null
    if (context.username === undefined)
      throw new Failure('CONFIG', `context "${name}" has a password source but no username`, {
        fix: dms`login ${url} --name ${name} --username USER`,
      })
    const password = await readPassword(context, env, options)
    const { auth } = await openAnonymousClient()
    const answer = await auth.login(context.username, password).catch((error) => {
      if (!isUnauthorized(error)) throw error
      throw new Failure('AUTH', `${url} refuses ${context.username} with the password in ${describePasswordSource(context)}`)
    })
    return createCredential(url, answer)
  }
  /** Concurrent commands renew once; the others load the new token. */
  const renewStored = async (rejected: string | null): Promise<string | null> => {
    const before = await load()
    if (before && before.token !== rejected && !expiresSoon(before)) return cache(before)
    const next = (await refresh(before)) ?? (await signIn())
    if (next) {
      await saveCredential(env, name, next).catch(ignoreUnwritable)
      return cache(next)
    }
    // No renewal is possible: use the token until it expires.
    if (before && before.token !== rejected && isValid(before)) return cache(before)
    throw notSignedInError(target, { isExpired: before !== null })
  }
  const renew = (rejected: string | null): Promise<string | null> => {
    renewing ??= withCredentialsLock(env, () => renewStored(rejected))
      .catch((error) => (isUnwritable(error) ? renewStored(rejected) : Promise.reject(error)))
      .finally(() => {
        renewing = null
      })
    return renewing
  }
  return {
    async token() {
      if (!cached) {
        const credential = await load()
        if (credential) cached = { credential, issuedMs: Number.NEGATIVE_INFINITY }
      }
      if (!cached) return context && hasPasswordSource(context) ? renew(null) : null
      const isNew = performance.now() - cached.issuedMs < trustNewTokenMs
      return isNew || !expiresSoon(cached.credential) ? cached.credential.token : renew(null)
    },
    renew: (rejected) => {
      // Another request has already renewed the token.
      if (cached && rejected !== null && cached.credential.token !== rejected) return Promise.resolve(cached.credential.token)
      return renew(rejected)
    },
    account: async () => cached?.credential ?? (await load()),
  }
}

/** Returns the error that asks the user to sign in. */
export function notSignedInError({ name, url }: RemoteTarget, { isExpired }: { readonly isExpired: boolean }): Failure {
  const server = name === url ? url : `${name} (${url})`
  return new Failure('AUTH', isExpired ? `the session with ${server} has expired` : `not signed in to ${server}`, {
    fix: name === url ? [dms`login ${url}`, ', or set DMS_TOKEN or DMS_TOKEN_FILE'] : dms`login ${url} --name ${name}`,
  })
}

/** Returns the error for a rejected token from a variable. Such a token cannot be renewed. */
const rejectedTokenError = ({ url }: RemoteTarget, variable: string): Failure =>
  new Failure('AUTH', `${url} refuses the token of ${variable}: it has expired, or another server issued it`, {
    fix: [dms`login ${url}`, ', or a token that does not expire: ', dms`tokens create`],
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
