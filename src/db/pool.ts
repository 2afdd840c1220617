/** The way to PostgreSQL: a pool with kysely over it, and single connections for what must not share one. */
import { Kysely, type KyselyConfig, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { AppError } from '../errors.ts'
import type { Log } from '../log/log.ts'
import { KeepingClient } from './cached-plans.ts'
import { openLane } from './pipeline.ts'
import type { Schema } from './schema.ts'
import { cutWhenHung } from './stalled-connection.ts'
import { typeParsers } from './value-parsers.ts'

export type Db = Kysely<Schema>
/** Inside one transaction: what a verb takes that must commit or vanish with its caller's work. */
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
  /** for short reads of small rows on their own, many at once: several times the rate of the pool; no transactions */
  readonly reads: Db
  /** Of the same kind, so that none of these waits for another: who is behind a token; */
  readonly auth: Db
  /** pages of lists; */
  readonly lists: Db
  /** and pieces of long texts. */
  readonly texts: Db
  /** A connection of its own, seen in pg_stat_activity under `name`; the caller ends it. */
  connect(name: string): Promise<pg.Client>
  close(): Promise<void>
}

/** Milliseconds; a read that takes longer would hold up those behind it on the lane. */
const laneTimeout = 10_000
/** Milliseconds after the statement timeout: by then PostgreSQL would have said that it gave up. */
const hungAfter = 1000

/** Opens the pool; nothing is connected before the first query. */
export function openDatabase({
  address,
  poolMax,
  connectTimeoutMs: connectTimeout,
  statementTimeoutMs: statementTimeout,
  log,
}: DatabaseOptions): Database {
  const common = { ...address, types: typeParsers, connectionTimeoutMillis: connectTimeout, keepAlive: true }
  const pool = new pg.Pool({
    ...common,
    Client: KeepingClient,
    max: poolMax,
    application_name: 'dms',
    statement_timeout: statementTimeout || undefined,
  })
  // A connection that is cut while a transaction thinks between two queries says so here; unheard, that would end the process. The next query fails.
  pool.on('connect', (client) => {
    client.on('error', () => {})
    if (statementTimeout > 0) cutWhenHung(client, statementTimeout + hungAfter, () => isBusy(common, client))
  })
  pool.on('error', (error) => log.warn({ err: error.message }, 'an idle database connection was lost'))
  const readTimeout = Math.min(laneTimeout, statementTimeout || laneTimeout)
  const lane = (name: string) =>
    openLane({ name, settings: { ...common, statement_timeout: readTimeout }, log, hungAfter: readTimeout + hungAfter })
  const [reads, auth, lists, texts] = [lane('dms reads'), lane('dms auth'), lane('dms lists'), lane('dms texts')]
  return {
    db: new Kysely<Schema>({ dialect: new PostgresDialect({ pool }), ...traceQueries(log) }),
    reads: reads.reads,
    auth: auth.reads,
    lists: lists.reads,
    texts: texts.reads,
    async connect(name) {
      const client = new pg.Client({ ...common, application_name: name })
      client.on('error', (error) => log.warn({ err: error.message, connection: name }, 'a database connection was lost'))
      await client.connect()
      return client
    },
    close: async () => {
      for (const one of [reads, auth, lists, texts]) await one.close()
      await pool.end()
    },
  }
}

/** Every statement in the log, where somebody follows all there is; without its values, which may be secret. */
function traceQueries(log: Log): Pick<KyselyConfig, 'log'> {
  if (!log.isLevelEnabled('trace')) return {}
  return { log: ({ query, queryDurationMillis }) => log.trace({ sql: query.sql, duration_ms: Math.round(queryDurationMillis) }, 'query') }
}

/** Whether PostgreSQL is at the query of a connection, or has it waiting: a migration sets its timeout off. Throws where it says nothing. */
async function isBusy(settings: pg.ClientConfig, client: pg.PoolClient): Promise<boolean> {
  const { processID } = client as unknown as { processID: number }
  const other = new pg.Client({ ...settings, application_name: 'dms', query_timeout: settings.connectionTimeoutMillis })
  other.on('error', () => {})
  try {
    await other.connect()
    return (await other.query(`select from pg_stat_activity where pid = $1 and state <> 'idle'`, [processID])).rowCount === 1
  } finally {
    other.end().catch(() => {})
  }
}

export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505' && (constraint === undefined || error.constraint === constraint)

/** Writes a row whose name must be its own; throws DUPLICATE_RESOURCE with `message` where it is not. */
export async function rejectDuplicateName<T>(write: () => Promise<T>, message: string): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (isUniqueViolation(error)) throw new AppError('DUPLICATE_RESOURCE', { field: 'name' }, message)
    throw error
  }
}

export const isForeignKeyViolation = (error: unknown): boolean => error instanceof pg.DatabaseError && error.code === '23503'

/** Classes 08 (connection), 40 (lost to another transaction), 53 (resources), 57 (operator intervention) and 25006 (read-only): the database is out of reach, nobody's request is at fault. */
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
