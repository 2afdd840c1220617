/** The embedded PostgreSQL: processes share one server, and the last one stops it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, DatabaseError } from 'pg'
import type { Log } from '../../log/log.ts'
import { removeOtherBinaries } from './binaries.ts'
import { type Cluster, type ClusterOptions, openCluster, port } from './cluster.ts'
import { limitLog, type Server, serverPid, startServer, stopServer } from './process.ts'
import { applicationRole, database, ownerRole, prepareDatabase, superuser } from './roles.ts'

export interface EmbeddedPostgres {
  /** connection with the role of the application */
  readonly connection: EmbeddedAddress
  /** connection with the role that owns the tables */
  readonly ownerConnection: EmbeddedAddress
  /** connection as superuser, for tests and benchmarks that create databases */
  readonly superuserConnection: EmbeddedAddress
  /** version of the running server, such as 18.4 */
  readonly version: string
  /** Stops the server if no other process uses it. Never throws. Close your own connections first. */
  release(): Promise<void>
}

/** `host` is the folder of the Unix socket. There is no password: the socket is private. */
export interface EmbeddedAddress {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
}

/** Advisory lock that each owner holds shared. The last owner can lock it exclusively. */
const ownership = 6_581_619
/** Advisory lock during the creation of the database. */
const preparation = 6_581_620

const stopTimeoutMs = 60_000
const logCheckIntervalMs = 600_000

/**
 * Joins the PostgreSQL of `<dataDir>/postgres`: creates the cluster and starts the server if needed, and starts it again after a crash.
 * `startTimeoutMs` bounds one start; recovery after a crash does not count. Throws ConfigError if this machine or folder cannot run it, and Error with the end of
 * the server's log if it does not start. Throws DatabaseOutdated for data of an older major version.
 */
export async function joinEmbedded(
  options: { dataDir: string; log: Log; startTimeoutMs?: number } & ClusterOptions,
): Promise<EmbeddedPostgres> {
  const { dataDir, log, startTimeoutMs = 60_000 } = options
  const leaving = new AbortController()
  const cluster = await openCluster(dataDir, options)
  let owner = await acquire(cluster, startTimeoutMs, log, leaving.signal)
  let rejoining: Promise<void> | undefined
  const logTimer = setInterval(() => void limitLog(cluster).catch(() => undefined), logCheckIntervalMs).unref()
  watch()

  /** Watches the connection. An owner without its connection counts as gone, and the next owner to leave would stop the server. */
  function watch(): void {
    void owner.lost.then(() => {
      if (leaving.signal.aborted) return
      log.warn('lost the connection to PostgreSQL, joining it again')
      rejoining = rejoin()
    })
  }

  async function rejoin(): Promise<void> {
    for (let delayMs = 100; !leaving.signal.aborted; delayMs = Math.min(2 * delayMs, 30_000)) {
      try {
        owner = await acquire(cluster, startTimeoutMs, log, leaving.signal)
        rejoining = undefined
        return watch()
      } catch (error) {
        if (leaving.signal.aborted) return
        log.error({ err: error }, 'PostgreSQL does not come back, trying again')
        await sleep(delayMs, undefined, { signal: leaving.signal }).catch(() => undefined)
      }
    }
  }

  async function leave(): Promise<void> {
    leaving.abort()
    clearInterval(logTimer)
    try {
      await rejoining
      const last = rejoining ? await connectAsOwner(cluster, startTimeoutMs) : owner
      if (typeof last === 'object') await leaveServer(last.client, cluster, log)
    } catch (error) {
      log.debug({ err: error }, 'PostgreSQL was gone before it was left')
    }
  }

  let left: Promise<void> | undefined
  const addressOf = (user: string): EmbeddedAddress => ({ host: cluster.socketFolder, port, user, database })
  return {
    connection: addressOf(applicationRole),
    ownerConnection: addressOf(ownerRole),
    superuserConnection: addressOf(superuser),
    version: owner.version,
    release: () => (left ??= leave()),
  }
}

interface Owner {
  readonly client: Client
  readonly version: string
  /** Resolves when its connection has ended, which may be before watch(). */
  readonly lost: Promise<void>
}

/** Becomes an owner. Starts the server if none runs, and waits while one starts or stops. */
async function acquire(cluster: Cluster, timeoutMs: number, log: Log, signal: AbortSignal): Promise<Owner> {
  let start = performance.now()
  const elapsedMs = () => performance.now() - start
  let server: Server | undefined
  for (; elapsedMs() < timeoutMs; await sleep(Math.min(10 + elapsedMs() / 10, 250))) {
    const owner = await connectAsOwner(cluster, timeoutMs - elapsedMs(), { isStarter: server !== undefined })
    if (typeof owner === 'object') {
      log.debug({ ms: Math.round(elapsedMs()), version: owner.version }, server ? 'started PostgreSQL' : 'joined PostgreSQL')
      if (server) await removeOtherBinaries(cluster.dataDir, await cluster.binaries()).catch(() => undefined)
      return owner
    }
    // A recovery may take longer than any limit, and a new attempt would not be faster.
    if (owner === 'starting' && elapsedMs() > timeoutMs / 2) {
      signal.throwIfAborted()
      log.warn({ log: cluster.logFile }, 'PostgreSQL is still starting, waiting for it')
      start = performance.now()
    }
    if (server && (await server.isStarting())) continue
    signal.throwIfAborted()
    // It recovers or stops. If it is in another container, its pid is unknown here, and PostgreSQL takes its lock file for a stale one.
    if (owner !== 'absent') continue
    server = (await serverPid(cluster)) === undefined ? await startServer(cluster) : undefined
  }
  throw new Error(`PostgreSQL did not answer on ${cluster.socketFolder} within ${timeoutMs} ms (see ${cluster.logFile})`)
}

/**
 * Connects to the server and takes the ownership lock. Otherwise returns its state: `starting` also while it recovers or stops, `refusing` if it
 * accepts no connection for another reason, `absent` if none listens. `isStarter`: prepares the database even if it exists.
 */
async function connectAsOwner(
  cluster: Cluster,
  timeoutMs: number,
  { isStarter = false } = {},
): Promise<Owner | 'starting' | 'refusing' | 'absent'> {
  const address = {
    host: cluster.socketFolder,
    port,
    user: superuser,
    ssl: false,
    application_name: `dms owner pid=${process.pid}`,
    keepAlive: true,
    connectionTimeoutMillis: Math.ceil(timeoutMs),
    lock_timeout: Math.ceil(timeoutMs),
  }
  // Not in the database of dms, which can be dropped and restored meanwhile.
  const client = new Client({ ...address, database: 'postgres' })
  // An idle client emits it when its connection is lost. watch() handles 'end'.
  client.on('error', () => undefined)
  const lost = new Promise<void>((resolve) => client.once('end', resolve))
  try {
    await client.connect()
    await client.query('select pg_advisory_lock_shared($1)', [ownership])
    const { rows } = await client.query<{ version: string; is_prepared: boolean }>(
      `select current_setting('server_version') as version, count(*) = 2 and exists (select from pg_database where datname = $1) as is_prepared
       from pg_roles where rolname in ($2, $3)`,
      [database, ownerRole, applicationRole],
    )
    const { version, is_prepared } = rows[0]!
    if (isStarter || !is_prepared) {
      await client.query('select pg_advisory_lock($1)', [preparation])
      await prepareDatabase(client, address)
      await client.query('select pg_advisory_unlock($1)', [preparation])
    }
    return { client, version, lost }
  } catch (error) {
    client.end().catch(() => undefined)
    if (!isTransient(error)) throw error
    if (!(error instanceof DatabaseError)) return 'absent'
    return error.code === '57P03' ? 'starting' : 'refusing'
  }
}

async function leaveServer(client: Client, cluster: Cluster, log: Log): Promise<void> {
  try {
    await client.query('select pg_advisory_unlock_shared($1)', [ownership])
    const { rows } = await client.query<{ last: boolean }>('select pg_try_advisory_lock($1) as last', [ownership])
    if (!rows[0]?.last) return
    const isGone = await stopServer(cluster, stopTimeoutMs)
    if (!isGone) log.warn({ log: cluster.logFile }, 'PostgreSQL is still writing, it stops by itself')
  } finally {
    client.end().catch(() => undefined)
  }
}

/** Codes of a server that starts, stops, has crashed, is full or is about to be stopped; no socket, or nobody listens on it. */
const transientCodes = new Set(['55P03', '57P01', '57P02', '57P03', '53300', 'ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAGAIN'])

function isTransient(error: unknown): boolean {
  const { code, message } = error as { code?: string; message: string }
  return code === undefined
    ? /^Connection terminated|timeout expired|encountered a connection error/.test(message)
    : transientCodes.has(code)
}
