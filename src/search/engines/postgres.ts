/** The embedded engine: search in the PostgreSQL that holds the documents. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/db.ts'
import type { SearchAnswer, SearchEngine, SearchQuery } from '../../ports.ts'
import { parse } from '../query.ts'
import { advanced } from './postgres-advanced.ts'
import { hits } from './postgres-hits.ts'
import { match, type Plan, ranges, rank } from './postgres-match.ts'
import { build, type Queries } from './postgres-query.ts'
import { indexVersion, refresh } from './postgres-refresh.ts'
import { similar } from './postgres-similar.ts'
import { spellings } from './postgres-words.ts'

/** Opens the engine; what it keeps is in the tables search_…, made by the migrations. */
export function openPostgres(db: Db): SearchEngine {
  return {
    name: 'postgres',
    refresh: (ids) => refresh(db, ids),
    search: (query) => search(db, query),
    advanced: (query) => advanced(db, query),
    similar: (query) => similar(db, query),
    async count() {
      const { count } = await db
        .selectFrom('search_entries')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('version', '=', indexVersion)
        .executeTakeFirstOrThrow()
      return count
    },
    async status() {
      const { documents, outdated } = await db
        .selectFrom('search_entries')
        .select(({ fn, eb }) => [
          fn.countAll<number>().filterWhere('version', '=', indexVersion).as('documents'),
          fn
            .countAll<number>()
            .filterWhere(eb('version', '<>', indexVersion))
            .as('outdated'),
        ])
        .executeTakeFirstOrThrow()
      return { index: 'search_entries', documents, outdated, version: indexVersion, updatedAt: null }
    },
    async rebuild() {
      return { put: (ids) => refresh(db, ids), settle: () => this.count(), swap: async () => {}, discard: async () => {} }
    },
    async check() {
      await db.selectFrom('search_entries').select('document_id').limit(1).execute()
    },
  }
}

const nothing: SearchAnswer = { hits: [], total: 0, isCapped: false, facets: { mime_types: {}, labels: {} } }

async function search(db: Db, query: SearchQuery): Promise<SearchAnswer> {
  const terms = parse(query.text)
  const others = query.fuzzy ? await spellings(db, terms) : new Map<string, string[]>()
  const queries = build(terms, others, query.filter)
  if (!queries) return nothing
  const { page, ...matches } = await match(db, plan(queries, query), query)
  const marker = { terms, spellings: others }
  const { all, meant } = queries
  const isMarked = query.highlight && all !== null
  return {
    ...matches,
    hits: await hits(db, page, {
      markers: isMarked ? { title: marker, content: marker, filename: marker, labels: marker } : {},
      passage: isMarked ? { all, meant } : null,
    }),
  }
}

/** Newest first up to one past the cap; those are ranked, counted and cut into pages. */
function plan(queries: Queries, { filter }: SearchQuery): Plan {
  const { match, checks } = queries
  return {
    conditions: [
      sql`entry.words @@ ${match}::tsquery`,
      ...ranges(filter),
      // A term fails a long document when it is found where it must not be, or not where it must.
      sql`(entry.parts = 0 or not exists (
        select from unnest(${checks.map(({ query }) => query)}::tsquery[], ${checks.map(({ phrase }) => phrase)}::boolean[], ${checks.map(({ negated }) => negated)}::boolean[])
          as term (query, is_phrase, is_negated)
        where (entry.parts = 2 or is_phrase) and is_negated = exists (
          select from search_passages passage where passage.document_id = entry.document_id and passage.words @@ term.query)))`,
    ],
    tests: [],
    maxTested: null,
    score: score(queries),
    sort: [{ field: 'score', order: 'desc' }],
  }
}

/** Words OR-ed, so that time does not grow with the square of their number; a word as it was typed counts twice as much as one with a typo. */
function score({ typed, meant }: Queries): RawBuilder<number> {
  if (typed === '') return sql`0::real`
  return typed === meant ? sql`least(1, ${rank(typed)})` : sql`least(1, (${rank(typed)} + ${rank(meant)}) / 2)`
}
