/** Tokens of the contexts: credentials.json with mode 0600. */
import { join } from 'node:path'
import { shellWord } from '../../log/escape.ts'
import { dms } from '../../log/fix.ts'
import { Failure } from '../runtime/exit.ts'
import { type Env, readPrivateFile, stateFolder, withFileLock, writePrivateFile } from '../runtime/private-file.ts'

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
  const text = await readPrivateFile(path, { isSecret: true, warn })
  try {
    const credentials: unknown = JSON.parse(text ?? '{}')
    if (typeof credentials === 'object' && credentials !== null) return credentials as Credentials
  } catch {
    // Reported below. The message quotes nothing, because the file holds tokens.
  }
  throw new Failure('CONFIG', `${path} is not a JSON object`, { fix: [`rm ${shellWord(path)}, then `, dms`login`] })
}

/** Saves the credential of a context; undefined deletes it. Requires withCredentialsLock(). */
export async function saveCredential(env: Env, name: string, credential: Credential | undefined): Promise<void> {
  const { [name]: _before, ...others } = await loadCredentials(env)
  const all = credential === undefined ? others : { ...others, [name]: credential }
  await writePrivateFile(pathOf(env), `${JSON.stringify(all, null, 2)}\n`, { isSecret: true })
}

/** Runs `work` while no other command changes credentials. */
export const withCredentialsLock = <T>(env: Env, work: () => Promise<T>): Promise<T> => withFileLock(pathOf(env), work)
