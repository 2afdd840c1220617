/** The data folder, and the account that PostgreSQL runs as. */

import { execFile } from 'node:child_process'
import { access, chmod, constants, readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ConfigError } from '../../errors.ts'
import { createFolder } from '../../folders.ts'
import { shellWord } from '../../log/escape.ts'

const run = promisify(execFile)

export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

const isRoot = (): boolean => process.getuid?.() === 0

/**
 * Creates the data folder if it is missing. Returns its real path. Its mode is 0700; as root 0711, which lets the account of the database enter but
 * not list it. Throws ConfigError if it cannot be created or entered.
 */
export async function openDataDir(dataDir: string): Promise<string> {
  const owner = await findForeignOwner(dataDir)
  if (owner !== null) throw new ConfigError([describeForeign(dataDir, owner)])
  const mode = isRoot() ? 0o711 : 0o700
  const topCreated = await createFolder(dataDir, mode).catch((error: Error) => {
    throw new ConfigError([`the data folder ${dataDir} cannot be created: ${error.message}`])
  })
  const folder = await realpath(dataDir)
  // With a umask of 077 the account could not enter the new folders.
  if (topCreated)
    for (let path = folder, top = dirname(await realpath(topCreated)); path !== top; path = dirname(path)) await chmod(path, mode)
  return folder
}

/**
 * Returns the account to run PostgreSQL as; undefined: the account of this process. PostgreSQL refuses to run as root. Root uses the owner of the
 * database or of the data folder, else `dms` or `postgres`, else a new system account `dms`, else `nobody`. Throws ConfigError if the account cannot
 * reach the data folder, or if another user owns the database.
 */
export async function databaseAccount(dataDir: string): Promise<Account | undefined> {
  const database = await stat(join(dataDir, 'postgres')).catch(() => undefined)
  if (!isRoot()) {
    await checkOwner(dataDir, database)
    return undefined
  }
  const account = (await ownerOf(database)) ?? (await namedOwnerOf(dataDir)) ?? (await findOrCreateAccount())
  await checkReachable(dataDir, account)
  return account
}

async function checkOwner(dataDir: string, database: { uid: number } | undefined): Promise<void> {
  const uid = process.getuid?.() ?? 0
  if (database && database.uid !== uid) {
    const [owner, name] = await Promise.all([database.uid, uid].map(async (id) => (await findAccountName(id)) ?? String(id)))
    const isOwnFolder = (await stat(dataDir)).uid === uid
    throw new ConfigError([
      describeForeign(join(dataDir, 'postgres'), owner!, isOwnFolder ? `as root: chown -R ${name}: ${shellWord(dataDir)}` : undefined),
    ])
  }
  if (!database && !(await findAccountName(uid)))
    throw new ConfigError([
      `user ${uid} has no name on this system, and PostgreSQL needs one: add a line to /etc/passwd, or set DATABASE_URL`,
    ])
}

/** Returns the owner of a folder that this user cannot enter; null if it can, or if there is no such folder. */
export async function findForeignOwner(folder: string): Promise<string | null> {
  const { uid } = await stat(folder).catch(() => ({ uid: undefined }))
  if (uid === undefined) return null
  return access(folder, constants.X_OK).then(
    () => null,
    async () => (await findAccountName(uid)) ?? String(uid),
  )
}

const describeForeign = (path: string, owner: string, fix = 'sudo dms COMMAND'): string => `${path} belongs to user "${owner}"; fix: ${fix}`

/** Returns the name of a user; undefined if the system has none. Reads /etc/passwd first: starting a program takes longer than the rest of a join. */
export async function findAccountName(uid: number): Promise<string | undefined> {
  const lines = (await readFile('/etc/passwd', 'utf8').catch(() => '')).split('\n').map((line) => line.split(':'))
  const name = lines.find((fields) => fields[2] === String(uid))?.[0]
  if (name) return name
  return run('id', ['-un', String(uid)]).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  )
}

async function ownerOf(database: { uid: number; gid: number } | undefined): Promise<Account | undefined> {
  if (!database || database.uid === 0) return undefined
  const { uid, gid } = database
  return { name: (await findAccountName(uid)) ?? String(uid), uid, gid }
}

/** Returns the owner if it has a name, which initdb needs. The owner of a container's mount may have none. */
async function namedOwnerOf(folder: string): Promise<Account | undefined> {
  const { uid, gid } = await stat(folder)
  const name = uid === 0 ? undefined : await findAccountName(uid)
  return name ? { name, uid, gid } : undefined
}

async function findOrCreateAccount(): Promise<Account> {
  const existing = (await lookUp('dms')) ?? (await lookUp('postgres'))
  if (existing) return existing
  await createSystemAccount('dms')
  const account = (await lookUp('dms')) ?? (await lookUp('nobody'))
  if (!account)
    throw new ConfigError([
      'PostgreSQL does not run as root, and there is no account dms, postgres or nobody: create one, or set DATABASE_URL',
    ])
  return account
}

async function lookUp(name: string): Promise<Account | undefined> {
  try {
    const [uid, gid] = await Promise.all(['-u', '-g'].map(async (flag) => Number((await run('id', [flag, name])).stdout)))
    return { name, uid: uid!, gid: gid! }
  } catch {
    return undefined
  }
}

const useraddOptions = ['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin']

async function createSystemAccount(name: string): Promise<void> {
  try {
    await run('useradd', [...useraddOptions, name])
  } catch {
    // busybox, as in Alpine. If this fails too, the caller uses the account nobody.
    await run('adduser', ['-S', '-D', '-H', '-s', '/sbin/nologin', name]).catch(() => undefined)
  }
}

async function checkReachable(dataDir: string, account: Account): Promise<void> {
  for (let folder = dataDir; ; folder = dirname(folder)) {
    const { mode, uid, gid } = await stat(folder)
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
    if (!(mode & bit)) {
      throw new ConfigError([
        `${folder} shuts out the account "${account.name}" that PostgreSQL runs as (it refuses to run as root): ` +
          `put the data folder elsewhere (--data-dir, DMS_DATA_DIR) or allow passing with: chmod o+x '${folder}'`,
      ])
    }
    if (folder === dirname(folder)) return
  }
}
