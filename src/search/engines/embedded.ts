/** The embedded index of PostgreSQL beside the index of another engine. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import type { IndexRebuild, SearchEngine } from '../../ports/search-engine.ts'

/** Returns an engine that searches with `own`, and also maintains the embedded index. */
export function withEmbedded(own: SearchEngine, postgres: SearchEngine): SearchEngine {
  const status: SearchEngine['status'] = async () => {
    const [one, other] = await Promise.all([own.status(), postgres.status()])
    // A document counts as indexed if both indexes contain it.
    return {
      ...one,
      documents: Math.min(one.documents, other.documents),
      outdated: Math.max(one.outdated, other.outdated),
      missing: Math.max(one.missing, other.missing),
      extra: Math.max(one.extra, other.extra),
    }
  }
  return {
    ...own,
    async refresh(ids) {
      await postgres.refresh(ids)
      await own.refresh(ids)
    },
    status,
    count: async () => (await status()).documents,
    contents: () => [...own.contents(), ...postgres.contents()],
    optimize: () => postgres.optimize(),
    async rebuild() {
      const one = await own.rebuild()
      const other = await postgres.rebuild()
      return {
        ...one,
        ...(other.omitted ? { omitted: other.omitted } : {}),
        async put(ids, signal) {
          await other.put(ids, signal)
          await one.put(ids, signal)
        },
        complete: async (signal) => Math.min(await one.complete(signal), await other.complete(signal)),
        async swap(options) {
          await one.swap(options)
          await other.swap()
        },
        async discard() {
          await other.discard()
          await one.discard()
        },
      }
    },
  }
}

/** Returns an engine that does not maintain the embedded index, and empties it with every rebuild. */
export function withoutEmbedded(own: SearchEngine, postgres: SearchEngine, db: Db): SearchEngine {
  return {
    ...own,
    async rebuild(): Promise<IndexRebuild> {
      const next = await own.rebuild()
      return {
        ...next,
        async swap(options) {
          await next.swap(options)
          const empty = await postgres.rebuild()
          await empty.swap()
          for (const table of ['search_words', 'search_codes', 'search_stems']) await sql`delete from ${sql.table(table)}`.execute(db)
        },
      }
    },
  }
}
