/** Connections to PostgreSQL: a pool under kysely, pipelined connections for short reads, and single connections. */
import { Kysely, type KyselyConfig, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { AppError } from '../errors.ts'
import type { Log } from '../log/log.ts'
import { KeepingClient } from './cached-plans.ts'
import { openPipeline } from './pipeline.ts'
import type { Schema } from './schema.ts'
import { destroyWhenStalled, type TrackingClient } from './stalled-connection.ts'
import { typeParsers } from './value-parsers.ts'

export type Db = Kysely<Schema>
/** A transaction. Functions take it where their work commits or rolls back with the caller's. */
export type Trx = Transaction<Schema>

export type Address = Pick<pg.ClientConfig, 'connectionString' | 'host' | 'port' | 'user' | 'database' | 'ssl'>

export interface DatabaseOptions {
  address: Address
  /** connections of the pool */
  poolMax: number
  /** milliseconds */
  connectTimeoutMs: number
  /** milliseconds; 0: none */
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
  /** Opens a single connection with `name` as its application_name. The caller ends it. */
  connect(name: string): Promise<pg.Client>
  close(): Promise<void>
}

/** A pipelined read that takes longer would delay those behind it. */
const readTimeoutMs = 10_000
/** Time after the statement timeout, by which PostgreSQL would have reported it. */
const stallGraceMs = 1000

/** Opens the pool. It connects at the first query. */
export function openDatabase({ address, poolMax, connectTimeoutMs, statementTimeoutMs, log }: DatabaseOptions): Database {
  const common = { ...address, types: typeParsers, connectionTimeoutMillis: connectTimeoutMs, keepAlive: true }
  const pool = new pg.Pool({
    ...common,
    Client: KeepingClient,
    max: poolMax,
    application_name: 'dms',
    statement_timeout: statementTimeoutMs || undefined,
  })
  // A connection that is lost between two queries of a transaction reports it here. Without a listener the process would end.
  pool.on('connect', (client) => {
    client.on('error', () => {})
    if (statementTimeoutMs > 0) watchPooled(client as unknown as TrackingClient, statementTimeoutMs + stallGraceMs, common)
  })
  pool.on('error', (error) => log.warn({ err: error.message }, 'an idle database connection was lost'))
  const statement_timeout = Math.min(readTimeoutMs, statementTimeoutMs || readTimeoutMs)
  const pipeline = (name: string) =>
    openPipeline({ name, settings: { ...common, statement_timeout }, log, stallTimeoutMs: statement_timeout + stallGraceMs })
  const [reads, auth, lists, texts] = [pipeline('dms reads'), pipeline('dms auth'), pipeline('dms lists'), pipeline('dms texts')]
  return {
    db: new Kysely<Schema>({ dialect: new PostgresDialect({ pool }), ...traceQueries(log) }),
    reads: reads.db,
    auth: auth.db,
    lists: lists.db,
    texts: texts.db,
    async connect(name) {
      const client = new pg.Client({ ...common, application_name: name })
      client.on('error', (error) => log.warn({ err: error.message, connection: name }, 'a database connection was lost'))
      await client.connect()
      return client
    },
    close: async () => {
      for (const pipelined of [reads, auth, lists, texts]) await pipelined.close()
      await pool.end()
    },
  }
}

/** Logs every statement at level trace; without values, which may be secret. */
function traceQueries(log: Log): Pick<KyselyConfig, 'log'> {
  if (!log.isLevelEnabled('trace')) return {}
  return { log: ({ query, queryDurationMillis }) => log.trace({ sql: query.sql, duration_ms: Math.round(queryDurationMillis) }, 'query') }
}

/** Destroys a stalled connection of the pool. Queries of a migration, which has no statement timeout, may take longer. */
function watchPooled(client: TrackingClient, timeoutMs: number, settings: pg.ClientConfig): void {
  const backend = client.query<{ pid: number }>('select pg_backend_pid() as pid').catch(() => null)
  destroyWhenStalled(client, timeoutMs, async () => {
    const pid = (await backend)?.rows[0]?.pid
    return pid !== undefined && isBusy(settings, pid)
  })
}

/** Returns whether PostgreSQL is executing a query of the backend `pid`. Throws where PostgreSQL does not answer. */
async function isBusy(settings: pg.ClientConfig, pid: number): Promise<boolean> {
  const other = new pg.Client({ ...settings, application_name: 'dms', query_timeout: settings.connectionTimeoutMillis })
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

/** Returns whether an error means that the database is unavailable: classes 08 (connection), 40 (serialization), 53 (resources), 57 (operator intervention), 25006 (read-only), and network errors. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(08|40|53|57)/.test(error.code ?? '') || error.code === '25006'
  const { code, message } = error as NodeJS.ErrnoException
  return ['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND'].includes(code ?? '') &&
    (error as NodeJS.ErrnoException).syscall !== 'open'
    ? true
    : /Connection terminated|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error/.test(
        message ?? '',
      )
}
