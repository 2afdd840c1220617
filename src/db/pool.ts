/** Connections to PostgreSQL: a pool under kysely, pipelined connections for short reads, and single connections. */
import { readFile } from 'node:fs/promises'
import { Kysely, type KyselyConfig, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import type { Config } from '../config/schema.ts'
import { AppError } from '../errors.ts'
import type { Log } from '../log/log.ts'
import { type Hosts, openHosts, ReadOnlyHost } from './hosts.ts'
import { openPipeline } from './pipeline.ts'
import { pooled } from './pooled.ts'
import { openPrepared } from './prepared.ts'
import type { Schema } from './schema.ts'
import { destroyWhenStalled, type TrackingClient } from './stalled-connection.ts'

export type Db = Kysely<Schema>
/** A transaction. Functions take it if their work is part of the caller's transaction. */
export type Trx = Transaction<Schema>

export type Address = Pick<pg.ClientConfig, 'connectionString' | 'host' | 'port' | 'user' | 'database' | 'ssl'>

export interface DatabaseOptions {
  address: Address
  poolMax: number
  connectTimeoutMs: number
  /** 0: no timeout */
  statementTimeoutMs: number
  log: Log
}

export interface Database {
  readonly db: Db
  /** Pipelined: short reads of single small rows, at several times the rate of the pool. No transactions. */
  readonly reads: Db
  /** Pipelined: authentication. */
  readonly auth: Db
  /** Pipelined: pages of lists. */
  readonly lists: Db
  /** Pipelined: parts of long texts. */
  readonly texts: Db
  /** For searches: every statement is prepared, and planned once per connection for any values. No transactions. */
  readonly prepared: Db
  /** Opens a single connection with `name` as its application_name. The caller ends it. */
  connect(name: string): Promise<pg.Client>
  close(): Promise<void>
}

/** Maximum statement timeout of a pipelined read, which delays the reads behind it. */
const readTimeoutMs = 10_000
/** Time after which PostgreSQL ends a transaction whose process is frozen, because others wait for its locks. */
const idleTransactionTimeoutMs = 30_000
/** Time after the statement timeout until a silent connection counts as stalled. */
const stallGraceMs = 1000

const int8 = 20
const date = 1082
const timestamptz = 1184
const parseAnyTimestamp = pg.types.getTypeParser(timestamptz, 'text') as (text: string) => Date

/** Parses `2026-01-31 12:30:00.123456+00` as ISO 8601, in half the time of pg's parser (0.28 µs; a list of twenty documents has sixty). */
const parseTimestamp = (text: string): Date =>
  text[10] === ' ' && text.endsWith('+00') ? new Date(`${text.slice(0, 10)}T${text.slice(11, -3)}Z`) : parseAnyTimestamp(text)

/** Sizes and counters stay far below 2^53, so int8 becomes a number. */
const parsers = new Map<number, (text: string) => unknown>([
  [int8, Number],
  // A day without a time zone.
  [date, String],
  [timestamptz, parseTimestamp],
])

export const typeParsers = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => parsers.get(oid) ?? pg.types.getTypeParser(oid, format as 'text'),
} as pg.CustomTypesConfig

/** Returns the address of a URL, with the configured certificate. */
export async function loadAddress({ ssl_ca }: Config['database'], connectionString: string): Promise<Address> {
  return { connectionString, ...(ssl_ca === '' ? {} : { ssl: { ca: await readFile(ssl_ca, 'utf8') } }) }
}

/** Opens the pool. It connects at the first query. */
export function openDatabase({ address, poolMax, connectTimeoutMs, statementTimeoutMs, log }: DatabaseOptions): Database {
  const hosts = openHosts(address.connectionString)
  const common = { ...address, types: typeParsers, connectionTimeoutMillis: connectTimeoutMs, keepAlive: true }
  const pool = new pg.Pool({
    ...common,
    Client: hosts.Client as typeof TrackingClient,
    max: poolMax,
    application_name: 'dms',
    statement_timeout: statementTimeoutMs || undefined,
    idle_in_transaction_session_timeout: idleTransactionTimeoutMs,
  })
  // Emitted when a connection is lost between two queries of a transaction. Without a listener the process would end.
  const watch = (client: pg.PoolClient) => {
    client.on('error', () => {})
    if (statementTimeoutMs > 0) watchPooled(client as unknown as TrackingClient, statementTimeoutMs + stallGraceMs, hosts, common)
  }
  pool.on('connect', watch)
  let isClosing = false
  // The pool does not wait until its connections are closed: a server that this process stops ends them first.
  const onLost = (error: Error): void => {
    if (!isClosing) log.warn({ err: error.message }, 'an idle database connection was lost')
  }
  pool.on('error', onLost)
  const statement_timeout = Math.min(readTimeoutMs, statementTimeoutMs || readTimeoutMs)
  const logQuery = traceQueries(log)
  const settings = { ...common, statement_timeout }
  const pipeline = (name: string) =>
    openPipeline({ name, settings, hosts, log, logQuery, stallTimeoutMs: statement_timeout + stallGraceMs })
  const pipelines = { reads: pipeline('dms reads'), auth: pipeline('dms auth'), lists: pipeline('dms lists'), texts: pipeline('dms texts') }
  const prepared = openPrepared({ ...common, statement_timeout: statementTimeoutMs || undefined }, hosts, watch, onLost)
  return {
    db: new Kysely<Schema>({ dialect: new PostgresDialect({ pool: pooled(pool, hosts) }), ...logQuery }),
    ...pipelines,
    prepared: new Kysely<Schema>({ dialect: new PostgresDialect({ pool: prepared }), ...logQuery }),
    async connect(name) {
      return hosts.retry(async () => {
        const client = new hosts.Client({ ...common, application_name: name })
        client.on('error', (error) => log.warn({ err: error.message, connection: name }, 'a database connection was lost'))
        await client.connect()
        return client
      })
    },
    close: async () => {
      isClosing = true
      for (const pipelined of Object.values(pipelines)) await pipelined.destroy()
      await Promise.all([pool.end(), prepared.end()])
    },
  }
}

/** Logs statements at level trace, without their values, which may be secret. */
function traceQueries(log: Log): Pick<KyselyConfig, 'log'> {
  if (!log.isLevelEnabled('trace')) return {}
  return { log: ({ query, queryDurationMillis }) => log.trace({ sql: query.sql, duration_ms: Math.round(queryDurationMillis) }, 'query') }
}

/** Destroys a pooled connection when it stalls. A query without statement timeout, as of a migration, may take longer. */
function watchPooled(client: TrackingClient, timeoutMs: number, hosts: Hosts, settings: pg.ClientConfig): void {
  const backend = client.query<{ pid: number }>('select pg_backend_pid() as pid').catch(() => null)
  destroyWhenStalled(client, timeoutMs, async () => {
    const pid = (await backend)?.rows[0]?.pid
    return pid !== undefined && isBusy(hosts, settings, pid)
  })
}

/** Returns whether PostgreSQL is executing a query of the backend `pid`. Throws if PostgreSQL does not answer. */
async function isBusy({ Client }: Hosts, settings: pg.ClientConfig, pid: number): Promise<boolean> {
  const other = new Client({ ...settings, application_name: 'dms', query_timeout: settings.connectionTimeoutMillis })
  other.on('error', () => {})
  try {
    await other.connect()
    return (await other.query(`select from pg_stat_activity where pid = $1 and state <> 'idle'`, [pid])).rowCount === 1
  } finally {
    other.end().catch(() => {})
  }
}

export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505' && (constraint === undefined || error.constraint === constraint)

/** Runs `write`; throws DUPLICATE_RESOURCE with `message` on a unique violation. */
export async function rejectDuplicateName<T>(write: () => Promise<T>, message: string): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (isUniqueViolation(error)) throw new AppError('DUPLICATE_RESOURCE', { field: 'name' }, message)
    throw error
  }
}

export const isForeignKeyViolation = (error: unknown): boolean => error instanceof pg.DatabaseError && error.code === '23503'

/** Returns the JSON detail of an error from the retention triggers; null for any other error. */
export const retentionDetail = (error: unknown): Record<string, unknown> | null =>
  error instanceof pg.DatabaseError && error.code === 'DM001' ? (error.detail ? JSON.parse(error.detail) : {}) : null

/** Returns whether an error of a transaction proves that nothing was committed. */
export const isRolledBack = (error: unknown): boolean => error instanceof pg.DatabaseError && !isUnavailable(error)

/** Returns whether a write was refused because the database is read-only. */
export const isReadOnly = (error: unknown): boolean => error instanceof pg.DatabaseError && error.code === '25006'

const networkErrors = new Set(
  'ECONNREFUSED ECONNRESET ECONNABORTED EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN EPIPE ETIMEDOUT ENOTFOUND EAI_AGAIN'.split(' '),
)
const lostConnection =
  /Connection terminated|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error/

/** Returns whether the database is unavailable: SQLSTATE classes 08, 40, 53 and 57, 25006 (read-only), a read-only host, or a network error. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(08|40|53|57)/.test(error.code ?? '') || isReadOnly(error)
  if (error instanceof ReadOnlyHost) return true
  const { code = '', message, syscall } = error as NodeJS.ErrnoException
  // Only the connection to a Unix socket: the ENOENT of any other call is about a file.
  if (code === 'ENOENT') return syscall === 'connect'
  return networkErrors.has(code) || lostConnection.test(message ?? '')
}
