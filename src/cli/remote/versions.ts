/** Versions of a remote server and of the local database. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Config } from '../../config/schema.ts'
import { loadStates } from '../../db/migrate.ts'
import { openLog } from '../../log/log.ts'
import { openConfiguredDatabase } from '../../open-app.ts'
import { fetchText, openRemoteEndpoint } from './loopback-server.ts'

/** Short, because the version of this program matters most. */
const timeoutMs = 3000

export interface ServerVersion {
  readonly url: string
  /** null: no answer */
  readonly version: string | null
}

export interface DatabaseVersion {
  /** last applied migration */
  readonly schema: string | null
  readonly version: string
}

/** Fetches the version of a server from its OpenAPI description. */
export async function fetchServerVersion(url: string, caFile: string | null): Promise<ServerVersion> {
  const endpoint = await openRemoteEndpoint(url, caFile)
  try {
    const { body } = await fetchText(endpoint, '/api/openapi.json', timeoutMs)
    return { url, version: (JSON.parse(body) as { info: { version: string } }).info.version }
  } catch {
    return { url, version: null }
  } finally {
    await endpoint.dispatcher.destroy()
  }
}

/** Fetches the version of the database. Returns null if it is not running; never starts it. */
export async function fetchDatabaseVersion(config: Config): Promise<DatabaseVersion | null> {
  const isRunning = config.database.url !== '' || existsSync(join(config.data_dir, 'postgres', 'postmaster.pid'))
  if (!isRunning) return null
  const timer = new AbortController()
  const query = queryDatabase({ ...config, database: { ...config.database, connect_timeout: timeoutMs } })
  try {
    return await Promise.race([query, sleep(timeoutMs, null, { signal: timer.signal })])
  } catch {
    return null
  } finally {
    timer.abort()
    query.catch(() => {})
  }
}

async function queryDatabase(config: Config): Promise<DatabaseVersion> {
  const database = await openConfiguredDatabase(config, openLog({ level: 'silent', format: 'json' }), { hasStatementTimeout: true })
  try {
    const [{ rows }, migrations] = await Promise.all([
      sql<{ server_version: string }>`show server_version`.execute(database.db),
      loadStates(database.db),
    ])
    const schema = migrations.findLast(({ applied_at }) => applied_at !== null)?.name ?? null
    return { schema, version: `PostgreSQL ${rows[0]?.server_version ?? ''}` }
  } finally {
    await database.close()
  }
}
