import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { lchown, lstat, mkdir, readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '../../errors.ts'
import { type Account, databaseAccount, openDataDir } from './account.ts'
import { type Binaries, installBinaries } from './binaries.ts'
import { createFolder } from './make-folder.ts'
import { superuser } from './roles.ts'

/** A database folder, with all that it takes to run a server on it. */
export interface Cluster {
  readonly dataDir: string
  readonly folder: string
  /** where its unix socket is; nobody but the account (and root) gets in */
  readonly socketFolder: string
  readonly logFile: string
  readonly binaries: Binaries
  /** undefined: our own */
  readonly account: Account | undefined
}

export const port = 5432

/** A socket's path may have 107 bytes (103 on macOS); the socket's own name takes 14. */
const maxSocketFolderBytes = 86

/** The environment of PostgreSQL's programs: nothing of it depends on the machine. */
export const environment = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** Opens the database below the data folder, made first where there is none. Throws ConfigError where it cannot be used. */
export async function openCluster(dataFolder: string): Promise<Cluster> {
  const dataDir = await openDataDir(dataFolder)
  const account = await databaseAccount(dataDir)
  const binaries = await installBinaries(dataDir)
  const folder = join(dataDir, 'postgres')
  await createDatabase(folder, binaries, account)
  return {
    dataDir,
    folder,
    socketFolder: await openSocketFolder(dataDir, account),
    logFile: join(dataDir, 'postgres.log'),
    binaries,
    account,
  }
}

async function createDatabase(folder: string, binaries: Binaries, account: Account | undefined): Promise<void> {
  const entries = await readdir(folder).catch(() => [])
  if (entries.length === 0) await createFolder(folder, (temporary) => initialise(temporary, binaries, account))
  const version = await readFile(join(folder, 'PG_VERSION'), 'utf8').catch(() => undefined)
  if (version === undefined) throw new ConfigError([`${folder} is not a database of PostgreSQL: move it away`])
  if (Number(version) === binaries.major) return
  throw new ConfigError([
    `${folder} was made by PostgreSQL ${version.trim()} and dms brings PostgreSQL ${binaries.major} along: ` +
      `run the dms that made it, take a backup and restore it here, or set DATABASE_URL to a PostgreSQL ${version.trim()} that runs on this folder`,
  ])
}

async function initialise(folder: string, binaries: Binaries, account: Account | undefined): Promise<void> {
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
  ]
  const options = { env: environment, cwd: '/', uid: account?.uid, gid: account?.gid }
  await new Promise<void>((resolve, reject) => {
    execFile(join(binaries.folder, 'bin', 'initdb'), flags, options, (error, stdout, stderr) => {
      if (!error) resolve()
      else reject(explainUnusable(error, binaries) ?? new Error(`initdb failed: ${lastLines(stderr || stdout || error.message)}`))
    })
  })
}

/** Programs that do not run at all: a file system mounted noexec (EACCES), or a system without glibc (ENOENT). */
export function explainUnusable({ code }: { code?: unknown }, binaries: Binaries): ConfigError | undefined {
  if (code !== 'EACCES' && code !== 'ENOENT') return undefined
  const reason = code === 'EACCES' ? 'its file system is mounted noexec, or may not be reached' : 'it needs a system with glibc'
  return new ConfigError([`the PostgreSQL that dms brings along cannot run from ${binaries.folder} (${reason}): set DATABASE_URL`])
}

/** The end of what a program said, on one line. */
export const lastLines = (output: string): string => output.trim().split('\n').slice(-8).join(' | ')

async function openSocketFolder(dataDir: string, account: Account | undefined): Promise<string> {
  const inDataDir = join(dataDir, 'postgres-socket')
  const isTooLong = Buffer.byteLength(inDataDir) > maxSocketFolderBytes
  const hash = createHash('sha256').update(dataDir).digest('hex')
  const folder = isTooLong ? join(tmpdir(), `dms-${hash.slice(0, 16)}`) : inDataDir
  const uid = process.getuid?.()
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const found = await lstat(folder)
  const isOurs = found.isDirectory() && (found.mode & 0o077) === 0 && (found.uid === uid || found.uid === account?.uid)
  if (!isOurs) throw new ConfigError([`${folder} is to hold the database's socket, but it is not a private folder of ours: remove it`])
  if (account && found.uid !== account.uid) await lchown(folder, account.uid, account.gid)
  return folder
}
