/** Folders of reader processes. The next start removes the folders of dead servers. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hasEnded, pidNamespace, processIdentity } from '../../processes.ts'

const ownPrefix = `reader-${processIdentity.join('-')}-`
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
    const [match, ...owner] = pattern.exec(name) ?? []
    if (match === undefined) continue
    if (owner[0] === pidNamespace ? hasEnded(owner) : isStale(name)) rmSync(join(tempDir, name), { recursive: true, force: true })
  }
}

/** Returns the time of the file system of `tempDir` in milliseconds. */
function readFolderClock(tempDir: string): number {
  const folder = makeReaderFolder(tempDir)
  const { mtimeMs } = statSync(folder)
  rmSync(folder, { recursive: true })
  return mtimeMs
}
