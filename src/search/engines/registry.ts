/** Every search engine that can be configured. */
import type { Config } from '../../config/schema.ts'
import type { Database, Db } from '../../db/pool.ts'
import type { Log } from '../../log/log.ts'
import type { IndexStatus, SearchEngine } from '../../ports/search-engine.ts'
import { withEmbedded, withoutEmbedded } from './embedded.ts'
import { openPostgres } from './postgres/engine.ts'

/** Parameters for opening an engine. */
interface EngineContext {
  readonly config: Config
  readonly db: Db
  readonly database: Database
  readonly log: Log
  /** waits between attempts of a request; tests replace it */
  readonly wait?: (ms: number) => Promise<unknown>
}

const isEmpty = ({ documents, outdated }: IndexStatus): boolean => documents + outdated === 0

export const engines = {
  postgres: async ({ db, database }: EngineContext): Promise<SearchEngine> => openPostgres(db, { prepared: database.prepared }),
  meilisearch: async ({ config, db, database, log }: EngineContext): Promise<SearchEngine> => {
    const { openMeilisearch } = await import('./meilisearch/engine.ts')
    const { url, api_key, index, batch_size, timeout } = config.search
    const maxResults = config.limits.search_max_results
    const postgres = openPostgres(db, { prepared: database.prepared })
    const own = openMeilisearch({ url, apiKey: api_key, index, batchSize: batch_size, timeoutMs: timeout, maxResults, db, postgres, log })
    return withEmbedded(own, postgres)
  },
  opensearch: async ({ config, db, database, log, wait }: EngineContext): Promise<SearchEngine> => {
    const { openOpenSearch } = await import('./opensearch/engine.ts')
    const { batch_size: batchSize, keep_embedded } = config.search
    const postgres = openPostgres(db, { prepared: database.prepared })
    const own = openOpenSearch({
      urls: config.search.opensearch_urls,
      username: config.search.opensearch_username,
      password: config.search.opensearch_password,
      caFile: config.search.opensearch_ca_file,
      timeoutMs: config.search.opensearch_timeout,
      index: config.search.opensearch_index,
      shards: config.search.opensearch_shards,
      replicas: config.search.opensearch_replicas,
      refreshIntervalMs: config.search.opensearch_refresh_interval,
      batchSize,
      // A reindex also empties the embedded index, which would become outdated.
      mayCreate: async () => keep_embedded || isEmpty(await postgres.status()),
      db,
      log,
      wait,
    })
    return keep_embedded ? withEmbedded(own, postgres) : withoutEmbedded(own, postgres, db)
  },
} satisfies Record<Config['search']['engine'], (ground: EngineContext) => Promise<SearchEngine>>
