/** Replaces the cluster of a data folder by its upgraded copy. A process killed at any point leaves one of the two. */
import { existsSync } from 'node:fs'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { flushFolder } from '../../folders.ts'

/** Returns the folder of the cluster. */
export const clusterFolder = (dataDir: string): string => join(dataDir, 'postgres')

/** Folder of a running or interrupted upgrade. `old` and `new` below it are data folders. */
export const upgradeFolder = (dataDir: string): string => join(dataDir, 'postgres-upgrade')

/** Folder that keeps the cluster of an older major version after an upgrade. */
export const keptFolder = (dataDir: string, major: number): string => join(dataDir, `postgres-${major}`)

/** Its presence means that the new cluster is complete. */
const markerFile = (dataDir: string): string => join(upgradeFolder(dataDir), 'complete')

/**
 * Renames the cluster to that of `major` and puts the new cluster in its place. Call it when both servers have stopped and the new files are flushed.
 */
export async function exchange(dataDir: string, major: number): Promise<void> {
  await writeFile(markerFile(dataDir), `${major}\n`, { flush: true })
  for (const folder of [join(upgradeFolder(dataDir), 'new'), upgradeFolder(dataDir)]) await flushFolder(folder)
  await rename(clusterFolder(dataDir), keptFolder(dataDir, major))
  await flushFolder(dataDir)
  await completeExchange(dataDir)
}

/** Completes an exchange that was interrupted. Does nothing if a cluster is in place. */
export async function completeExchange(dataDir: string): Promise<void> {
  const major = await exchangedMajor(dataDir)
  if (major === null) return
  const upgraded = join(upgradeFolder(dataDir), 'new', 'postgres')
  await rename(upgraded, clusterFolder(dataDir)).catch((error: NodeJS.ErrnoException) => {
    // Another process has completed it.
    if (error.code !== 'ENOENT' && error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  })
  for (const folder of [dirname(upgraded), dataDir]) await flushFolder(folder).catch(() => undefined)
  // Starts of a server remove folders of such names.
  const rest = join(dataDir, `postgres-${major}.upgrade`)
  await rename(upgradeFolder(dataDir), rest).catch(() => undefined)
  await rm(rest, { recursive: true, force: true })
}

/** Returns whether an exchange has moved the old cluster away and not yet put the new one in its place. */
export const isExchanging = async (dataDir: string): Promise<boolean> => (await exchangedMajor(dataDir)) !== null

/** Removes an unfinished upgrade. Does nothing between the two renames of an exchange: the next command completes it. */
export async function removeUnfinished(dataDir: string): Promise<void> {
  if (await isExchanging(dataDir)) return
  await rm(upgradeFolder(dataDir), { recursive: true, force: true, maxRetries: 5 })
}

async function exchangedMajor(dataDir: string): Promise<number | null> {
  if (existsSync(clusterFolder(dataDir))) return null
  const major = Number.parseInt(await readFile(markerFile(dataDir), 'utf8').catch(() => ''), 10)
  return !Number.isNaN(major) && existsSync(keptFolder(dataDir, major)) ? major : null
}

/** Returns the major versions whose clusters are kept. */
export async function listKept(dataDir: string): Promise<number[]> {
  const names = await readdir(dataDir).catch(() => [])
  return names.flatMap((name) => /^postgres-(\d+)$/.exec(name)?.[1] ?? []).map(Number)
}

/** Deletes a kept cluster. If it is interrupted, the next start of a server removes the rest. */
export async function removeKept(dataDir: string, major: number): Promise<void> {
  const rest = `${keptFolder(dataDir, major)}.removed`
  await rename(keptFolder(dataDir, major), rest)
  await flushFolder(dataDir)
  await rm(rest, { recursive: true, force: true })
}
