/** A database cluster: its folder, and the programs and the account that run a server on it. */
import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { access, lchown, lstat, mkdir, readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '../../errors.ts'
import { dms } from '../../log/fix.ts'
import { type Account, databaseAccount, openDataDir } from './account.ts'
import { type Binaries, libraryPath, loadPackage, type PostgresPackage, prepareBinaries } from './binaries.ts'
import { clusterFolder, completeExchange, isExchanging } from './exchange.ts'
import { createFolder } from './make-folder.ts'
import { superuser } from './roles.ts'

export interface Cluster {
  readonly dataDir: string
  readonly folder: string
  /** folder of the Unix socket, accessible to the account and root only */
  readonly socketFolder: string
  readonly logFile: string
  /** Needed to start a server, not to join one. */
  binaries(): Promise<Binaries>
  /** undefined: the account of this process */
  readonly account: Account | undefined
  /** major version of the programs and of the data */
  readonly major: number
  /** additional settings of the server */
  readonly settings: Settings
}

export type Settings = Readonly<Record<string, string | number>>

export interface ClusterOptions {
  /** default: the installed package */
  postgres?: PostgresPackage
  settings?: Settings
}

export const port = 5432

/** The path of a socket has at most 107 bytes (103 on macOS). Its file name needs 14 of them. */
const maxSocketFolderBytes = 86

/** The environment of PostgreSQL's programs, equal on every machine. */
export const environmentOf = (binaries: Binaries): Record<string, string> => ({
  PATH: '/usr/local/bin:/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
  ...libraryPath(binaries),
})

/**
 * Opens the cluster below the data folder, and creates it first if there is none. Throws ConfigError if it cannot be used, and DatabaseOutdated
 * if its major version is older than the programs.
 */
export async function openCluster(dataFolder: string, { postgres, settings = {} }: ClusterOptions = {}): Promise<Cluster> {
  const dataDir = await openDataDir(dataFolder)
  await completeExchange(dataDir)
  const account = await databaseAccount(dataDir)
  const programs = postgres ?? (await loadPackage())
  let prepared: Promise<Binaries> | undefined
  const binaries = () => (prepared ??= prepareBinaries(dataDir, programs, account))
  const folder = clusterFolder(dataDir)
  await createDatabase(folder, programs.major, binaries, account, settings)
  return {
    dataDir,
    folder,
    socketFolder: await openSocketFolder(dataDir, account),
    logFile: join(dataDir, 'postgres.log'),
    binaries,
    account,
    major: programs.major,
    settings,
  }
}

/** Returns whether the data folder has a cluster. A folder that this account cannot enter may have one. */
export const hasCluster = async (dataFolder: string): Promise<boolean> =>
  (await isExchanging(dataFolder)) ||
  access(join(clusterFolder(dataFolder), 'PG_VERSION')).then(
    () => true,
    ({ code }: NodeJS.ErrnoException) => code !== 'ENOENT' && code !== 'ENOTDIR',
  )

/** The data is of an older major version than the programs. The command line exits with 8. */
export class DatabaseOutdated extends Error {
  readonly fix = dms`database upgrade`

  constructor(folder: string, from: number, to: number) {
    super(`${folder} holds data of PostgreSQL ${from}, and this dms has PostgreSQL ${to}`)
    this.name = 'DatabaseOutdated'
  }
}

/** Returns the major version of the data in a folder. Throws ConfigError if it has none, or if this account cannot read it. */
export async function readMajor(folder: string): Promise<number> {
  const version = await readFile(join(folder, 'PG_VERSION'), 'utf8').catch(({ code }: NodeJS.ErrnoException) => {
    if (code === 'EACCES') throw new ConfigError([`${folder} belongs to another user: run dms as that user or as root`])
    return ''
  })
  const major = Number.parseInt(version, 10)
  if (Number.isNaN(major)) throw new ConfigError([`${folder} is not a PostgreSQL database: move it away`])
  return major
}

async function createDatabase(
  folder: string,
  major: number,
  binaries: Cluster['binaries'],
  account: Account | undefined,
  { fsync }: Settings,
): Promise<void> {
  const entries = await readdir(folder).catch(() => [])
  const isSynced = fsync !== 'off'
  if (entries.length === 0) await createFolder(folder, async (temporary) => initialise(temporary, await binaries(), account, { isSynced }))
  const found = await readMajor(folder)
  if (found < major) throw new DatabaseOutdated(folder, found, major)
  if (found > major)
    throw new ConfigError([
      `${folder} holds data of PostgreSQL ${found}, and this dms has PostgreSQL ${major}: ` +
        `install the dms that upgraded it, or set DATABASE_URL to a PostgreSQL ${found} that runs on this folder`,
    ])
}

async function initialise(
  folder: string,
  binaries: Binaries,
  account: Account | undefined,
  { isSynced }: { isSynced: boolean },
): Promise<void> {
  if (account) await lchown(folder, account.uid, account.gid)
  const flags = [
    `--pgdata=${folder}`,
    `--username=${superuser}`,
    '--encoding=UTF8',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--locale=C',
    '--data-checksums',
    '--auth-local=trust',
    '--auth-host=reject',
    '--no-instructions',
    ...(isSynced ? [] : ['--no-sync']),
  ]
  await runInitdb(flags, binaries, account)
}

/** Flushes all files of a cluster to the disk. Its server must not run. */
export const flushCluster = async ({ folder, binaries, account }: Cluster): Promise<void> =>
  runInitdb(['--sync-only', `--pgdata=${folder}`], await binaries(), account)

async function runInitdb(flags: readonly string[], binaries: Binaries, account: Account | undefined): Promise<void> {
  const options = { env: environmentOf(binaries), cwd: '/', uid: account?.uid, gid: account?.gid }
  await new Promise<void>((resolve, reject) => {
    execFile(join(binaries.folder, 'bin', 'initdb'), flags, options, (error, stdout, stderr) => {
      if (!error) resolve()
      else reject(explainUnusable(error, binaries) ?? new Error(`initdb failed: ${lastLines(stderr || stdout || error.message)}`))
    })
  })
}

/** Explains why a program cannot run at all: its file system is mounted noexec (EACCES), or there is no glibc (ENOENT). */
export function explainUnusable({ code }: { code?: unknown }, binaries: Binaries): ConfigError | undefined {
  if (code !== 'EACCES' && code !== 'ENOENT') return undefined
  const reason = code === 'EACCES' ? 'its file system is mounted noexec, or is not accessible' : 'it needs a system with glibc'
  return new ConfigError([`the embedded PostgreSQL cannot run from ${binaries.folder} (${reason}): set DATABASE_URL`])
}

/** Returns the end of a program's output, on one line. */
export const lastLines = (output: string): string => output.trim().split('\n').slice(-8).join(' | ')

/** Creates the folder of the socket if it is missing. */
export async function openSocketFolder(dataDir: string, account: Account | undefined): Promise<string> {
  const inDataDir = join(dataDir, 'postgres-socket')
  const isTooLong = Buffer.byteLength(inDataDir) > maxSocketFolderBytes
  const folder = isTooLong ? join(tmpdir(), `dms-${hash('sha256', dataDir).slice(0, 16)}`) : inDataDir
  const uid = process.getuid?.()
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const stats = await lstat(folder)
  const isPrivate = stats.isDirectory() && (stats.mode & 0o077) === 0 && (stats.uid === uid || stats.uid === account?.uid)
  if (!isPrivate) throw new ConfigError([`${folder} cannot hold the database's socket: it is not a private folder of this user. Remove it`])
  if (account && stats.uid !== account.uid) await lchown(folder, account.uid, account.gid)
  return folder
}
