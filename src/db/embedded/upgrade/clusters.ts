/** Clusters in a data folder: the current one, and older ones kept by upgrades. */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { loadPackage } from '../binaries.ts'
import { readMajor } from '../cluster.ts'
import { clusterFolder, keptFolder, listKept, removeKept, upgradeFolder } from '../exchange.ts'
import { measureFolder } from './copy-cluster.ts'
import { programsFolder } from './old-programs.ts'
import { removeUpgrade } from './upgrade.ts'

export interface ClusterInfo {
  folder: string
  state: 'current' | 'outdated' | 'newer' | 'kept' | 'unfinished'
  /** major version */
  version: number
  bytes: number
}

/** Returns the clusters of a data folder, the current one first. */
export async function listClusters(dataDir: string): Promise<ClusterInfo[]> {
  const { major } = await loadPackage()
  const folder = clusterFolder(dataDir)
  const version = await readMajor(folder)
  const state = version === major ? 'current' : version < major ? 'outdated' : 'newer'
  const clusters: ClusterInfo[] = [{ folder, state, version, bytes: await measureFolder(folder) }]
  // A cluster of the same version was put there by hand.
  for (const kept of (await listKept(dataDir)).filter((older) => older < version).sort((one, two) => two - one))
    clusters.push({
      folder: keptFolder(dataDir, kept),
      state: 'kept',
      version: kept,
      bytes: await measureFolder(keptFolder(dataDir, kept)),
    })
  const unfinished = upgradeFolder(dataDir)
  if (existsSync(unfinished))
    clusters.push({ folder: unfinished, state: 'unfinished', version: major, bytes: await measureFolder(unfinished) })
  return clusters
}

/** Deletes a cluster that is kept or unfinished, and the programs that were installed to read it. */
export async function forgetCluster(dataDir: string, { state, version }: ClusterInfo): Promise<void> {
  if (state === 'unfinished') return removeUpgrade(dataDir)
  await removeKept(dataDir, version)
  await rm(programsFolder(dataDir, version), { recursive: true, force: true })
}
