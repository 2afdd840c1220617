/** The standbys of database.read_url, and the positions of a primary and a standby in the write-ahead log. */
import { sql } from 'kysely'
import type { Config } from '../config/schema.ts'
import type { Log } from '../log/log.ts'
import { splitHosts } from './hosts.ts'
import { type Database, type Db, loadAddress, openDatabase } from './pool.ts'

export interface Replica extends Pick<Database, 'db' | 'reads'> {
  readonly database: Database
  /** '' for a socket of this machine */
  readonly host: string
}

/** Opens a pool for each host of database.read_url, because each host has its own lag. A pool connects at its first query. */
export async function openReplicas(config: Config['database'], log: Log): Promise<Replica[]> {
  const { read_url, pool_max: poolMax, connect_timeout: connectTimeoutMs, statement_timeout: statementTimeoutMs } = config
  const open = async (url: string): Promise<Replica> => {
    const address = await loadAddress(config, url)
    const database = openDatabase({ address, poolMax, connectTimeoutMs, statementTimeoutMs, log })
    return { db: database.db, reads: database.reads, database, host: new URL(url).host }
  }
  return read_url === '' ? [] : Promise.all(splitHosts(read_url).map(open))
}

export interface Position {
  /** bytes of WAL */
  wal: number
  /** The newest heartbeat of a server, in microseconds since 1970. A standby that does not follow this primary lacks this heartbeat. */
  heartbeat: number
}

const newestHeartbeat = sql<number>`(select coalesce(extract(epoch from max(seen_at)) * 1000000, 0)::bigint from servers)`

/** Returns the position of a primary, which every durable commit precedes. */
export async function loadPrimary(db: Db): Promise<Position> {
  const { rows } = await sql<Position>`
    select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as wal, ${newestHeartbeat} as heartbeat`.execute(db)
  return rows[0]!
}

/** Returns the position up to which a standby has replayed; null if it is no standby. */
export async function loadStandby(db: Db): Promise<{ wal: number | null; heartbeat: number }> {
  const { rows } = await sql<{ wal: number | null; heartbeat: number }>`
    select case when pg_is_in_recovery() then pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint end as wal,
      ${newestHeartbeat} as heartbeat`.execute(db)
  return rows[0]!
}
