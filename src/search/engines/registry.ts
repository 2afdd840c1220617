/** Every search engine that can be configured. */
import type { Config } from '../../config/schema.ts'
import type { Database, Db } from '../../db/pool.ts'
import type { Log } from '../../log/log.ts'
import type { SearchEngine } from '../../ports/search-engine.ts'
import { openPostgres } from './postgres/engine.ts'

/** What engines can be made of. */
interface Ground {
  readonly config: Config
  readonly db: Db
  readonly database: Database
  readonly log: Log
}

export const engines = {
  postgres: async ({ db }: Ground): Promise<SearchEngine> => openPostgres(db),
  meilisearch: async ({ config, db, log }: Ground): Promise<SearchEngine> => {
    const { openMeilisearch } = await import('./meilisearch/engine.ts')
    const { url, api_key, index, batch_size, timeout } = config.search
    const maxResults = config.limits.search_max_results
    return openMeilisearch({ url, apiKey: api_key, index, batchSize: batch_size, timeout, maxResults, db, postgres: openPostgres(db), log })
  },
} satisfies Record<Config['search']['engine'], (ground: Ground) => Promise<SearchEngine>>
