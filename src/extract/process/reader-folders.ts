/** Folders of reader processes. The next start removes the folders of dead servers. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isAlive, pidNamespace } from '../../processes.ts'

/** Contains the start time, because process ids recur, in containers immediately. */
const ownPrefix = `reader-${pidNamespace}-${process.pid}-${Math.round(performance.timeOrigin)}-`
const pattern = /^reader-(.+)-(\d+)-(\d+)-[^-]+$/
/** Age of the folder of an unknown server at which it counts as dead. Readers end after a minute without work. */
const staleMs = 7 * 24 * 3600 * 1000

/** Makes a folder with a unique name below `tempDir`. */
export function makeReaderFolder(tempDir: string): string {
  mkdirSync(tempDir, { recursive: true })
  return mkdtempSync(join(tempDir, ownPrefix))
}

/** Removes a folder and its content. */
export const removeReaderFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })

/** Removes the folders of dead servers. Those of other hosts and containers count after a week. Does nothing if `tempDir` cannot be listed. */
export function removeStaleFolders(tempDir: string): void {
  let names: string[]
  try {
    names = readdirSync(tempDir)
  } catch {
    return
  }
  for (const name of names) {
    const [, namespace, pid] = pattern.exec(name) ?? []
    if (namespace === undefined || name.startsWith(ownPrefix)) continue
    const isDead = namespace === pidNamespace ? Number(pid) === process.pid || !isAlive(Number(pid)) : isStale(tempDir, name)
    if (isDead) rmSync(join(tempDir, name), { recursive: true, force: true })
  }
}

/** Returns whether a folder is stale by the clock of its file system. */
function isStale(tempDir: string, name: string): boolean {
  const stats = statSync(join(tempDir, name), { throwIfNoEntry: false })
  if (!stats) return false
  const newFolder = makeReaderFolder(tempDir)
  const { mtimeMs } = statSync(newFolder)
  rmSync(newFolder, { recursive: true })
  return mtimeMs - stats.mtimeMs > staleMs
}
