/** Search engine in the PostgreSQL that holds the documents. See docs/search-index.md. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import { noHits, type SearchAnswer, type SearchEngine, type SearchQuery } from '../../../ports/search-engine.ts'
import { hits, markersOf, noHighlighting } from '../../hits.ts'
import { parse, wordsOf } from '../../query/parser.ts'
import { mergeExpansions, stemExpansions, typoExpansions } from '../../vocabulary/expansions.ts'
import { StoredWords } from '../../vocabulary/vocabulary.ts'
import { advanced } from './advanced.ts'
import { loadIdf } from './compile/idf.ts'
import { compileQuery } from './compile/query.ts'
import { indexDocuments } from './index/index-documents.ts'
import { rebuild } from './index/rebuild.ts'
import { completeIndexes, growIndex, tableOf, withSegments } from './index/segments.ts'
import { contents, status } from './index/verify.ts'
import { match } from './match/match.ts'
import { moreLikeThis } from './more-like-this.ts'

/** Number of indexed documents after which the size of the newest segment is checked. */
const growEvery = 1000
/** Minimum size of a segment, in documents. Larger segments are slower to search; smaller ones are more numerous. */
const segmentSize = 25_000
const blocksPerSegment = 10

/** Sizes a segment at half of the documents left. A segment is read only if newer ones hold too few matches. */
const halfOf = (left: number): number => Math.max(segmentSize, Math.ceil(left / 2))

interface PostgresOptions {
  /** database for searches; default: `db` */
  readonly prepared?: Db
  /** returns the size of a new segment if so many documents are left; existing segments may have any size */
  readonly sizeFor?: (left: number) => number
}

/** Opens the engine. */
export function openPostgres(db: Db, { prepared = db, sizeFor = halfOf }: PostgresOptions = {}): SearchEngine {
  const stored = new StoredWords()
  const sizes = (left: number) => ({ segment: sizeFor(left), block: Math.ceil(sizeFor(left) / blocksPerSegment) })
  const newest = sizes(0)
  let written = 0
  return {
    name: 'postgres',
    async refresh(ids) {
      await indexDocuments(db, stored, ids)
      written += ids.length
      if (written < Math.min(growEvery, newest.block)) return
      written = 0
      await growIndex(db, newest)
    },
    search: (query) => search(prepared, query),
    advanced: (query) => advanced(prepared, db, query),
    similar: (query) => moreLikeThis(prepared, query),
    count: async () => (await status(db)).documents,
    status: () => status(db),
    contents: () => [contents(db)],
    rebuild: () => rebuild(db, stored, sizes),
    optimize: () => completeIndexes(db),
    async check() {
      await withSegments(db, async ([newest]) => sql`select from ${sql.table(tableOf(newest!.number))} limit 1`.execute(db))
    },
  }
}

/** Searches: parse, expand, compile, match, hits. */
async function search(db: Db, query: SearchQuery): Promise<SearchAnswer> {
  const terms = parse(query.text)
  const [typos, stems, idf] = await Promise.all([
    query.fuzzy ? typoExpansions(db, terms) : new Map<string, string[]>(),
    stemExpansions(db, terms),
    loadIdf(db, wordsOf(terms.filter(({ negated }) => !negated))),
  ])
  const expansions = mergeExpansions(stems, typos)
  const compiled = compileQuery(terms, expansions, query.filter, idf)
  if (!compiled) return noHits
  const { plan, all, any } = compiled
  const { page, ...matches } = await match(db, plan, [{ field: 'score', order: 'desc' }], query)
  const markers = markersOf((field) => ({ terms: terms.filter((term) => term.field === null || term.field === field), expansions }))
  const highlighting = query.highlight && all !== null ? { markers, passage: { all, any } } : noHighlighting
  return { ...matches, hits: await hits(db, page, highlighting) }
}
