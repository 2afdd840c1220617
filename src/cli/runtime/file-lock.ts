/** Lock files. Each holds its owner: host, process id, an id that begins with the pid namespace, and words for messages. */
import { randomBytes } from 'node:crypto'
import { link, readFile, rename, stat, unlink, utimes } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { shellWord } from '../../log/escape.ts'
import { isAlive, pidNamespace } from '../../processes.ts'
import { Failure } from './exit.ts'
import { createFile, createOwnedFolder } from './owned-files.ts'

/** Age at which a lock belongs to a stopped process. */
export const staleLockMs = 120_000

export interface LockOptions {
  /** time of performance.now() at which the wait for a held lock ends */
  readonly deadline: number
  /** creates the error for a lock that stays held; `owner` is empty if the file cannot be read */
  readonly heldError: (owner: string) => Error
  /** words after the owner, for messages */
  readonly words?: string
  readonly signal?: AbortSignal
}

/** Creates the lock file and its folder, and renews the lock. Returns a function that removes it. */
export async function acquireFileLock(
  lock: string,
  { deadline, heldError, words = '', signal }: LockOptions,
): Promise<() => Promise<void>> {
  const owner = [hostname(), process.pid, `${pidNamespace}-${randomBytes(6).toString('hex')}`, words].join(' ').trimEnd()
  await createOwnedFolder(dirname(lock))
  while (!(await tryLock(lock, owner))) {
    signal?.throwIfAborted()
    if (await removeStaleLock(lock)) continue
    if (performance.now() >= deadline) throw heldError((await readOwner(lock)) ?? '')
    await sleep(20 + Math.random() * 60, undefined, { signal })
  }
  const heartbeat = setInterval(() => void utimes(lock, new Date(), new Date()).catch(() => {}), staleLockMs / 4)
  return async () => {
    clearInterval(heartbeat)
    if ((await readOwner(lock)) === owner) await unlink(lock).catch(() => {})
  }
}

/** Returns false if the lock file exists. */
async function tryLock(lock: string, owner: string): Promise<boolean> {
  try {
    const file = await createFile(lock, { canKeepOwner: true })
    await file.writeFile(owner)
    await file.close()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Returns the owner of the lock; '' if the file cannot be read, such as a lock of another user, null if there is no file. */
const readOwner = (lock: string): Promise<string | null> =>
  readFile(lock, 'utf8').catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? null : ''))

/** Removes the lock of a dead process. Returns false if the lock is held. Throws Failure BUSY if it cannot be removed, such as the lock of another user. */
async function removeStaleLock(lock: string): Promise<boolean> {
  const before = await readOwner(lock)
  if (before === null) return true
  const ageMs = Date.now() - (await stat(lock).catch(() => ({ mtimeMs: Date.now() }))).mtimeMs
  const [, pid, id = ''] = before.split(' ')
  // Processes of other hosts and containers cannot be checked, and a new lock is empty until it is written: only the age counts for them. An unreadable one counts as empty.
  const isStale = ageMs > staleLockMs || (id.startsWith(`${pidNamespace}-`) && !isAlive(Number(pid)))
  if (!isStale) return false
  const aside = `${lock}.${randomBytes(6).toString('hex')}`
  try {
    await rename(lock, aside)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Another process has removed the lock.
    if (code === 'ENOENT') return true
    throw new Failure('BUSY', `the lock file of a dms that has ended cannot be removed (${code})`, { fix: `rm ${shellWord(lock)}` })
  }
  // Another process has replaced the lock meanwhile: restore its lock.
  if ((await readOwner(aside)) !== before) await link(aside, lock).catch(() => {})
  await unlink(aside).catch(() => {})
  return true
}
