/** What a search asks of each chunk, in terms of `entry`, a row of it. */
import { type RawBuilder, sql } from 'kysely'
import type { SearchFilter } from '../../../ports/search-engine.ts'
import type { Row } from './phrases.ts'
import { or } from './tsquery.ts'
import { counts, maxTelling } from './tsvector.ts'

export interface Plan {
  /** what the index finds; in terms of `entry`, a row of a chunk */
  readonly indexed: readonly RawBuilder<unknown>[]
  /** that takes long, because it is many words: better once than for each part of a chunk */
  readonly isLong?: boolean
  /** what is seen in the row itself, and in the passages, likewise */
  readonly filters: readonly RawBuilder<unknown>[]
  /** what is seen in its words, of the newest first, until there are enough: reading those of all takes long; likewise */
  readonly late: readonly RawBuilder<unknown>[]
  /** a tsquery: what does not answer it needs no such look; not there: all do */
  readonly doubt?: string
  /** what takes a look at the documents that are left, likewise */
  readonly tests: readonly RawBuilder<unknown>[]
  /** tsqueries: what answers one of them, and is in one row, passes the tests; see `lookUpAny` */
  readonly sure?: readonly string[] | undefined
  /** so many of them are looked at, the newest; null: all */
  readonly maxTested: number | null
  /** 0 to 1, likewise: by all words of an entry, and about the same by what stands in its row */
  readonly score: RawBuilder<number>
  readonly roughly: RawBuilder<number>
  /** what is likely to score best, by marks alone, those that say most first; empty: the index knows nothing of that */
  readonly best: readonly Mark[]
  /** what the index is asked of all that have such marks, likewise */
  readonly besides: readonly RawBuilder<unknown>[]
}

/** By which some of the best are found. */
export interface Mark {
  /** a tsquery */
  readonly mark: string
  /** tsqueries: what is asked of them besides */
  readonly besides: readonly string[]
}

/** What is asked of entries that have hints, and of those that have none. */
export interface Planned {
  readonly hinted: Plan
  readonly plain: Plan
}

export const planFor = ({ hinted, plain }: Planned, { hasHints }: { readonly hasHints: boolean }): Plan => (hasHints ? hinted : plain)

/** In a subquery, so that a long one is read only where it is asked, and that PostgreSQL does not guess from the number of words that it had better read every entry: those are long, and kept where it does not see that. */
export const lookUp = (query: string): RawBuilder<unknown> => sql`entry.words @@ (select ${query}::text::tsquery)`

/** The same of what answers one of many tsqueries: each is looked up alone. In one of them all, PostgreSQL would hold every document that it finds against every word. */
export const lookUpAny = (queries: readonly string[]): RawBuilder<unknown> =>
  sql`entry.words @@ any ((select ${queries}::text[]::tsquery[])::tsquery[])`

/** What the index is asked: tsqueries, and hints. */
export function indexed({
  matches,
  hints,
  oneOf,
}: {
  matches: readonly string[]
  hints: readonly number[]
  oneOf: readonly (readonly number[])[]
}) {
  return [
    ...matches.map(lookUp),
    ...(hints.length === 0 ? [] : [sql`entry.hints @> ${hints}::integer[]`]),
    ...oneOf.map((some) => sql`entry.hints && ${some}::integer[]`),
  ]
}

/** What of a filter is not among the words. */
export function ranges({ from, to, minConfidence }: SearchFilter): RawBuilder<unknown>[] {
  return [
    ...(from ? [sql`entry.created_at >= ${from}`] : []),
    ...(to ? [sql`entry.created_at <= ${to}`] : []),
    ...(minConfidence === null ? [] : [sql`entry.confidence >= ${minConfidence}`]),
  ]
}

/** That a long document has, and has not, in its passages what an entry alone cannot say: these tsqueries, of which some are phrases, and some must not be there. */
export const inPassages = (queries: readonly string[], phrases: readonly boolean[], negated: readonly boolean[]): RawBuilder<boolean> =>
  sql`(entry.parts = 0 or dms_search_in_passages(entry.document_id, entry.chunk, entry.parts, (select ${queries}::text[]::tsquery[]), ${phrases}::boolean[], ${negated}::boolean[]))`

/** That words stand in rows as a query asks: the order of a text shows it, and the words are read only where there is none, or where a row may be in a heading. */
export function inRows(rows: readonly Row[] | null, query: string): RawBuilder<boolean> {
  const words = sql<boolean>`entry.words @@ ${query}::tsquery`
  if (rows === null || rows.length === 0) return words
  const inText = rows.map(({ order }) => sql`position(${order}::bytea in entry.word_order) > 0`)
  const somewhere = rows.map(({ headings }, nth) =>
    headings === null
      ? inText[nth]!
      : sql`(${inText[nth]!} or entry.telling @@ ${headings}::tsquery or length(entry.telling) >= ${maxTelling})`,
  )
  const isInHeading = rows.some(({ headings }) => headings !== null)
  return sql`case when entry.word_order is null then ${words} when ${sql.join(inText, sql` and `)} then true ${
    isInHeading ? sql`when ${sql.join(somewhere, sql` and `)} then ${words} ` : sql``
  }else false end`
}

/** What is ranked: all words of an entry, or those of which it says most; of the others it is taken that each is there once. */
export type Ranked = 'words' | 'telling'

/** What a word that is in the text once counts to ts_rank, which divides by the most that a word can count: the sum of the inverse squares. */
const once = (counts.D * 6) / Math.PI ** 2

/** From 0 to 1 by the words of a query; of what is telling it may be more. */
export const rank = (query: string, of: Ranked = 'words'): RawBuilder<number> => {
  const by = (vector: RawBuilder<unknown>) => sql<number>`ts_rank('{0.1, 0.3, 0.6, 1}', ${vector}, ${query}::tsquery)`
  return of === 'words' ? by(sql`words`) : sql`(${once}::real + ${by(sql`coalesce(telling, words)`)})`
}

/** What is ranked by itself, and how much of the score that is, beside the others. */
export interface Weighted {
  /** a tsquery */
  readonly query: string
  readonly weight: number
}

/** More are ranked as one. */
const maxWeighted = 8

/** The same, of which each counts by its weight. */
export function rankOfAll(all: readonly Weighted[], of: Ranked): RawBuilder<number> {
  const [first] = all
  if (all.length > maxWeighted || all.every(({ weight }) => weight === first!.weight)) return rank(or(all.map(({ query }) => query)), of)
  const sum = all.reduce((sum, { weight }) => sum + weight, 0)
  return sql`(${sql.join(
    all.map(({ query, weight }) => sql`${weight / sum}::real * ${rank(query, of)}`),
    sql` + `,
  )})`
}

export const where = (all: readonly RawBuilder<unknown>[]): RawBuilder<unknown> =>
  all.length === 0 ? sql`` : sql`where ${sql.join([...all], sql` and `)}`
