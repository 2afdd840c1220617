/** The server process: starts it, stops it, and tells it from other programs. */
import { execFile, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir, readFile, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { sizeSharedBuffers } from './buffers.ts'
import { type Cluster, environmentOf, explainUnusable, lastLines, port, type Settings } from './cluster.ts'

export interface Server {
  /** Returns true while the server starts, and false if it has ended because another server uses the folder. Throws if it failed. */
  isStarting(): Promise<boolean>
}

const maxLogBytes = 10_000_000
/** Age at which an empty lock file counts as abandoned. */
const emptyLockMs = 5_000

/**
 * Returns the settings for the command line. Settings in a file would survive an upgrade of dms, and could make the database less durable or open a
 * port.
 */
const settings = (cluster: Cluster, sharedBuffers: number): Settings => ({
  listen_addresses: '',
  port,
  unix_socket_directories: `"${cluster.socketFolder.replaceAll('"', '""')}"`,
  unix_socket_permissions: '0700',
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  wal_compression: 'on',
  // The WAL is not replicated: a new index need not be logged.
  wal_level: 'minimal',
  max_wal_senders: 0,
  max_connections: 100,
  shared_buffers: `${sharedBuffers}MB`,
  work_mem: '8MB',
  maintenance_work_mem: '128MB',
  // Loaded at the start: an upgrade of the package may remove them while the server runs.
  shared_preload_libraries: 'plpgsql,pg_trgm,fuzzystrmatch',
  random_page_cost: 1.1,
  // A new archive fills within seconds. Until its tables are analyzed, lists and searches take several times as long.
  autovacuum_naptime: '15s',
  // Most reads hit the page cache of the system, where an I/O worker costs more than the read.
  ...(cluster.major >= 18 ? { io_method: 'sync' } : {}),
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
  ...cluster.settings,
})

/** Starts the server in its own session: it outlives this process, gets no Ctrl-C of the terminal, and inherits no descriptors. */
export async function startServer(cluster: Cluster): Promise<Server> {
  await removeForeignLocks(cluster)
  const log = await openLogFile(cluster)
  const { size: start } = await log.stat()
  const flags = Object.entries(settings(cluster, await sizeSharedBuffers(cluster.folder))).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const binaries = await cluster.binaries()
  const child = spawn(join(binaries.folder, 'bin', 'postgres'), [...flags, '-D', cluster.folder], {
    detached: true,
    stdio: ['ignore', ...Array.from({ length: await highestInherited() }, () => log.fd)],
    env: environmentOf(binaries),
    cwd: '/',
    uid: cluster.account?.uid,
    gid: cluster.account?.gid,
  })
  let failure: Error | undefined
  child.once('error', (error) => {
    failure = explainUnusable(error as NodeJS.ErrnoException, binaries) ?? error
  })
  child.unref()
  await log.close()
  return {
    async isStarting() {
      if (failure) throw failure
      if (child.exitCode === null && child.signalCode === null) return true
      const output = (await readFile(cluster.logFile)).subarray(start).toString()
      // Another server starts or stops, or its last child processes still run.
      if (child.exitCode === 0 || /lock file ".*" (already exists|is empty)|pre-existing shared memory block/.test(output)) return false
      throw new Error(
        `PostgreSQL did not start (${child.signalCode ?? `exit ${child.exitCode}`})${await spaceLeft(cluster)}: ${lastLines(output)}`,
      )
    },
  }
}

/** Stops the server, which closes its connections and loses nothing. Returns whether it has ended within `timeoutMs`. */
export async function stopServer(cluster: Pick<Cluster, 'folder'>, timeoutMs: number): Promise<boolean> {
  const pid = await serverPid(cluster)
  if (pid === undefined) return true
  process.kill(pid, 'SIGINT')
  for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await sleep(20)) {
    if (!(await isServer(pid, cluster))) return true
  }
  return false
}

/** Returns the pid of the server of this folder, which may be starting or stopping. */
export async function serverPid(cluster: Pick<Cluster, 'folder'>): Promise<number | undefined> {
  const pid = await pidIn(join(cluster.folder, 'postmaster.pid'))
  return pid !== undefined && (await isServer(pid, cluster)) ? pid : undefined
}

async function pidIn(file: string): Promise<number | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return Number.parseInt(text, 10) || undefined
}

/** Removes lock files that name another program. After a reboot PostgreSQL would take its pid for a running server, and never start again. */
async function removeForeignLocks(cluster: Cluster): Promise<void> {
  for (const file of [join(cluster.folder, 'postmaster.pid'), join(cluster.socketFolder, `.s.PGSQL.${port}.lock`)]) {
    const stats = await stat(file).catch(() => undefined)
    if (!stats) continue
    const pid = await pidIn(file)
    // An empty file: its process is about to write the pid, or died before that.
    const isForeign = pid === undefined ? Date.now() - stats.mtimeMs > emptyLockMs : await isOtherProgram(pid, cluster)
    // If the pid has changed, a server has just started.
    if (isForeign && (await pidIn(file)) === pid) await rm(file, { force: true })
  }
}

/** Returns whether a pid is of another program. False if no process has it: PostgreSQL itself looks for orphans of a crashed server. */
async function isOtherProgram(pid: number, cluster: Cluster): Promise<boolean> {
  return (await commandOf(pid)).length > 0 && !(await isServer(pid, cluster))
}

async function isServer(pid: number, cluster: Pick<Cluster, 'folder'>): Promise<boolean> {
  const command = await commandOf(pid)
  const folder = command[command.indexOf('-D') + 1]
  if (!command[0]?.endsWith('postgres') || !folder) return false
  // By inode, not by name: a folder may be mounted twice.
  const [theirs, ours] = await Promise.all([stat(folder).catch(() => undefined), stat(cluster.folder)])
  return theirs ? theirs.dev === ours.dev && theirs.ino === ours.ino : folder === cluster.folder
}

/** Returns the program and arguments of a process; empty if it does not exist or is a zombie. */
async function commandOf(pid: number): Promise<string[]> {
  if (process.platform === 'linux') {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return line.split('\0').filter((word) => word !== '')
  }
  const line = await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).then(
    ({ stdout }) => stdout.trim(),
    () => '',
  )
  const [, program, folder] = /^(.*?\/postgres) .*-D (.*)$/s.exec(line) ?? []
  return program && folder ? [program, '-D', folder] : line === '' || line.includes('<defunct>') ? [] : [line]
}

async function openLogFile({ logFile, account }: Cluster) {
  // O_NOFOLLOW: the owner of the data folder must not make root write elsewhere.
  const log = await open(logFile, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  await limitSize(log)
  if (account) await log.chown(account.uid, account.gid)
  return log
}

/** Empties the log of a running server when it is too large. The server appends to it. */
export async function limitLog({ logFile }: Pick<Cluster, 'logFile'>): Promise<void> {
  const log = await open(logFile, constants.O_WRONLY | constants.O_NOFOLLOW)
  await limitSize(log).finally(() => log.close())
}

async function limitSize(log: FileHandle): Promise<void> {
  const { size } = await log.stat()
  if (size > maxLogBytes) await log.truncate()
}

/**
 * Returns the highest descriptor that a child process would inherit, at least 2. Descriptors above 2 come from the parent, such as the lock
 * of `flock … dms`, which the server would hold as long as it runs. The log file replaces all of them.
 */
async function highestInherited(): Promise<number> {
  const closeOnExec = 0o2000000
  let highest = 2
  for (const descriptor of await readdir('/proc/self/fdinfo').catch(() => [])) {
    const info = await readFile(`/proc/self/fdinfo/${descriptor}`, 'utf8').catch(() => '')
    const flags = /^flags:\s+(\d+)/m.exec(info)?.[1]
    if (flags && !(Number.parseInt(flags, 8) & closeOnExec)) highest = Math.max(highest, Number(descriptor))
  }
  return highest
}

async function spaceLeft({ dataDir }: Cluster): Promise<string> {
  const { bavail, bsize } = await statfs(dataDir)
  const megabytes = Math.floor((bavail * bsize) / 1e6)
  return megabytes < 50 ? ` (${megabytes} MB left on the disk of ${dataDir})` : ''
}
