/** Checks whether a cluster can be upgraded, without changing anything. */
import { lstat, readdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { AppError, ConfigError } from '../../../errors.ts'
import { dms, type Fix } from '../../../log/fix.ts'
import { type Account, databaseAccount } from '../account.ts'
import { loadPackage, type PostgresPackage } from '../binaries.ts'
import { openSocketFolder, port, readMajor } from '../cluster.ts'
import { clusterFolder, keptFolder, listKept } from '../exchange.ts'
import { serverPid } from '../process.ts'
import { superuser } from '../roles.ts'
import { canClone, measureFolder } from './copy-cluster.ts'
import { findOldPrograms } from './old-programs.ts'

export interface UpgradePlan {
  from: number
  to: number
  account: Account | undefined
  oldPrograms: PostgresPackage
  databaseBytes: number
  neededBytes: number
  freeBytes: number
}

/** Space of an empty cluster, and of logs. */
const emptyBytes = 100_000_000

/**
 * Returns the plan; null if the cluster has the version of the programs. Throws ConfigError for missing programs or a newer cluster, and AppError
 * CONFLICT while the database is in use, if the disk is too full, or for a cluster that dms does not replace.
 */
export async function planUpgrade(dataDir: string, oldBinaries: string | undefined): Promise<UpgradePlan | null> {
  const folder = clusterFolder(dataDir)
  const { major: to } = await loadPackage()
  const from = await readMajor(folder)
  if (from === to) return null
  if (from > to)
    throw new ConfigError([`${folder} holds data of PostgreSQL ${from}, and this dms has PostgreSQL ${to}: install a newer dms`])
  const account = await databaseAccount(dataDir)
  await rejectSpecialFolder(dataDir, from)
  await rejectUse(dataDir, account)
  const oldPrograms = await findOldPrograms(dataDir, from, account, oldBinaries)
  const databaseBytes = await measureFolder(folder)
  const copies = (await canClone(join(folder, 'PG_VERSION'), dataDir)) ? 1 : 2
  const neededBytes = copies * databaseBytes + emptyBytes
  const plan = { from, to, account, oldPrograms, databaseBytes, neededBytes, freeBytes: await measureFree(dataDir) }
  requireSpace(dataDir, plan)
  return plan
}

/** Returns the free bytes of the disk that holds a folder. */
export async function measureFree(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** Throws AppError CONFLICT if the plan needs more space than is free. */
export function requireSpace(dataDir: string, { neededBytes, freeBytes }: Pick<UpgradePlan, 'neededBytes' | 'freeBytes'>): void {
  if (freeBytes >= neededBytes) return
  const [needed, free] = [neededBytes, freeBytes].map((bytes) => `${(bytes / 1e9).toFixed(1)} GB`)
  throw conflict(
    `the upgrade needs ${needed}, and the disk of ${dataDir} has ${free} free`,
    'free space, or move the data folder to a larger disk',
  )
}

/** Throws AppError CONFLICT for a cluster that cannot be renamed, or with files elsewhere. */
async function rejectSpecialFolder(dataDir: string, major: number): Promise<void> {
  const folder = clusterFolder(dataDir)
  const cluster = await lstat(folder)
  const parent = await lstat(dataDir)
  if (cluster.isSymbolicLink() || cluster.dev !== parent.dev)
    throw conflict(`${folder} is a link or a mount point, and cannot be replaced`, `move its content to a folder in ${dataDir}`)
  if ((await readdir(join(folder, 'pg_tblspc'))).length > 0)
    throw conflict(`${folder} has tablespaces, which dms does not copy`, 'move their tables to pg_default')
  if ((await listKept(dataDir)).includes(major))
    throw conflict(`${keptFolder(dataDir, major)} exists already`, 'move it away, or delete it')
}

async function rejectUse(dataDir: string, account: Account | undefined): Promise<void> {
  const pids = await findUsers(dataDir, account)
  if (pids.length === 0) return
  const users = pids.length === 1 ? `process ${pids[0]}` : `processes ${pids.join(', ')}`
  throw conflict(
    `the database in ${clusterFolder(dataDir)} is in use by ${users}`,
    ['stop every dms serve and dms worker (systemctl stop dms), then run ', dms`database upgrade`, ' again'],
    { pids },
  )
}

/** Returns the pids of the dms processes that use the database. A process in another container has the pid of that container. */
async function findUsers(dataDir: string, account: Account | undefined): Promise<number[]> {
  const host = await openSocketFolder(dataDir, account)
  const client = new Client({ host, port, user: superuser, database: 'postgres', ssl: false, connectionTimeoutMillis: 10_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query<{ pid: number }>(
      `select distinct substring(application_name from 'pid=([0-9]+)')::int as pid from pg_stat_activity
       where datname is not null and pid <> pg_backend_pid() and application_name ~ '^dms owner pid='`,
    )
    return rows.map(({ pid }) => pid)
  } catch {
    // No server accepts connections. A starting or stopping server counts as used.
    const pid = await serverPid({ folder: clusterFolder(dataDir) })
    return pid === undefined ? [] : [pid]
  } finally {
    client.end().catch(() => undefined)
  }
}

const conflict = (message: string, fix: Fix, details: Record<string, unknown> = {}): AppError =>
  Object.assign(new AppError('CONFLICT', details, message), { fix })
