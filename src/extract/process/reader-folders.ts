/** Folders of reader processes. The next start removes the folders of dead servers. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isAlive, pidNamespace } from '../../processes.ts'

/** Contains the start time, because process ids recur, in containers immediately. */
const ownPrefix = `reader-${pidNamespace}-${process.pid}-${Math.round(performance.timeOrigin)}-`
const pattern = /^reader-(.+)-(\d+)-(\d+)-[^-]+$/
/** Age at which the server of a folder counts as dead if its host or container is another. Readers end after a minute without work. */
const staleMs = 7 * 24 * 3600 * 1000

/** Makes a folder with a unique name below `tempDir`. */
export function makeReaderFolder(tempDir: string): string {
  mkdirSync(tempDir, { recursive: true })
  return mkdtempSync(join(tempDir, ownPrefix))
}

/** Removes a folder and its content. */
export const removeReaderFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })

/** Removes the folders of dead servers, and those of other hosts and containers that are a week old. Does nothing if `tempDir` cannot be listed. */
export function removeStaleFolders(tempDir: string): void {
  let names: string[]
  try {
    names = readdirSync(tempDir)
  } catch {
    return
  }
  let now: number | null = null
  const isStale = (name: string): boolean => {
    const stats = statSync(join(tempDir, name), { throwIfNoEntry: false })
    if (!stats) return false
    now ??= readFolderClock(tempDir)
    return now - stats.mtimeMs > staleMs
  }
  for (const name of names) {
    const [, namespace, pid] = pattern.exec(name) ?? []
    if (namespace === undefined || name.startsWith(ownPrefix)) continue
    const isDead = namespace === pidNamespace ? Number(pid) === process.pid || !isAlive(Number(pid)) : isStale(name)
    if (isDead) rmSync(join(tempDir, name), { recursive: true, force: true })
  }
}

/** Returns the time of the file system of `tempDir` in milliseconds. */
function readFolderClock(tempDir: string): number {
  const folder = makeReaderFolder(tempDir)
  const { mtimeMs } = statSync(folder)
  rmSync(folder, { recursive: true })
  return mtimeMs
}
