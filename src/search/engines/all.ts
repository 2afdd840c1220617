/** Every search engine that can be configured. */
import type { Config } from '../../config.ts'
import type { Database, Db } from '../../db/db.ts'
import { ConfigError } from '../../errors.ts'
import type { Log } from '../../log.ts'
import type { SearchEngine } from '../../ports.ts'
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
  meilisearch: (): SearchEngine => {
    throw new ConfigError(['search.engine = "meilisearch": this version of dms searches in PostgreSQL only (search.engine = "postgres")'])
  },
} satisfies Record<Config['search']['engine'], (ground: Ground) => SearchEngine>
