/** A small pool for searches. Its statements are prepared, because planning a search takes about as long as running it. */
import { createHash } from 'node:crypto'
import type { PostgresPool, PostgresPoolClient } from 'kysely'
import pg from 'pg'
import type { Hosts } from './hosts.ts'
import { renewPlans } from './plans.ts'
import type { TrackingClient } from './stalled-connection.ts'

/** Concurrent searches. Each occupies a core. */
const maxConnections = 4
/** Distinct statements of a connection, which is closed after them: PostgreSQL keeps a plan of up to a megabyte for each. */
const maxStatements = 64

/** in milliseconds. Occasional searches must not be planned each time. */
const maxPlanAge = 60_000

/** Opens the pool. It connects at the first query. `watch` is called with every new connection. */
export function openPrepared(
  settings: pg.ClientConfig,
  { Client, retry }: Hosts,
  watch: (client: pg.PoolClient) => void,
  onLost: (error: Error) => void,
): PostgresPool {
  const pool = new pg.Pool({
    ...settings,
    Client: Client as typeof TrackingClient,
    application_name: 'dms search',
    options: '-c plan_cache_mode=force_generic_plan',
    max: maxConnections,
  })
  const statementNames = new WeakMap<pg.PoolClient, Set<string>>()
  pool.on('connect', (client) => {
    statementNames.set(client, new Set())
    watch(client)
  })
  pool.on('error', onLost)
  return {
    options: settings,
    end: () => pool.end(),
    async connect() {
      const client = await retry(() => pool.connect())
      await renewPlans(client, maxPlanAge)
      const names = statementNames.get(client)!
      const query = (text: string, values: unknown[]) => {
        const name = createHash('sha1').update(text).digest('base64url')
        names.add(name)
        return client.query({ name, text, values })
      }
      return { query, release: () => client.release(names.size > maxStatements) } as unknown as PostgresPoolClient
    },
  }
}
