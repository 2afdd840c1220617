/** Pipelined connections for short reads: queries are sent without waiting for earlier answers, and each is prepared once. bench/api.ts measures them. */
import { Kysely, type KyselyConfig, PostgresDialect, type PostgresDialectConfig, PostgresDriver, type PostgresPoolClient } from 'kysely'
import type pg from 'pg'
import type { Log } from '../log/log.ts'
import type { Hosts } from './hosts.ts'
import { renewPlans } from './plans.ts'
import type { Schema } from './schema.ts'
import { destroyWhenStalled } from './stalled-connection.ts'

/** Maximum number of prepared statements. Further statements are sent unprepared, which bounds the memory for plans in PostgreSQL. */
const maxPrepared = 500

interface PipelineOptions {
  /** application_name in pg_stat_activity */
  name: string
  settings: pg.ClientConfig
  hosts: Hosts
  log: Log
  logQuery: Pick<KyselyConfig, 'log'>
  stallTimeoutMs: number
}

/** Rejects transactions: all callers share the connection, so a transaction would include the queries of others. */
class PipelineDriver extends PostgresDriver {
  override async beginTransaction(): Promise<void> {
    throw new Error('a pipelined connection has no transactions')
  }
}

class PipelineDialect extends PostgresDialect {
  readonly #config: PostgresDialectConfig

  constructor(config: PostgresDialectConfig) {
    super(config)
    this.#config = config
  }

  override createDriver(): PipelineDriver {
    return new PipelineDriver(this.#config)
  }
}

/** Opens a pipelined connection. It connects at the first query, and again after a loss. It has no transactions and no cursors. */
export function openPipeline({ name, settings, hosts, log, logQuery, stallTimeoutMs }: PipelineOptions): Kysely<Schema> {
  const statementNames = new Map<string, string>()
  let opening: Promise<{ client: pg.Client; shared: PostgresPoolClient }> | null = null
  let current: pg.Client | null = null

  const nameStatement = (text: string): string | undefined => {
    if (!statementNames.has(text) && statementNames.size < maxPrepared) statementNames.set(text, `read${statementNames.size}`)
    return statementNames.get(text)
  }

  const open = async () => {
    const client = new hosts.Client({ ...settings, application_name: name, pipeline: true })
    // An earlier client may end after the next one has connected.
    const onLost = () => {
      if (current === client) opening = current = null
    }
    client.on('error', (error) => {
      log.warn({ err: error.message, connection: name }, 'a reading connection was lost')
      onLost()
    })
    client.on('end', onLost)
    await client.connect()
    current = client
    destroyWhenStalled(client, stallTimeoutMs)
    const query = (text: string, values: unknown[]) => {
      void renewPlans(client)
      return client.query({ name: nameStatement(text), text, values })
    }
    return { client, shared: { query, release() {} } as unknown as PostgresPoolClient }
  }

  const pool = {
    options: settings,
    async connect() {
      opening ??= hosts.retry(open)
      const own = opening
      const { shared } = await own.catch((error) => {
        if (opening === own) opening = null
        throw error
      })
      return shared
    },
    async end() {
      const opened = await opening?.catch(() => null)
      opening = null
      await opened?.client.end().catch(() => {})
    },
  }
  return new Kysely<Schema>({ dialect: new PipelineDialect({ pool }), ...logQuery })
}
