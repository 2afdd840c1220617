/** Files of one user (XDG Base Directory Specification). Commands may change them concurrently; they are read and replaced as a whole. */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { open, realpath, rename, unlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { shellWord } from '../../log/escape.ts'
import { Failure } from './exit.ts'
import { acquireFileLock } from './file-lock.ts'
import { createFile, createOwnedFolder } from './owned-files.ts'

/** Environment variables of this process. */
export type Env = Readonly<Record<string, string | undefined>>

/** Folder of contexts.toml. */
export const configFolder = ({ XDG_CONFIG_HOME }: Env): string => dmsFolder(XDG_CONFIG_HOME, '.config')

/** Folder of credentials.json, locks and upload caches. */
export const stateFolder = ({ XDG_STATE_HOME }: Env): string => dmsFolder(XDG_STATE_HOME, '.local/state')

/** The specification requires relative paths to be ignored. */
const dmsFolder = (base: string | undefined, fallback: string): string =>
  join(base && isAbsolute(base) ? base : join(homedir(), fallback), 'dms')

/** Limit of the wait for a held lock. */
const lockTimeoutMs = 90_000

interface SecretOptions {
  /** the file holds secrets: symbolic links are not followed */
  readonly isSecret?: boolean
}

/** Reads a file; null if it does not exist. Calls `warn` if other users can read a file with secrets. */
export async function readPrivateFile(
  path: string,
  { isSecret = false, warn = () => {} }: SecretOptions & { readonly warn?: (text: string) => void } = {},
): Promise<string | null> {
  try {
    const file = await open(path, constants.O_RDONLY | (isSecret ? constants.O_NOFOLLOW : 0))
    try {
      if (isSecret && ((await file.stat()).mode & 0o077) !== 0)
        warn(`warning: other users of this machine can read ${path}   fix: chmod 600 ${path}`)
      return await file.readFile('utf8')
    } finally {
      await file.close()
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    if (code === 'ELOOP')
      throw new Failure('CONFIG', `${path} is a symbolic link, and holds secrets`, { fix: 'replace the link by the file' })
    throw new Failure('CONFIG', message)
  }
}

/** Replaces a file atomically with mode 0600. Follows a symbolic link unless `isSecret`. */
export async function writePrivateFile(path: string, text: string, { isSecret = false }: SecretOptions = {}): Promise<void> {
  await createOwnedFolder(dirname(path))
  const target = isSecret ? path : await realpath(path).catch(() => path)
  const temporary = `${target}.${randomBytes(6).toString('hex')}.tmp`
  const file = await createFile(temporary)
  try {
    await file.writeFile(text)
    await file.sync()
    await file.close()
    await rename(temporary, target)
  } catch (error) {
    await file.close().catch(() => {})
    await unlink(temporary).catch(() => {})
    throw error
  }
}

/** Runs `work` while holding the lock file of `path`. Throws Failure BUSY if the lock stays held. */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const lock = `${path}.lock`
  const heldError = () => new Failure('BUSY', `another dms holds ${lock}`, { fix: `if no dms is running: rm ${shellWord(lock)}` })
  const release = await acquireFileLock(lock, { deadline: performance.now() + lockTimeoutMs, heldError })
  try {
    return await work()
  } finally {
    await release()
  }
}
