/** Upgrades the embedded PostgreSQL to the major version of the installed programs. Fills a new cluster, then exchanges it with the old one. */
import { createHash } from 'node:crypto'
import { lchown, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../../../errors.ts'
import { dms } from '../../../log/fix.ts'
import type { Log } from '../../../log/log.ts'
import type { Account } from '../account.ts'
import { flushCluster, openCluster } from '../cluster.ts'
import { type EmbeddedPostgres, joinEmbedded } from '../embedded.ts'
import { clusterFolder, exchange, removeUnfinished, upgradeFolder } from '../exchange.ts'
import { serverPid, stopServer } from '../process.ts'
import { copyCluster } from './copy-cluster.ts'
import { type CopyResult, copyDatabase } from './copy-database.ts'
import { measureFree, type UpgradePlan } from './plan.ts'

export interface UpgradeOptions {
  log: Log
  signal: AbortSignal
  onProgress(phase: UpgradePhase, state: { done: number; total: number; bytes: number; totalBytes?: number; current?: string }): void
}

export type UpgradePhase = 'files' | 'rows' | 'comparing' | 'flushing'

/** Both servers of an upgrade work on copies: flushes come at its end, and nobody else writes. */
const copySettings = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  autovacuum: 'off',
  checkpoint_timeout: '1h',
  max_wal_size: '4GB',
  shared_buffers: '256MB',
}

/** A crashed server recovers before it accepts connections. */
const startTimeoutMs = 3_600_000
const stopTimeoutMs = 60_000

/** Upgrades the cluster of a plan. After any failure the old cluster is unchanged and in place. The caller holds a lock. */
export async function upgradeCluster(dataDir: string, plan: UpgradePlan, options: UpgradeOptions): Promise<CopyResult> {
  const folder = clusterFolder(dataDir)
  await removeUpgrade(dataDir)
  await stopUnused(folder)
  const before = await readControlChecksum(folder)
  const [oldDir, newDir] = await createFolders(dataDir, plan.account)
  try {
    await copyFiles(folder, oldDir, plan, options)
    const result = await copyRows(oldDir, newDir, plan, options)
    options.onProgress('flushing', { done: 0, total: 1, bytes: 0 })
    const cluster = await openCluster(newDir)
    for (; (await serverPid(cluster)) !== undefined; await sleep(50)) options.signal.throwIfAborted()
    await flushCluster(cluster)
    options.signal.throwIfAborted()
    if ((await readControlChecksum(folder)) !== before || (await serverPid({ folder })) !== undefined)
      throw Object.assign(new AppError('CONFLICT', {}, `the database in ${folder} was used meanwhile; it is not upgraded`), {
        fix: ['stop every dms serve and dms worker, also of the older dms, then run ', dms`database upgrade`, ' again'],
      })
    await exchange(dataDir, plan.from)
    return result
  } catch (error) {
    options.signal.throwIfAborted()
    throw await explainFailure(error, dataDir)
  } finally {
    await removeUnfinished(dataDir).catch(() => undefined)
  }
}

/** Returns the error, or one with a fix if the disk is full. The plan has checked the space; something else may have used it since. */
export async function explainFailure(error: unknown, dataDir: string): Promise<unknown> {
  if (error instanceof AppError) return error
  const isFull = fullDiskCodes.has((error as { code?: string }).code ?? '') || (await measureFree(dataDir)) < minFreeBytes
  if (!isFull) return error
  return Object.assign(new AppError('CONFLICT', {}, `the disk of ${dataDir} is full; the old database is unchanged`), {
    cause: error,
    fix: ['free space (', dms`database upgrade -n`, ' prints how much is needed), then run ', dms`database upgrade`, ' again'],
  })
}

const fullDiskCodes = new Set(['ENOSPC', 'EDQUOT', '53100'])
/** Minimum free space. With less, a server that cannot write its WAL ends, and its connections break without an error code for a full disk. */
const minFreeBytes = 20_000_000

/** Removes the files of an interrupted upgrade and stops its servers. */
export async function removeUpgrade(dataDir: string): Promise<void> {
  for (const name of ['old', 'new']) await stopServer({ folder: clusterFolder(join(upgradeFolder(dataDir), name)) }, stopTimeoutMs)
  await removeUnfinished(dataDir)
}

/** Stops a server that nobody uses, which a killed process has left. */
async function stopUnused(folder: string): Promise<void> {
  if (!(await stopServer({ folder }, stopTimeoutMs))) throw new Error(`PostgreSQL is still writing in ${folder}: try again`)
}

async function createFolders(dataDir: string, account: Account | undefined): Promise<[oldDir: string, newDir: string]> {
  const top = upgradeFolder(dataDir)
  // Same mode as the data folder: under root, PostgreSQL runs as another user and must enter it.
  await mkdir(top, { mode: 0o711 })
  const folders: [string, string] = [join(top, 'old'), join(top, 'new')]
  for (const folder of folders) {
    await mkdir(folder, { mode: 0o711 })
    if (account) await lchown(folder, account.uid, account.gid)
  }
  return folders
}

async function copyFiles(folder: string, oldDir: string, plan: UpgradePlan, { onProgress, signal }: UpgradeOptions): Promise<void> {
  let bytes = 0
  const report = (): void => onProgress('files', { done: bytes, total: plan.databaseBytes, bytes, totalBytes: plan.databaseBytes })
  report()
  await copyCluster(folder, clusterFolder(oldDir), plan.account, {
    signal,
    onBytes(added) {
      bytes += added
      report()
    },
  })
}

/** Starts a server on the copy of the old files and one on an empty cluster, and copies the rows. Both have stopped at the end. */
async function copyRows(oldDir: string, newDir: string, plan: UpgradePlan, options: UpgradeOptions): Promise<CopyResult> {
  const { log, signal, onProgress } = options
  const servers: EmbeddedPostgres[] = []
  const start = async (dataDir: string, postgres?: UpgradePlan['oldPrograms']): Promise<EmbeddedPostgres> => {
    signal.throwIfAborted()
    const server = await joinEmbedded({ dataDir, log, startTimeoutMs, settings: copySettings, postgres })
    servers.push(server)
    return server
  }
  try {
    const source = await start(oldDir, plan.oldPrograms)
    const target = await start(newDir)
    return await copyDatabase(source, target, {
      log,
      signal,
      onTable: (phase, { done, total, bytes, table }) => onProgress(phase, { done, total, bytes, current: table }),
    })
  } catch (error) {
    // Connections are closed when the upgrade is interrupted.
    signal.throwIfAborted()
    throw error
  } finally {
    for (const server of servers) await server.release()
  }
}

/** Returns the checksum of pg_control. Every start and stop of a server changes this file. */
const readControlChecksum = async (folder: string): Promise<string> =>
  createHash('sha256')
    .update(await readFile(join(folder, 'global', 'pg_control')))
    .digest('hex')
