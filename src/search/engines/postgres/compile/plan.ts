/** What a search asks of each segment. Conditions are SQL over `entry`, a row of a segment. */
import { type RawBuilder, sql } from 'kysely'
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import { fieldScores } from '../index/document-vector.ts'
import { or } from './tsquery.ts'

type Condition = RawBuilder<unknown>

export interface Plan {
  /** What the index answers. */
  readonly indexed: readonly Condition[]
  /** What the columns of a row answer, and the passages of a long document. */
  readonly filters: readonly Condition[]
  /** What positions answer: checked from the newest entry on, until there are enough, because each check reads the whole tsvector. */
  readonly checks: readonly Condition[]
  /** What only the row of `documents` answers, checked likewise. */
  readonly tests: readonly Condition[]
  /** So many documents are tested, the newest; null: all. */
  readonly maxTested: number | null
  /** 0 to 1 */
  readonly score: RawBuilder<number>
  /** How the best of very many matches are found, the highest impact first; empty where impacts say nothing. */
  readonly top: readonly TopQuery[]
  /** What the index is asked along with these. */
  readonly topIndexed: readonly Condition[]
}

export interface TopQuery {
  /** A tsquery over impact terms. */
  readonly impact: string
  /** What matches must answer besides; null: the impact terms say it all. */
  readonly rest: string | null
}

/** A tsquery for the index. The subquery hides its selectivity, which PostgreSQL would estimate so that it reads every row instead. */
export const indexed = (query: string): Condition => sql`entry.words @@ (select ${query}::text::tsquery)`

/** One of many tsqueries, each looked up on its own: in one, every document found would be evaluated against all. */
export const indexedAny = (queries: readonly string[]): Condition =>
  sql`entry.words @@ any ((select ${queries}::text[]::tsquery[])::tsquery[])`

/** That an entry has all of these tags. */
export const withTags = (tags: readonly number[]): Condition[] => (tags.length === 0 ? [] : [sql`entry.tags @> ${tags}::smallint[]`])

/** Dates and confidence, of which the index knows months and deciles only. */
export const rangeConditions = ({ from, to, minConfidence }: SearchFilter): Condition[] => [
  ...(from ? [sql`entry.created_at >= ${from}`] : []),
  ...(to ? [sql`entry.created_at <= ${to}`] : []),
  ...(minConfidence === null ? [] : [sql`entry.confidence >= ${minConfidence}`]),
]

export interface PassageCheck {
  readonly query: string
  readonly isPhrase: boolean
  readonly isNegated: boolean
}

/** Whether the passages of a long document answer what its entry cannot: phrases, and words that did not fit. */
export const inPassages = (checks: readonly PassageCheck[]): RawBuilder<boolean> =>
  sql`(entry.parts = 0 or dms_search_in_passages(entry.document_id, entry.segment, entry.parts, (select ${checks.map(({ query }) => query)}::text[]::tsquery[]),
    ${checks.map(({ isPhrase }) => isPhrase)}::boolean[], ${checks.map(({ isNegated }) => isNegated)}::boolean[]))`

/** The score of an entry by one tsquery, 0 to 1. */
export const rank = (query: string): RawBuilder<number> =>
  sql`ts_rank(${sql.lit(`{${fieldScores.D}, ${fieldScores.C}, ${fieldScores.B}, ${fieldScores.A}}`)}, entry.words, ${query}::tsquery)`

/** A part of the score. */
export interface Weighted {
  readonly query: string
  readonly weight: number
}

/** With more parts, all are ranked as one tsquery. */
const maxParts = 8

/** The weighted mean of ranks, 0 to 1. */
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
