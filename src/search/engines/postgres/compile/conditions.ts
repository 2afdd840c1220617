/** Conditions of a search: what a document must be, should be, and must not be. */
import { type RawBuilder, sql } from 'kysely'
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import type { Tag } from '../index/tags.ts'
import { longTerm } from '../index/terms.ts'
import { indexed, indexedAny, inPassages, type Plan, rangeConditions, withTags } from './plan.ts'
import type { TermQuery } from './term-queries.ts'
import { and, filterQueries, not, or, quote, scanKeys } from './tsquery.ts'

/** Maximum number of document texts that one search reads. */
const maxRead = 10_000

export interface Condition extends Omit<TermQuery, 'superset'> {
  /** A tsquery that the index evaluates and every match meets. Null: any document may match. */
  readonly superset: string | null
  /** Replaces `superset` if it would be too large: every match meets one of these tsqueries. */
  readonly anyOf?: readonly string[]
  /** Tags that every match has. */
  readonly tags: readonly Tag[]
  /** An additional test of the row of `documents`. */
  readonly test?: RawBuilder<boolean> | null
  readonly readsContent?: boolean
}

export interface Conditions<T extends Condition> {
  readonly must: readonly T[]
  /** A match must meet one of them if `must` is empty. Otherwise they only add to the score. */
  readonly should: readonly T[]
  readonly mustNot: readonly T[]
}

interface CompiledConditions {
  /** The part of a plan that selects documents. */
  readonly selection: Omit<Plan, 'score' | 'top'>
  /** Tsqueries of the filter and of `mustNot`. */
  readonly filterKeys: readonly string[]
  /** Tsqueries of all conditions. */
  readonly keys: readonly string[]
}

/** Compiles conditions and a filter. */
export function compileConditions({ must, should, mustNot }: Conditions<Condition>, filter: SearchFilter): CompiledConditions {
  const oneOf = must.length === 0 ? should : []
  const { required, excluded: excludedByFilter } = filterQueries(filter)
  const excluded = [...excludedByFilter, ...mustNot.flatMap(exclusion)]
  const keys = scanKeys(
    [...required, ...must.flatMap(({ superset, anyOf }) => (superset === null || anyOf ? [] : [superset])), ...anyOfSupersets(oneOf)],
    excluded,
  )
  const tags = must.flatMap(({ tags }) => tags)
  const checks = must.flatMap(({ check }) => check ?? [])
  // The index has decided if the supersets are exact.
  const isDecided = oneOf.every(isInIndex)
  const anyMet = oneOf.length === 0 ? [] : [isDecided ? sql`(entry.parts = 0 or ${anyIsMet(oneOf)})` : anyIsMet(oneOf)]
  const needsTest = oneOf.some(({ test }) => test)
  const readers = [...must, ...oneOf, ...mustNot].filter(({ readsContent }) => readsContent).length
  const selection = {
    indexed: [...keys.map(indexed), ...must.flatMap(({ anyOf }) => (anyOf ? [indexedAny(anyOf)] : [])), ...withTags(tags)],
    filters: [
      ...rangeConditions(filter),
      inPassages(must.filter(({ test }) => !test)),
      ...mustNot
        .filter((condition) => isInIndex(condition) && condition.passages.length > 0)
        .map((condition) => sql`(entry.parts = 0 or not ${isMet(condition)})`),
    ],
    checks: [
      ...(checks.length === 0 ? [] : [sql`entry.words @@ ${and(checks)}::tsquery`]),
      ...mustNot.filter((condition) => !isInIndex(condition) && !condition.test).map((condition) => sql`not ${isMet(condition)}`),
      ...(needsTest ? [] : anyMet),
    ],
    tests: [
      ...must.flatMap(({ test }) => (test ? [onDocument(test)] : [])),
      ...mustNot.filter(({ test }) => test).map((condition) => sql`not ${isMet(condition)}`),
      ...(needsTest ? anyMet : []),
    ],
    maxTested: readers > 0 ? Math.ceil(maxRead / readers) : null,
    topIndexed: withTags(tags),
  }
  return { selection, filterKeys: [...required, ...excluded], keys }
}

/** Whether the index decides about all documents without passages. */
const isInIndex = ({ superset, check, test }: Condition): boolean => superset !== null && check === null && !test

/** Returns the negated tsquery of a condition that no match meets. It excludes no document with passages if these decide. */
function exclusion(condition: Condition): string[] {
  if (!isInIndex(condition)) return []
  const none = not(condition.superset!)
  return [condition.passages.length === 0 ? none : or([quote(longTerm), none])]
}

const anyOfSupersets = (conditions: readonly Condition[]): string[] => {
  const supersets = conditions.flatMap(({ superset }) => superset ?? [])
  return conditions.length > 0 && supersets.length === conditions.length ? [or(supersets)] : []
}

/** Tests the row of `documents`. A scalar subquery keeps the order of the candidates, which a join would not. */
const onDocument = (test: RawBuilder<boolean>): RawBuilder<boolean> =>
  sql`(select ${test} from live_documents documents where documents.id = entry.document_id)`

/** Returns SQL: whether an entry meets a condition. */
export function isMet(condition: Condition): RawBuilder<boolean> {
  const { superset, check, test } = condition
  const queries = [superset, check].filter((query) => query !== null)
  const all = [
    ...(queries.length === 0 ? [] : [sql`entry.words @@ ${and(queries)}::tsquery`]),
    test ? onDocument(test) : inPassages([condition]),
  ]
  return sql`(${sql.join(all, sql` and `)})`
}

const anyIsMet = (conditions: readonly Condition[]): RawBuilder<boolean> => sql`(${sql.join(conditions.map(isMet), sql` or `)})`
