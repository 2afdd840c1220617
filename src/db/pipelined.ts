/** A lane for short reads: one connection on which queries are sent without waiting for the answers of those before, each prepared once. */
import { createHash } from 'node:crypto'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely'
import { LRUCache } from 'lru-cache'
import pg from 'pg'
import type { Log } from '../log.ts'
import type { Schema } from './schema.ts'

/** Distinct texts that are prepared; more are sent as they are, so that the server does not collect plans for ever. */
const maxPrepared = 500

export interface LaneOptions {
  settings: pg.ClientConfig
  log: Log
}

/** Opens the lane: reads that commit by themselves only, no transactions, no cursors. It connects at the first query, and again after a loss. */
export function openLane({ settings, log }: LaneOptions): { reads: Kysely<Schema>; close(): Promise<void> } {
  const names = new LRUCache<string, string>({ max: maxPrepared })
  let client: Promise<pg.Client> | null = null

  const connect = async (): Promise<pg.Client> => {
    const fresh = new pg.Client({ ...settings, application_name: 'dms reads', pipeline: true })
    const lost = () => {
      client = null
    }
    fresh.on('error', (error) => {
      log.warn({ err: error.message }, 'the reading connection was lost')
      lost()
    })
    fresh.on('end', lost)
    await fresh.connect()
    return fresh
  }

  const nameOf = (text: string): string | undefined => {
    const known = names.get(text)
    if (known) return known
    // A name taken from the cache again would stand for another text on the server: those past the limit go unnamed.
    if (names.size >= maxPrepared) return undefined
    const name = createHash('sha1').update(text).digest('base64url')
    names.set(text, name)
    return name
  }

  const connection: DatabaseConnection = {
    async executeQuery<R>({ sql: text, parameters }: CompiledQuery): Promise<QueryResult<R>> {
      client ??= connect()
      const current = await client.catch((error) => {
        client = null
        throw error
      })
      const { rows, rowCount } = await current.query({ name: nameOf(text), text, values: parameters as unknown[] })
      return { rows: rows as R[], numAffectedRows: BigInt(rowCount ?? 0) }
    },
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
  return {
    reads: new Kysely<Schema>({
      dialect: {
        createDriver: () => driver,
        createAdapter: () => new PostgresAdapter(),
        createIntrospector: (db) => new PostgresIntrospector(db),
        createQueryCompiler: () => new PostgresQueryCompiler(),
      },
    }),
    async close() {
      const open = await client?.catch(() => null)
      client = null
      await open?.end().catch(() => {})
    },
  }
}
