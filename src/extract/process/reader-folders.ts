/** A folder for each reader process, removed with it, or by the next reader if nobody was left to do it. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { isAlive } from '../../is-alive.ts'

/** Process ids come again, in containers at once; with the time of start they do not. */
const host = hostname().replace(/[^\w.]/g, '_')
const ownName = `reader-${host}-${process.pid}-${Math.round(performance.timeOrigin)}-`
const pattern = /^reader-(.+)-(\d+)-(\d+)-[^-]+$/

/** Makes a folder of a new name below `tempDir`. */
export function makeReaderFolder(tempDir: string): string {
  mkdirSync(tempDir, { recursive: true })
  return mkdtempSync(join(tempDir, ownName))
}

/** Removes a folder with all that is in it. */
export const removeReaderFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })

/** Removes the folders of this host's readers whose server is dead. */
export function removeStaleFolders(tempDir: string): void {
  for (const name of namesIn(tempDir)) {
    const [, madeOn, pid] = pattern.exec(name) ?? []
    if (madeOn !== host || name.startsWith(ownName)) continue
    if (Number(pid) === process.pid || !isAlive(Number(pid))) rmSync(join(tempDir, name), { recursive: true, force: true })
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
