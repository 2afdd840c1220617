/** Lock of a folder and server against a second run. Commands without a database connection cannot use PostgreSQL locks. */
import { hash } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { Cli } from './context.ts'
import { Failure } from './exit.ts'
import { acquireFileLock } from './file-lock.ts'
import { stateFolder } from './private-file.ts'
import { throwIfTimedOut } from './wait.ts'

/**
 * Locks the folders until the command ends; `command` is the command words. Waits up to `timeoutMs`, then throws Failure BUSY. Without a writable
 * state folder nothing is locked.
 */
export async function lockFolders(cli: Cli, command: string, folders: readonly string[], timeoutMs: number): Promise<void> {
  const server = cli.target.url ?? (await cli.localConfig()).config.data_dir
  const paths = await Promise.all(folders.map((folder) => realpath(folder)))
  const deadline = performance.now() + timeoutMs
  try {
    // The same order in every run prevents deadlocks.
    for (const path of [...new Set(paths)].sort()) {
      const name = hash('sha256', JSON.stringify([server, path])).slice(0, 32)
      await lockFolder(cli, join(stateFolder(cli.env), 'locks', `${name}.lock`), path, command, deadline)
    }
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR', 'ENOSPC'].includes(String((error as NodeJS.ErrnoException).code))) throw error
    if (cli.options.verbose > 0) cli.note(`no lock against a second run: ${(error as Error).message}`)
  }
}

/** Locks the folder by the lock file `lock` until the command ends. Throws Failure BUSY at `deadline`, a time of performance.now(). */
export async function lockFolder(cli: Cli, lock: string, folder: string, command: string, deadline: number): Promise<void> {
  const release = await acquireFileLock(lock, {
    deadline,
    words: `${new Date().toISOString()} dms ${command}`,
    heldError: (owner) => lockedError(folder, owner),
    signal: cli.signal,
  }).catch((error) => {
    throwIfTimedOut(cli, `${folder} is locked by another run`)
    throw error
  })
  cli.onEnd(release)
}

function lockedError(folder: string, owner: string): Failure {
  if (owner === '') return new Failure('BUSY', `${folder}: already running (the lock file cannot be read)`)
  const [host = '', pid = '', , since = '', ...holder] = owner.split(' ')
  const details = { holder: holder.join(' '), host, pid: Number(pid), since }
  return new Failure('BUSY', `${folder}: already running (${details.holder} pid=${pid} host=${host} since ${since})`, { details })
}
