import { execFile, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { open, readdir, readFile, rm, stat, statfs } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Cluster, environment, explainUnusable, lastLines, port } from './cluster.ts'

/** A server that we have started. */
export interface Server {
  /** Throws where it ended for good; false where it ended because another one is there or was; else true. */
  isStarting(): Promise<boolean>
}

const maxLogBytes = 10_000_000

/** On the command line, so that a new dms brings new settings, and so that no file makes the database less durable or opens a port. */
const settings = (cluster: Cluster): Record<string, string | number> => ({
  listen_addresses: '',
  port,
  unix_socket_directories: `"${cluster.socketFolder.replaceAll('"', '""')}"`,
  unix_socket_permissions: '0700',
  fsync: 'on',
  full_page_writes: 'on',
  synchronous_commit: 'on',
  wal_compression: 'on',
  // Nobody copies its log: what is made in one go, as an index is, need not be in there.
  wal_level: 'minimal',
  max_wal_senders: 0,
  max_connections: 100,
  shared_buffers: `${sharedBuffers()}MB`,
  work_mem: '8MB',
  maintenance_work_mem: '128MB',
  random_page_cost: 1.1,
  // What is read is nearly always in the system's cache: to have another process read it costs more than to read it.
  io_method: 'sync',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
})

/** In MB: a quarter of the memory that there is for us, of what is beyond 2 GB two fifths, and no more than 8 GB. What PostgreSQL does not hold itself it copies from the system's cache, page by page, each time that it is needed. */
function sharedBuffers(): number {
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / 2 ** 20
  return Math.round(Math.min(8192, Math.max(32, memory / 4, 0.4 * (memory - 2048))))
}

/** Starts the server in a session of its own: it outlives us, hears no Ctrl-C of our terminal and holds none of our descriptors. */
export async function startServer(cluster: Cluster): Promise<Server> {
  await removeForeignLocks(cluster)
  const log = await openLogFile(cluster)
  const { size: start } = await log.stat()
  const flags = Object.entries(settings(cluster)).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const child = spawn(join(cluster.binaries.folder, 'bin', 'postgres'), [...flags, '-D', cluster.folder], {
    detached: true,
    stdio: ['ignore', ...Array.from({ length: await highestInherited() }, () => log.fd)],
    env: environment,
    cwd: '/',
    uid: cluster.account?.uid,
    gid: cluster.account?.gid,
  })
  let failure: Error | undefined
  child.once('error', (error) => {
    failure = explainUnusable(error as NodeJS.ErrnoException, cluster.binaries) ?? error
  })
  child.unref()
  await log.close()
  return {
    async isStarting() {
      if (failure) throw failure
      if (child.exitCode === null && child.signalCode === null) return true
      const output = (await readFile(cluster.logFile)).subarray(start).toString()
      // the other one is still on its way up or down, or its last children are
      if (child.exitCode === 0 || /lock file ".*" (already exists|is empty)|pre-existing shared memory block/.test(output)) return false
      throw new Error(
        `PostgreSQL did not start (${child.signalCode ?? `exit ${child.exitCode}`})${await spaceLeft(cluster)}: ${lastLines(output)}`,
      )
    },
  }
}

/** Asks the server to end (connections are cut, nothing is lost) and waits, at most `patience` ms; false where it is not gone by then. */
export async function stopServer(cluster: Cluster, timeoutMs: number): Promise<boolean> {
  const pid = await serverPid(cluster)
  if (pid === undefined) return true
  process.kill(pid, 'SIGINT')
  for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await sleep(20)) {
    if (!(await isServer(pid, cluster))) return true
  }
  return false
}

/** The process that serves this folder, or is about to, or is on its way out. */
export async function serverPid(cluster: Cluster): Promise<number | undefined> {
  const pid = await pidIn(join(cluster.folder, 'postmaster.pid'))
  return pid !== undefined && (await isServer(pid, cluster)) ? pid : undefined
}

async function pidIn(file: string): Promise<number | undefined> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return Number.parseInt(text, 10) || undefined
}

/** After a crash and a reboot a lock's number may be some other program's: PostgreSQL takes that for itself and would never start again. */
async function removeForeignLocks(cluster: Cluster): Promise<void> {
  for (const file of [join(cluster.folder, 'postmaster.pid'), join(cluster.socketFolder, `.s.PGSQL.${port}.lock`)]) {
    const found = await stat(file).catch(() => undefined)
    if (!found) continue
    const pid = await pidIn(file)
    // empty: its maker died between making and writing it, or is at it right now
    const isForeign = pid === undefined ? Date.now() - found.mtimeMs > 5_000 : await isOtherProgram(pid, cluster)
    // a number that changed meanwhile is a server that has just come up
    if (isForeign && (await pidIn(file)) === pid) await rm(file, { force: true })
  }
}

/** A lock of nobody is left to PostgreSQL, which also looks for the orphans of its crashed server. */
async function isOtherProgram(pid: number, cluster: Cluster): Promise<boolean> {
  return (await commandOf(pid)).length > 0 && !(await isServer(pid, cluster))
}

async function isServer(pid: number, cluster: Cluster): Promise<boolean> {
  const command = await commandOf(pid)
  const folder = command[command.indexOf('-D') + 1]
  if (!command[0]?.endsWith('postgres') || !folder) return false
  // compared as places, not as names: the same folder may be mounted twice
  const [theirs, ours] = await Promise.all([stat(folder).catch(() => undefined), stat(cluster.folder)])
  return theirs ? theirs.dev === ours.dev && theirs.ino === ours.ino : folder === cluster.folder
}

/** Program and arguments; empty where there is no such process, or only its remains. */
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
  // whoever owns the data folder must not make root write elsewhere
  const log = await open(logFile, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  const { size } = await log.stat()
  if (size > maxLogBytes) await log.truncate()
  if (account) await log.chown(account.uid, account.gid)
  return log
}

/**
 * The highest descriptor that a child of ours would inherit, at least 2. Above 2 that is what our own starter left open, such as the lock
 * of `flock … dms`, which would stay locked as long as the server runs: the log takes the place of all of them.
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
