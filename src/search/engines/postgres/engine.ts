/** The embedded engine: search in the PostgreSQL that holds the documents. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { SearchAnswer, SearchEngine, SearchQuery } from '../../../ports/search-engine.ts'
import { parse, type Term, wordsOf } from '../../query/parser.ts'
import { advanced } from './advanced.ts'
import { build, type Queries } from './compile-query.ts'
import { hits } from './hits.ts'
import { rarestOf, rarities } from './idf.ts'
import { refresh } from './index-documents.ts'
import { match } from './match.ts'
import { similar } from './more-like-this.ts'
import { indexed, inPassages, inRows, type Plan, type Ranked, ranges, rank, rankOfAll } from './plan.ts'
import { rebuild, type Sizes } from './rebuild.ts'
import { chunksInForce, growBlocks, openChunk, reading, sizeOf, tableOf } from './segments.ts'
import { shortOnes } from './tags.ts'
import { or } from './tsquery.ts'
import { contents, status } from './verify.ts'
import { Memory, type Stemmed, spellings, stemmed, together } from './vocabulary.ts'

/** Documents that come in between two looks at how full the newest chunk is. */
const lookEvery = 1000

/** Documents of one of the newest chunks: more make each look into a chunk slow, fewer make many looks. */
const documentsInChunk = 25_000
/** Blocks of a full chunk. */
const blocksInChunk = 10

/** Half of what is left is one chunk, so that each of the older ones, which are looked into only when the newer have not enough, has about as many as all newer together. */
const halves = (left: number): number => Math.max(documentsInChunk, Math.ceil(left / 2))

/** Opens the engine; what it keeps is in the tables search_…, made by the migrations and by itself. `chunkSize`: of the chunks that it makes, where so many documents are left; it reads those of any size. */
export function openPostgres(db: Db, chunkSize: (left: number) => number = halves): SearchEngine {
  const known = new Memory()
  const sizes: Sizes = (left) => {
    const chunk = chunkSize(left)
    return { chunk, block: Math.ceil(chunk / blocksInChunk) }
  }
  const { chunk: newestSize, block: blockSize } = sizes(0)
  let written = 0
  return {
    name: 'postgres',
    async refresh(ids) {
      await refresh(db, known, ids)
      written += ids.length
      if (written < Math.min(lookEvery, blockSize)) return
      written = 0
      await growOn(db, newestSize, blockSize)
    },
    search: (query) => search(db, query),
    advanced: (query) => advanced(db, query),
    similar: (query) => similar(db, query),
    count: async () => (await status(db)).documents,
    status: () => status(db),
    contents: () => [contents(db)],
    rebuild: () => rebuild(db, known, sizes),
    async check() {
      await reading(db, async ([newest]) => sql`select from ${sql.table(tableOf(newest!.number))} limit 1`.execute(db))
    },
  }
}

/** Opens a new chunk where the newest is full, and a new block of it where its newest is. */
async function growOn(db: Db, chunkSize: number, blockSize: number): Promise<void> {
  const [newest] = await chunksInForce(db)
  if (!newest) return
  if ((await sizeOf(db, newest.number)) >= chunkSize) await openChunk(db, newest.generation, true)
  else await growBlocks(db, newest, blockSize)
}

/** Words that are looked for besides those of a query: more take long. */
const manyOthers = 60

const nothing: SearchAnswer = { hits: [], total: 0, isCapped: false, facets: { mime_types: {}, labels: {} } }

async function search(db: Db, query: SearchQuery): Promise<SearchAnswer> {
  const terms = parse(query.text)
  const [typos, stems, rare] = await Promise.all([
    query.fuzzy ? spellings(db, terms) : new Map<string, string[]>(),
    stemmed(db, terms),
    rarities(db, wordsOf(terms.filter(({ negated }) => !negated))),
  ])
  const others = together(stems.others, typos)
  const [hinted, plain] = [true, false].map((hasHints) =>
    build(
      terms.map((term) => known(term, stems, hasHints)),
      others,
      query.filter,
      hasHints,
      (term) => rarestOf(wordsOf([term]), rare),
    ),
  )
  if (!hinted || !plain) return nothing
  const isLong = [...others.values()].reduce((sum, words) => sum + words.length, 0) > manyOthers
  const planned = { hinted: plan(hinted, query, isLong), plain: plan(plain, query, isLong) }
  const { page, ...matches } = await match(db, planned, [{ field: 'score', order: 'desc' }], query)
  const { all, meant } = hinted
  const isMarked = query.highlight && all !== null
  const marker = (field: 'title' | 'content' | 'filename' | 'labels') => ({
    terms: terms.filter((term) => term.field === null || term.field === field),
    expansions: others,
  })
  return {
    ...matches,
    hits: await hits(db, page, {
      markers: isMarked
        ? { title: marker('title'), content: marker('content'), filename: marker('filename'), labels: marker('labels') }
        : {},
      passage: isMarked ? { all, meant } : null,
    }),
  }
}

/** A term with what is known of its words; entries without hints do not have all that `begun` counts on. */
const known = (term: Term, stems: Stemmed, hasHints: boolean): Term => ({
  ...term,
  parts: term.parts.map((part) => {
    const begun = part.prefix && hasHints ? stems.begun.get(part.text) : undefined
    return { ...part, isWord: stems.known.has(part.text), ...(begun && { begun }) }
  }),
})

/** Newest first up to one past the cap; those are ranked, counted and cut into pages. */
function plan(queries: Queries, { filter }: SearchQuery, isLong: boolean): Plan {
  const { checks, best, besides, oneOf, late, rows } = queries
  return {
    indexed: indexed(queries),
    isLong,
    filters: [
      ...ranges(filter),
      inPassages(
        checks.map(({ query }) => query),
        checks.map(({ phrase }) => phrase),
        checks.map(({ negated }) => negated),
      ),
    ],
    late: late === null ? [] : [inRows(rows, late)],
    tests: [],
    maxTested: null,
    score: score(queries, 'words'),
    roughly: score(queries, 'telling'),
    best,
    besides: indexed({ matches: [], hints: besides, oneOf: shortOnes(oneOf) }),
  }
}

/** By words, the rare ones more than the common; a word as it was typed counts twice as much as one with a typo, of its stem, or that only begins so; words that are near each other count a little more. */
function score({ typed, meant, near }: Queries, of: Ranked): RawBuilder<number> {
  if (typed.length === 0) return sql`0::real`
  const byTyped = rankOfAll(typed, of)
  const byWords = or(typed.map(({ query }) => query)) === meant ? byTyped : sql<number>`(${byTyped} + ${rank(meant, of)}) / 2`
  // Places stand in the words alone, which are read of the first only.
  return near.length === 0 || of !== 'words' ? sql`least(1, ${byWords})` : sql`least(1, ${byWords} + ${nearness(near)})`
}

/** Less than a word counts that is there once, so that it decides between what is about as good. */
const mostForNearness = 0.03

const nearness = (pairs: readonly string[]): RawBuilder<number> =>
  sql`(select count(*) * ${mostForNearness / pairs.length}::real from unnest(${pairs}::text[]::tsquery[]) pair where words @@ pair)::real`
