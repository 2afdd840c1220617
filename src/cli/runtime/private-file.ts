/** Small files of one user that several commands may change concurrently. They are read and replaced as a whole. */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { link, mkdir, open, readFile, realpath, rename, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive } from '../../is-alive.ts'
import { Failure } from './exit.ts'

/** Locks older than `staleLockMs` belong to a stopped process. `lockTimeoutMs` limits the wait for a held lock. */
export const staleLockMs = 120_000
const lockTimeoutMs = 90_000

/** Reads a file; null if it does not exist. With `isSecret` symbolic links are rejected, and `warn` is called if other users can read it. */
export async function readPrivateFile(path: string, isSecret = false, warn: (text: string) => void = () => {}): Promise<string | null> {
  try {
    const file = await open(path, constants.O_RDONLY | (isSecret ? constants.O_NOFOLLOW : 0))
    try {
      if (isSecret && ((await file.stat()).mode & 0o077) !== 0)
        warn(`warning: others on this machine can read ${path}   fix: chmod 600 ${path}`)
      return await file.readFile('utf8')
    } finally {
      await file.close()
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    if (code === 'ELOOP') throw new Failure('CONFIG', `${path} is a link; it has to be a file`)
    throw new Failure('CONFIG', message)
  }
}

/** Replaces a file atomically with mode 0600. Follows a symbolic link unless `isSecret`. */
export async function writePrivateFile(path: string, text: string, isSecret = false): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const place = isSecret ? path : await realpath(path).catch(() => path)
  const temporary = `${place}.${randomBytes(6).toString('hex')}.tmp`
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
    await file.close()
    await rename(temporary, place)
  } catch (error) {
    await file.close().catch(() => {})
    await unlink(temporary).catch(() => {})
    throw error
  }
}

/** Runs `work` while holding the lock file of `path`. Throws Failure BUSY if the lock stays held. */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const lock = `${path}.lock`
  const mine = `${hostname()} ${process.pid} ${randomBytes(6).toString('hex')}`
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  for (const late = performance.now() + lockTimeoutMs; !(await tryLock(lock, mine)); ) {
    if (await removeStaleLock(lock)) continue
    if (performance.now() > late) throw new Failure('BUSY', `${lock} is held by another dms`, { fix: `if there is none: rm ${lock}` })
    await sleep(20 + Math.random() * 60)
  }
  try {
    return await work()
  } finally {
    if ((await readFile(lock, 'utf8').catch(() => '')) === mine) await unlink(lock).catch(() => {})
  }
}

/** Creates the lock file with its owner (host and process first). Returns false if it exists. */
export async function tryLock(lock: string, mine: string): Promise<boolean> {
  try {
    const file = await open(lock, 'wx', 0o600)
    await file.writeFile(mine)
    await file.close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Removes the lock of a dead process. Returns false if the lock is held. */
export async function removeStaleLock(lock: string): Promise<boolean> {
  const before = await readFile(lock, 'utf8').catch(() => null)
  if (before === null) return true
  const age = Date.now() - (await stat(lock).catch(() => ({ mtimeMs: Date.now() }))).mtimeMs
  const [host, pid] = before.split(' ')
  // Processes of other hosts cannot be checked, and a new lock is empty until it is written: only the age counts for them.
  const isLeft = age > staleLockMs || (host === hostname() && !isAlive(Number(pid)))
  if (!isLeft) return false
  const aside = `${lock}.${randomBytes(6).toString('hex')}`
  try {
    await rename(lock, aside)
    // Another process has replaced the lock meanwhile: restore its lock.
    if ((await readFile(aside, 'utf8')) !== before) await link(aside, lock)
    await unlink(aside)
  } catch {
    // Another process has removed the lock.
  }
  return true
}
