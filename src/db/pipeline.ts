/** A pipelined connection for short reads: queries are sent without waiting for the answers to those before, each prepared once. */
import {
  type CompiledQuery,
  type DatabaseConnection,
  DefaultQueryExecutor,
  type Dialect,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely'
import type pg from 'pg'
import type { Log } from '../log/log.ts'
import type { Schema } from './schema.ts'
import { destroyWhenStalled, TrackingClient } from './stalled-connection.ts'

/** Distinct statements that are prepared. More are sent unprepared, so that the number of plans in PostgreSQL stays limited. */
const maxPrepared = 500

export interface PipelineOptions {
  /** application_name, as in pg_stat_activity */
  name: string
  settings: pg.ClientConfig
  log: Log
  /** without an answer for so long, the connection is destroyed */
  stallTimeoutMs: number
}

/** Sends a query directly. On kysely's way through driver and provider each query waits for a dozen promises. */
class DirectExecutor extends DefaultQueryExecutor {
  readonly #connection: DatabaseConnection

  constructor(connection: DatabaseConnection) {
    super(new PostgresQueryCompiler(), new PostgresAdapter(), { provideConnection: (consumer) => consumer(connection) })
    this.#connection = connection
  }

  override executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    return this.#connection.executeQuery(query)
  }
}

/** Opens it. It connects at the first query, and again after a loss. It has no transactions and no cursors. */
export function openPipeline({ name: application_name, settings, log, stallTimeoutMs }: PipelineOptions): {
  db: Kysely<Schema>
  close(): Promise<void>
} {
  const names = new Map<string, string>()
  let opening: Promise<pg.Client> | null = null

  const connect = async (): Promise<pg.Client> => {
    const client = new TrackingClient({ ...settings, application_name, pipeline: true })
    const onLost = () => {
      opening = null
    }
    client.on('error', (error) => {
      log.warn({ err: error.message, connection: application_name }, 'a reading connection was lost')
      onLost()
    })
    client.on('end', onLost)
    await client.connect()
    destroyWhenStalled(client, stallTimeoutMs)
    return client
  }

  const nameOf = (text: string): string | undefined => {
    const known = names.get(text)
    if (known || names.size >= maxPrepared) return known
    const name = `read${names.size}`
    names.set(text, name)
    return name
  }

  const isTraced = log.isLevelEnabled('trace')
  const connection: DatabaseConnection = {
    async executeQuery<R>({ sql: text, parameters }: CompiledQuery): Promise<QueryResult<R>> {
      opening ??= connect()
      const client = await opening.catch((error) => {
        opening = null
        throw error
      })
      if (isTraced) log.trace({ sql: text }, 'query')
      const { rows } = await client.query({ name: nameOf(text), text, values: parameters as unknown[] })
      return { rows: rows as R[] }
    },
    streamQuery() {
      throw new Error('a pipelined connection has no cursors')
    },
  }
  const rejectTransaction = async () => {
    throw new Error('a pipelined connection has no transactions')
  }
  const driver: Driver = {
    async init() {},
    acquireConnection: async () => connection,
    async releaseConnection() {},
    beginTransaction: rejectTransaction,
    commitTransaction: rejectTransaction,
    rollbackTransaction: rejectTransaction,
    async destroy() {},
  }
  const dialect: Dialect = {
    createDriver: () => driver,
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  }
  return {
    db: new Kysely<Schema>({ config: { dialect }, dialect, driver, executor: new DirectExecutor(connection) }),
    async close() {
      const client = await opening?.catch(() => null)
      opening = null
      await client?.end().catch(() => {})
    },
  }
}
