/** The tokens of the contexts: credentials.json, readable by its owner alone. */
import { join } from 'node:path'
import { Failure } from '../runtime/exit.ts'
import { readPrivateFile, withFileLock, writePrivateFile } from '../runtime/private-file.ts'
import { type Env, stateFolder } from '../runtime/user-folders.ts'

export interface Credential {
  /** where the token came from; it is sent nowhere else */
  readonly url: string
  readonly username: string
  readonly role: string
  readonly token: string
  /** RFC 3339; null: of an API token, which works until it is revoked */
  readonly expires_at: string | null
}

/** By name of the context. */
export type Credentials = Readonly<Record<string, Credential>>

/** What is kept of a sign-in. */
export const createCredential = (
  url: string,
  { token, expires_at, user }: { token: string; expires_at: string | null; user: { username: string; role: string } },
): Credential => ({ url, username: user.username, role: user.role, token, expires_at })

const pathOf = (env: Env): string => join(stateFolder(env), 'credentials.json')

/** Reads them. Throws Failure CONFIG for a file that cannot be read. */
export async function loadCredentials(env: Env, warn?: (text: string) => void): Promise<Credentials> {
  const path = pathOf(env)
  const text = await readPrivateFile(path, true, warn)
  const found = parsed(text ?? '{}')
  // Nothing of the file is repeated: it holds tokens.
  if (typeof found !== 'object' || found === null)
    throw new Failure('CONFIG', `${path} is not right`, { fix: `rm ${path}, then dms login` })
  return found as Credentials
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Writes or (undefined) forgets that of one context. Only within `whileLocked`. */
export async function saveCredential(env: Env, name: string, credential: Credential | undefined): Promise<void> {
  const { [name]: _before, ...others } = await loadCredentials(env)
  const all = credential === undefined ? others : { ...others, [name]: credential }
  await writePrivateFile(pathOf(env), `${JSON.stringify(all, null, 2)}\n`, true)
}

/** Runs `work` while no other command changes credentials. */
export const withCredentialsLock = <T>(env: Env, work: () => Promise<T>): Promise<T> => withFileLock(pathOf(env), work)
