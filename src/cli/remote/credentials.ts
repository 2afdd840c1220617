/** Tokens of the contexts: credentials.json with mode 0600. */
import { join } from 'node:path'
import { Failure } from '../runtime/exit.ts'
import { readPrivateFile, withFileLock, writePrivateFile } from '../runtime/private-file.ts'
import { type Env, stateFolder } from '../runtime/user-folders.ts'

export interface Credential {
  /** server that issued the token; it is sent to no other */
  readonly url: string
  readonly username: string
  readonly role: string
  readonly token: string
  /** RFC 3339; null for API tokens, which do not expire */
  readonly expires_at: string | null
}

/** Credentials by context name. */
export type Credentials = Readonly<Record<string, Credential>>

/** Converts the answer of a sign-in. */
export const createCredential = (
  url: string,
  { token, expires_at, user }: { token: string; expires_at: string | null; user: { username: string; role: string } },
): Credential => ({ url, username: user.username, role: user.role, token, expires_at })

const pathOf = (env: Env): string => join(stateFolder(env), 'credentials.json')

/** Loads the credentials. Throws Failure CONFIG for an invalid file. */
export async function loadCredentials(env: Env, warn?: (text: string) => void): Promise<Credentials> {
  const path = pathOf(env)
  const text = await readPrivateFile(path, true, warn)
  const found = parsed(text ?? '{}')
  // The message quotes nothing, because the file holds tokens.
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

/** Saves the credential of a context; undefined deletes it. Requires withCredentialsLock(). */
export async function saveCredential(env: Env, name: string, credential: Credential | undefined): Promise<void> {
  const { [name]: _before, ...others } = await loadCredentials(env)
  const all = credential === undefined ? others : { ...others, [name]: credential }
  await writePrivateFile(pathOf(env), `${JSON.stringify(all, null, 2)}\n`, true)
}

/** Runs `work` while no other command changes credentials. */
export const withCredentialsLock = <T>(env: Env, work: () => Promise<T>): Promise<T> => withFileLock(pathOf(env), work)
