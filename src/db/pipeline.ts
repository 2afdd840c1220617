/** A lane for short reads: one connection on which queries are sent without waiting for the answers of those before, each prepared once. */
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
import { LRUCache } from 'lru-cache'
import pg from 'pg'
import type { Log } from '../log/log.ts'
import { statementName } from './cached-plans.ts'
import { openReader, type Read } from './pipeline-query.ts'
import type { Schema } from './schema.ts'
import { cutWhenHung } from './stalled-connection.ts'

/** Distinct texts that are prepared; more are sent as they are, so that the server does not collect plans for ever. */
const maxPrepared = 500

export interface LaneOptions {
  /** of the connection, in pg_stat_activity */
  name: string
  settings: pg.ClientConfig & { types: pg.CustomTypesConfig }
  log: Log
  /** milliseconds without a sign of an answer after which the connection is given up */
  hungAfter: number
}

interface Open {
  client: pg.Client
  read(read: Read): Promise<unknown[]>
}

/** A query goes straight to the lane; on kysely's way through driver and provider it would wait for a dozen promises. */
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

/** Opens the lane: reads that commit by themselves only, no transactions, no cursors. It connects at the first query, and again after a loss. */
export function openLane({ name: applicationName, settings, log, hungAfter }: LaneOptions): {
  reads: Kysely<Schema>
  close(): Promise<void>
} {
  const names = new LRUCache<string, string>({ max: maxPrepared })
  let opening: Promise<Open> | null = null

  const connect = async (): Promise<Open> => {
    const fresh = new pg.Client({ ...settings, application_name: applicationName, pipeline: true })
    const lost = () => {
      opening = null
    }
    fresh.on('error', (error) => {
      log.warn({ err: error.message, connection: applicationName }, 'a reading connection was lost')
      lost()
    })
    fresh.on('end', lost)
    await fresh.connect()
    cutWhenHung(fresh, hungAfter)
    return { client: fresh, read: openReader(fresh, settings.types) }
  }

  const nameOf = (text: string): string | undefined => {
    const known = names.get(text)
    if (known) return known
    // A name taken from the cache again would stand for another text on the server: those past the limit go unnamed.
    if (names.size >= maxPrepared) return undefined
    const name = statementName(text)
    names.set(text, name)
    return name
  }

  const isTraced = log.isLevelEnabled('trace')
  const executeQuery = async <R>({ sql: text, parameters: values }: CompiledQuery): Promise<QueryResult<R>> => {
    opening ??= connect()
    const { read } = await opening.catch((error) => {
      opening = null
      throw error
    })
    if (isTraced) log.trace({ sql: text }, 'query')
    try {
      return { rows: (await read({ name: nameOf(text), text, values })) as R[] }
    } catch (error) {
      // Leads to whoever asked, instead of to the socket.
      Error.captureStackTrace(error as Error)
      throw error
    }
  }
  const connection: DatabaseConnection = {
    executeQuery,
    streamQuery() {
      throw new Error('the reading lane has no cursors')
    },
  }
  const noTransactions = async () => {
    throw new Error('the reading lane has no transactions')
  }
  const driver: Driver = {
    async init() {},
    acquireConnection: async () => connection,
    async releaseConnection() {},
    beginTransaction: noTransactions,
    commitTransaction: noTransactions,
    rollbackTransaction: noTransactions,
    async destroy() {},
  }
  const dialect: Dialect = {
    createDriver: () => driver,
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  }
  return {
    reads: new Kysely<Schema>({ config: { dialect }, dialect, driver, executor: new DirectExecutor(connection) }),
    async close() {
      const open = await opening?.catch(() => null)
      opening = null
      await open?.client.end().catch(() => {})
    },
  }
}
