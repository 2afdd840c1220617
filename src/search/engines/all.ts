/** Every search engine that can be configured. */
import type { Config } from '../../config.ts'
import type { Database, Db } from '../../db/db.ts'
import type { Log } from '../../log.ts'
import type { SearchEngine } from '../../ports/search.ts'
import { openMeilisearch } from './meilisearch.ts'
import { openPostgres } from './postgres.ts'

/** What engines can be made of. */
interface Ground {
  readonly config: Config
  readonly db: Db
  readonly database: Database
  readonly log: Log
}

export const engines = {
  postgres: ({ db }: Ground): SearchEngine => openPostgres(db),
  meilisearch: ({ config, db, log }: Ground): SearchEngine => {
    const { url, api_key, index, batch_size, timeout } = config.search
    const maxResults = config.limits.search_max_results
    return openMeilisearch({ url, apiKey: api_key, index, batchSize: batch_size, timeout, maxResults, db, postgres: openPostgres(db), log })
  },
} satisfies Record<Config['search']['engine'], (ground: Ground) => SearchEngine>
