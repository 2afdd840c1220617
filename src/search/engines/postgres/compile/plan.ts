/** Plan of a search. Conditions are SQL over `entry`, a row of a segment. */
import { type RawBuilder, sql } from 'kysely'
import { afterMillisecond } from '../../../../db/clock.ts'
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import { fieldScores } from '../index/document-vector.ts'
import type { Tag } from '../index/tags.ts'
import type { TermQuery } from './term-queries.ts'
import { or } from './tsquery.ts'

type Sql = RawBuilder<unknown>

export interface Plan {
  /** Conditions for the GIN index. */
  readonly indexed: readonly Sql[]
  /** Conditions on columns of the row, and on passages of long documents. */
  readonly filters: readonly Sql[]
  /** Conditions on positions. They are evaluated newest first until there are enough matches, because each reads a whole tsvector. */
  readonly checks: readonly Sql[]
  /** Conditions on the row of `documents`, evaluated newest first. */
  readonly tests: readonly Sql[]
  /** Maximum number of documents for `tests`. Null: no limit. */
  readonly maxTested: number | null
  /** 0 to 1 */
  readonly score: RawBuilder<number>
  /** Queries for the best of very many matches, highest impact first. Empty if the query has no impact terms. */
  readonly top: readonly TopQuery[]
  /** Additional index conditions of the top queries. */
  readonly topIndexed: readonly Sql[]
}

export interface TopQuery {
  /** A tsquery over impact terms. */
  readonly impact: string
  /** Tsquery of the other conditions. Null: the impact terms imply them. */
  readonly rest: string | null
}

/** A tsquery for the index. The subquery hides the value from the planner, whose estimate would lead to a sequential scan. */
export const indexed = (query: string): Sql => sql`entry.words @@ (select ${query}::text::tsquery)`

/** Any of many tsqueries, each a separate scan. One large tsquery would be evaluated for every candidate. */
export const indexedAny = (queries: readonly string[]): Sql => sql`entry.words @@ any ((select ${queries}::text[]::tsquery[])::tsquery[])`

/** Requires all of these tags. */
export const withTags = (tags: readonly Tag[]): Sql[] => {
  const { immediate = [], deferred = [] } = Object.groupBy(tags, ({ isDeferred }) => (isDeferred ? 'deferred' : 'immediate'))
  return [...containing(sql`entry.tags`, immediate), ...containing(sql`entry.deferred_tags`, deferred)]
}

const containing = (column: Sql, tags: readonly Tag[]): Sql[] =>
  tags.length === 0 ? [] : [sql`${column} @> ${tags.map(({ number }) => number)}::smallint[]`]

/** Exact conditions on dates and confidence. The index has months and deciles only. */
export const rangeConditions = ({ from, to, datedFrom, datedTo, minConfidence }: SearchFilter): Sql[] => [
  ...(from ? [sql`entry.created_at >= ${from}`] : []),
  ...(to ? [sql`entry.created_at < ${afterMillisecond(to)}`] : []),
  ...(datedFrom ? [sql`entry.document_date >= ${datedFrom}::date`] : []),
  ...(datedTo ? [sql`entry.document_date <= ${datedTo}::date`] : []),
  ...(minConfidence === null ? [] : [sql`entry.confidence >= ${minConfidence}::real`]),
]

/**
 * Checks the passages of a long document for the queries of terms. If a query needs no check of positions, passages decide only about words that
 * did not fit into the entry.
 */
export function inPassages(terms: readonly Pick<TermQuery, 'passages' | 'check'>[]): RawBuilder<boolean> {
  const all = terms.flatMap(({ passages, check }) => passages.map((query) => ({ query, needsPassage: check !== null })))
  if (all.length === 0) return sql`true`
  return sql`(entry.parts = 0 or dms_search_in_passages(entry.document_id, entry.segment, entry.parts, (select ${all.map(({ query }) => query)}::text[]::tsquery[]),
    ${all.map(({ needsPassage }) => needsPassage)}::boolean[], ${all.map(() => false)}::boolean[]))`
}

/** Ranks an entry by one tsquery, 0 to 1. */
export const rank = (query: string): RawBuilder<number> =>
  sql`ts_rank(${sql.lit(`{${fieldScores.D}, ${fieldScores.C}, ${fieldScores.B}, ${fieldScores.A}}`)}, entry.words, ${query}::tsquery)`

/** A weighted part of the score. */
export interface Weighted {
  readonly query: string
  readonly weight: number
}

/** Maximum number of ranks per score. More parts are ranked as one tsquery. */
const maxParts = 8

/** Returns the weighted mean of ranks, 0 to 1. */
export function rankOf(parts: readonly Weighted[]): RawBuilder<number> {
  const [first] = parts
  if (parts.length > maxParts || parts.every(({ weight }) => weight === first!.weight)) return rank(or(parts.map(({ query }) => query)))
  const sum = parts.reduce((sum, { weight }) => sum + weight, 0)
  return sql`(${sql.join(
    parts.map(({ query, weight }) => sql`${weight / sum}::real * ${rank(query)}`),
    sql` + `,
  )})`
}

export const where = (conditions: readonly Sql[]): RawBuilder<unknown> =>
  conditions.length === 0 ? sql`` : sql`where ${sql.join([...conditions], sql` and `)}`
