/** Folders of reader processes. The next start removes the folders of dead servers. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { isAlive } from '../../processes.ts'

const host = hostname().replace(/[^\w.]/g, '_')
/** Contains the start time, because process ids recur, in containers immediately. */
const ownPrefix = `reader-${host}-${process.pid}-${Math.round(performance.timeOrigin)}-`
const pattern = /^reader-(.+)-(\d+)-(\d+)-[^-]+$/

/** Makes a folder with a unique name below `tempDir`. */
export function makeReaderFolder(tempDir: string): string {
  mkdirSync(tempDir, { recursive: true })
  return mkdtempSync(join(tempDir, ownPrefix))
}

/** Removes a folder and its content. */
export const removeReaderFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })

/** Removes the folders of dead servers on this host. Does nothing if `tempDir` cannot be listed. */
export function removeStaleFolders(tempDir: string): void {
  let names: string[]
  try {
    names = readdirSync(tempDir)
  } catch {
    return
  }
  for (const name of names) {
    const [, creator, pid] = pattern.exec(name) ?? []
    if (creator !== host || name.startsWith(ownPrefix)) continue
    if (Number(pid) === process.pid || !isAlive(Number(pid))) rmSync(join(tempDir, name), { recursive: true, force: true })
  }
}
