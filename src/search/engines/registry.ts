/** Every search engine that can be configured. */
import type { Config } from '../../config/schema.ts'
import type { Database, Db } from '../../db/pool.ts'
import type { Log } from '../../log/log.ts'
import type { SearchEngine } from '../../ports/search-engine.ts'
import { openPostgres } from './postgres/engine.ts'

/** What engines are opened with. */
interface EngineContext {
  readonly config: Config
  readonly db: Db
  readonly database: Database
  readonly log: Log
}

export const engines = {
  postgres: async ({ db, database }: EngineContext): Promise<SearchEngine> => openPostgres(db, undefined, database.prepared),
  meilisearch: async ({ config, db, database, log }: EngineContext): Promise<SearchEngine> => {
    const { openMeilisearch } = await import('./meilisearch/engine.ts')
    const { url, api_key, index, batch_size, timeout } = config.search
    const maxResults = config.limits.search_max_results
    const postgres = openPostgres(db, undefined, database.prepared)
    return openMeilisearch({ url, apiKey: api_key, index, batchSize: batch_size, timeout, maxResults, db, postgres, log })
  },
} satisfies Record<Config['search']['engine'], (ground: EngineContext) => Promise<SearchEngine>>
