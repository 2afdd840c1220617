/** Lock of a folder and server against a second run. Commands without a database connection cannot use PostgreSQL locks. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readFile, realpath, unlink, utimes } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cli } from './context.ts'
import { Failure } from './exit.ts'
import { removeStaleLock, staleLockMs, tryLock } from './private-file.ts'
import { stateFolder } from './user-folders.ts'

/** Interval between two attempts to take a held lock. */
const pollIntervalMs = 200

/**
 * Locks the folders until the command ends; `command` is the command words. Waits up to `timeout` ms, then throws Failure
 * BUSY. Without a writable state folder nothing is locked.
 */
export async function lockFolders(cli: Cli, command: string, folders: readonly string[], timeout: number): Promise<void> {
  const server = cli.target.url ?? (await cli.config()).config.data_dir
  const places = await Promise.all(folders.map((folder) => realpath(folder)))
  const locks = join(stateFolder(cli.env), 'locks')
  const late = performance.now() + timeout
  try {
    await mkdir(locks, { recursive: true, mode: 0o700 })
    // The same order in every run prevents deadlocks.
    for (const place of [...new Set(places)].sort()) {
      const name = createHash('sha256')
        .update(JSON.stringify([server, place]))
        .digest('hex')
        .slice(0, 32)
      await lockFolder(cli, join(locks, `${name}.lock`), place, command, late)
    }
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR', 'ENOSPC'].includes(String((error as NodeJS.ErrnoException).code))) throw error
    if (cli.options.verbose > 0) cli.note(`other runs are not kept away: ${(error as Error).message}`)
  }
}

async function lockFolder(cli: Cli, lock: string, place: string, command: string, late: number): Promise<void> {
  const mine = `${hostname()} ${process.pid} ${randomBytes(6).toString('hex')} ${new Date().toISOString()} dms ${command}`
  while (!(await tryLock(lock, mine))) {
    if (await removeStaleLock(lock)) continue
    if (performance.now() >= late) throw lockedError(place, await readFile(lock, 'utf8').catch(() => ''))
    await sleep(pollIntervalMs, undefined, { signal: cli.signal })
  }
  const beat = setInterval(() => void utimes(lock, new Date(), new Date()).catch(() => {}), staleLockMs / 4)
  cli.onEnd(async () => {
    clearInterval(beat)
    if ((await readFile(lock, 'utf8').catch(() => '')) === mine) await unlink(lock).catch(() => {})
  })
}

function lockedError(place: string, text: string): Failure {
  const [host = '', pid = '', , since = '', ...holder] = text.split(' ')
  const details = { holder: holder.join(' '), host, pid: Number(pid), since }
  return new Failure('BUSY', `${place}: already running (${details.holder} pid=${pid} host=${host} since ${since})`, { details })
}
