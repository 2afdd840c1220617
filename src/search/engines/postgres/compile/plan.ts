/** Plan of a search. Conditions are SQL over `entry`, a row of a segment. */
import { type RawBuilder, sql } from 'kysely'
import { afterMillisecond } from '../../../../db/clock.ts'
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import { fieldScores } from '../index/document-vector.ts'
import { or } from './tsquery.ts'

type Condition = RawBuilder<unknown>

export interface Plan {
  /** Conditions for the GIN index. */
  readonly indexed: readonly Condition[]
  /** Conditions on columns of the row, and on passages of long documents. */
  readonly filters: readonly Condition[]
  /** Conditions on positions. They are evaluated newest first until there are enough matches, because each reads a whole tsvector. */
  readonly checks: readonly Condition[]
  /** Conditions on the row of `documents`, evaluated newest first. */
  readonly tests: readonly Condition[]
  /** Maximum number of documents for `tests`. Null: no limit. */
  readonly maxTested: number | null
  /** 0 to 1 */
  readonly score: RawBuilder<number>
  /** Queries for the best of very many matches, highest impact first. Empty if the query has no impact terms. */
  readonly top: readonly TopQuery[]
  /** Additional index conditions of the top queries. */
  readonly topIndexed: readonly Condition[]
}

export interface TopQuery {
  /** A tsquery over impact terms. */
  readonly impact: string
  /** Tsquery of the other conditions. Null: the impact terms imply them. */
  readonly rest: string | null
}

/** A tsquery for the index. The subquery hides the value from the planner, whose estimate would lead to a sequential scan. */
export const indexed = (query: string): Condition => sql`entry.words @@ (select ${query}::text::tsquery)`

/** Any of many tsqueries, each a separate scan. One large tsquery would be evaluated for every candidate. */
export const indexedAny = (queries: readonly string[]): Condition =>
  sql`entry.words @@ any ((select ${queries}::text[]::tsquery[])::tsquery[])`

/** Requires all of these tags. */
export const withTags = (tags: readonly number[]): Condition[] => (tags.length === 0 ? [] : [sql`entry.tags @> ${tags}::smallint[]`])

/** Exact conditions on dates and confidence. The index has months and deciles only. */
export const rangeConditions = ({ from, to, datedFrom, datedTo, minConfidence }: SearchFilter): Condition[] => [
  ...(from ? [sql`entry.created_at >= ${from}`] : []),
  ...(to ? [sql`entry.created_at < ${afterMillisecond(to)}`] : []),
  ...(datedFrom ? [sql`entry.document_date >= ${datedFrom}::date`] : []),
  ...(datedTo ? [sql`entry.document_date <= ${datedTo}::date`] : []),
  ...(minConfidence === null ? [] : [sql`entry.confidence >= ${minConfidence}::real`]),
]

/**
 * Checks the passages of a long document: phrases, words of the content, and words that did not fit into its entry. `needsPassage`: passages decide
 * although all words of the document are in its entry.
 */
export const inPassages = (checks: readonly { query: string; needsPassage: boolean; isNegated: boolean }[]): RawBuilder<boolean> =>
  sql`(entry.parts = 0 or dms_search_in_passages(entry.document_id, entry.segment, entry.parts, (select ${checks.map(({ query }) => query)}::text[]::tsquery[]),
    ${checks.map(({ needsPassage }) => needsPassage)}::boolean[], ${checks.map(({ isNegated }) => isNegated)}::boolean[]))`

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

export const where = (conditions: readonly Condition[]): RawBuilder<unknown> =>
  conditions.length === 0 ? sql`` : sql`where ${sql.join([...conditions], sql` and `)}`
