import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import type { Log } from '../../log/log.ts'
import { removeOtherBinaries } from './binaries.ts'
import { type Cluster, openCluster, port } from './cluster.ts'
import { type Server, serverPid, startServer, stopServer } from './process.ts'
import { applicationRole, database, ownerRole, prepareDatabase, superuser } from './roles.ts'

/** The PostgreSQL that dms brings along, up and running until the last of its owners has released it. */
export interface EmbeddedPostgres {
  /** of the application's role */
  readonly connection: EmbeddedAddress
  /** of the role that owns the tables */
  readonly ownerConnection: EmbeddedAddress
  /** of the superuser: for tests and benchmarks, which make databases */
  readonly superuserConnection: EmbeddedAddress
  /** of the running server, such as 18.4 */
  readonly version: string
  /** Leaves it, and stops it when nobody else is in. Never throws. Close your own connections first. */
  release(): Promise<void>
}

/** `host` is the folder of its unix socket; there is no password, the socket is private */
export interface EmbeddedAddress {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
}

/** Held shared by every owner; whoever gets it for itself alone is the last one. */
const ownership = 6_581_619
/** Held while looking for the database and making it. */
const preparation = 6_581_620

const stopTimeoutMs = 60_000

/**
 * Starts the PostgreSQL below `<dataDir>/postgres` (made first where there is none), or joins it where another process has it running.
 * Should the server crash later, it is started again. `startTimeout` (ms, 60,000 unless told) bounds one start, recovery included.
 * Throws ConfigError where this machine or folder cannot run it, and Error with the server's last words where it does not come up.
 */
export async function joinEmbedded(options: { dataDir: string; log: Log; startTimeoutMs?: number }): Promise<EmbeddedPostgres> {
  const { dataDir, log, startTimeoutMs: startTimeout = 60_000 } = options
  const leaving = new AbortController()
  const cluster = await openCluster(dataDir)
  let owner = await acquire(cluster, startTimeout, log, leaving.signal)
  let rejoining: Promise<void> | undefined
  watch()

  /** Without its connection an owner counts as gone, and the next to leave would stop the server under it. */
  function watch(): void {
    void owner.lost.then(() => {
      if (leaving.signal.aborted) return
      log.warn('lost the connection to PostgreSQL, joining it again')
      rejoining = rejoin()
    })
  }

  async function rejoin(): Promise<void> {
    for (let pause = 100; !leaving.signal.aborted; pause = Math.min(2 * pause, 30_000)) {
      try {
        owner = await acquire(cluster, startTimeout, log, leaving.signal)
        rejoining = undefined
        return watch()
      } catch (error) {
        if (leaving.signal.aborted) return
        log.error({ err: error }, 'PostgreSQL does not come back, trying again')
        await sleep(pause, undefined, { signal: leaving.signal }).catch(() => undefined)
      }
    }
  }

  async function leave(): Promise<void> {
    leaving.abort()
    try {
      await rejoining
      const last = rejoining ? await connectAsOwner(cluster, startTimeout) : owner
      if (last) await leaveServer(last.client, cluster, log)
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
  /** its connection has ended; kept from the start, because it may be lost before anybody watches */
  readonly lost: Promise<void>
}

/** Becomes an owner, whatever it takes: starts the server, waits for it, or waits until one that is stopping is gone and starts again. */
async function acquire(cluster: Cluster, timeout: number, log: Log, signal: AbortSignal): Promise<Owner> {
  const start = performance.now()
  const elapsedMs = () => performance.now() - start
  let server: Server | undefined
  for (; elapsedMs() < timeout; await sleep(Math.min(10 + elapsedMs() / 10, 250))) {
    const owner = await connectAsOwner(cluster, timeout - elapsedMs())
    if (owner) {
      log.debug({ ms: Math.round(elapsedMs()), version: owner.version }, server ? 'started PostgreSQL' : 'joined PostgreSQL')
      if (server) await removeOtherBinaries(cluster.dataDir, cluster.binaries).catch(() => undefined)
      return owner
    }
    if (server && (await server.isStarting())) continue
    signal.throwIfAborted()
    server = (await serverPid(cluster)) === undefined ? await startServer(cluster) : undefined
  }
  throw new Error(
    `PostgreSQL did not answer on ${cluster.socketFolder} within ${timeout} ms (a recovery after a crash goes on; see ${cluster.logFile})`,
  )
}

/** Connects and takes its share of the ownership; null where no server takes us right now. */
async function connectAsOwner(cluster: Cluster, timeoutMs: number): Promise<Owner | null> {
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
  // The lock is in this database, so that the one of dms can be dropped and restored while the server is held.
  const client = new Client({ ...address, database: 'postgres' })
  // an idle client that is cut off emits this; what follows is done on 'end'
  client.on('error', () => undefined)
  const lost = new Promise<void>((resolve) => client.once('end', resolve))
  try {
    await client.connect()
    await client.query('select pg_advisory_lock_shared($1)', [ownership])
    await client.query('select pg_advisory_lock($1)', [preparation])
    await prepareDatabase(client, address)
    await client.query('select pg_advisory_unlock($1)', [preparation])
    const { rows } = await client.query<{ server_version: string }>('show server_version')
    return { client, version: rows[0]!.server_version, lost }
  } catch (error) {
    client.end().catch(() => undefined)
    if (isTransient(error)) return null
    throw error
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

/** starting, stopping, crashed, full or held by one that stops it; no socket, or nobody behind it */
const transientCodes = new Set(['55P03', '57P01', '57P02', '57P03', '53300', 'ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EAGAIN'])

function isTransient(error: unknown): boolean {
  const { code, message } = error as { code?: string; message: string }
  return code === undefined ? /^Connection terminated|timeout expired/.test(message) : transientCodes.has(code)
}
