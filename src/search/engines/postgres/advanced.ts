/** Advanced search: clauses on fields, joined by must, should and must_not. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { AdvancedQuery, SearchAnswer } from '../../../ports/search-engine.ts'
import { type Highlighting, hits, markersOf, noHighlighting } from '../../hits.ts'
import { mergeExpansions } from '../../vocabulary/expansions.ts'
import { type CompiledClause, compileClauses, wordsIn } from './compile/clauses.ts'
import { type Idf, idfOf, loadIdf } from './compile/idf.ts'
import { indexed, indexedAny, inPassages, type Plan, rangeConditions, rankOf, type TopQuery, withTags } from './compile/plan.ts'
import { impactQueries } from './compile/top-queries.ts'
import { and, filterQueries, not, or, quote, scanKeys } from './compile/tsquery.ts'
import { longTerm } from './index/terms.ts'
import { match } from './match/match.ts'

/** Maximum number of document texts that one search reads. */
const maxRead = 10_000

interface Conditions {
  readonly must: readonly CompiledClause[]
  readonly should: readonly CompiledClause[]
  readonly mustNot: readonly CompiledClause[]
}

/** Returns one page of the documents that meet the clauses. */
export async function advanced(db: Db, unprepared: Db, query: AdvancedQuery): Promise<SearchAnswer> {
  const { must, should, mustNot } = query
  const positive = [...must, ...should]
  const [all, idf] = await Promise.all([compileClauses(db, unprepared, [...positive, ...mustNot]), loadIdf(db, wordsIn(positive))])
  const conditions = {
    must: all.slice(0, must.length),
    should: all.slice(must.length, positive.length),
    mustNot: all.slice(positive.length),
  }
  const { page, ...matches } = await match(db, planOf(conditions, query, idf), query.sort, query)
  return { ...matches, hits: await hits(db, page, query.highlight ? highlighting(conditions) : noHighlighting) }
}

function planOf({ must, should, mustNot }: Conditions, { filter }: AdvancedQuery, idf: Idf): Plan {
  const oneOf = must.length === 0 ? should : []
  const { required, excluded } = filterQueries(filter)
  const keys = scanKeys(
    [...required, ...must.flatMap(({ superset, anyOf }) => (superset === null || anyOf ? [] : [superset])), ...anyOfSupersets(oneOf)],
    [...excluded, ...mustNot.flatMap(exclusion)],
  )
  const shingles = must.flatMap(({ shingles }) => shingles)
  const checks = must.flatMap(({ check }) => check ?? [])
  // The index has decided if the supersets are exact.
  const isDecided = oneOf.every(({ superset, check, test }) => superset !== null && check === null && !test)
  const tests = [
    ...must.flatMap(({ test }) => (test ? [onDocument(test)] : [])),
    ...mustNot.filter(({ test }) => test).map((clause) => sql`not ${isMet(clause)}`),
  ]
  const anyMet = oneOf.length === 0 ? [] : [isDecided ? sql`(entry.parts = 0 or ${anyIsMet(oneOf)})` : anyIsMet(oneOf)]
  const needsTest = oneOf.some(({ test }) => test)
  const readers = [...must, ...oneOf, ...mustNot].filter(({ readsContent }) => readsContent).length
  return {
    indexed: [...keys.map(indexed), ...must.flatMap(({ anyOf }) => (anyOf ? [indexedAny(anyOf)] : [])), ...withTags(shingles)],
    filters: [
      ...rangeConditions(filter),
      ...must.flatMap(({ passages, test }) => (test || passages.length === 0 ? [] : [passageCondition(passages)])),
    ],
    checks: [
      ...(checks.length === 0 ? [] : [sql`entry.words @@ ${and(checks)}::tsquery`]),
      ...mustNot.filter((clause) => !clause.test && !isExcluded(clause)).map((clause) => sql`not ${isMet(clause)}`),
      ...(needsTest ? [] : anyMet),
    ],
    tests: [...tests, ...(needsTest ? anyMet : [])],
    maxTested: readers > 0 ? Math.ceil(maxRead / readers) : null,
    score: score(must, should, idf),
    top: must.some(({ anyOf }) => anyOf) ? [] : topQueries([...must, ...should], keys),
    topIndexed: withTags(shingles),
  }
}

const anyOfSupersets = (clauses: readonly CompiledClause[]): string[] => {
  const supersets = clauses.flatMap(({ superset }) => superset ?? [])
  return clauses.length > 0 && supersets.length === clauses.length ? [or(supersets)] : []
}

/** Whether a negated tsquery alone excludes all matches of a clause. */
const isExcluded = ({ superset, check, test, passages }: CompiledClause): boolean =>
  superset !== null && check === null && !test && passages.length === 0

/** Returns the negated tsquery for a must_not clause. It never excludes a long document, because passages decide for that. */
function exclusion(clause: CompiledClause): string[] {
  const { superset, check, test } = clause
  if (superset === null || check !== null || test) return []
  return [isExcluded(clause) ? not(superset) : or([quote(longTerm), not(superset)])]
}

const passageCondition = (passages: readonly string[]): RawBuilder<boolean> =>
  inPassages(passages.map((query) => ({ query, needsPassage: true, isNegated: false })))

/** Tests the row of `documents`. A scalar subquery keeps the order of the candidates, which a join would not. */
const onDocument = (test: RawBuilder<boolean>): RawBuilder<boolean> =>
  sql`(select ${test} from live_documents documents where documents.id = entry.document_id)`

/** Returns the condition that an entry meets a clause. */
function isMet({ superset, check, test, passages }: CompiledClause): RawBuilder<boolean> {
  const queries = [superset, check].filter((query) => query !== null)
  const all = [
    ...(queries.length === 0 ? [] : [sql`entry.words @@ ${and(queries)}::tsquery`]),
    ...(passages.length === 0 || test ? [] : [passageCondition(passages)]),
    ...(test ? [onDocument(test)] : []),
  ]
  return all.length === 0 ? sql`true` : sql`(${sql.join(all, sql` and `)})`
}

const anyIsMet = (clauses: readonly CompiledClause[]): RawBuilder<boolean> => sql`(${sql.join(clauses.map(isMet), sql` or `)})`

/** Ranks by words, weighted by idf. A should clause without words counts as one word with rank 0 or 1. */
function score(must: readonly CompiledClause[], should: readonly CompiledClause[], idf: Idf): RawBuilder<number> {
  const parts = [...must, ...should].flatMap(({ ranked }) => ranked.map(({ query, words }) => ({ query, weight: idfOf(words, idf) })))
  const byWords = parts.length === 0 ? sql<number>`0::real` : sql<number>`least(1, ${rankOf(parts)})`
  const others = should.filter(({ ranked }) => ranked.length === 0)
  if (others.length === 0) return byWords
  return sql`((${byWords} + ${sql.join(
    others.map((clause) => sql`${isMet(clause)}::integer`),
    sql` + `,
  )}) / ${others.length + 1}::real)`
}

/** Top queries: documents with impact terms of all clauses first, then of any clause. */
function topQueries(clauses: readonly CompiledClause[], keys: readonly string[]): TopQuery[] {
  const words = clauses.flatMap(({ ranked, clause }) => {
    const all = ranked.flatMap(({ words }) => words)
    return all.length === 0 || clause.field === 'filename' || clause.field === 'labels' ? [] : [all]
  })
  return impactQueries(words).map((impact) => ({ impact, rest: keys.length === 0 ? null : and(keys) }))
}

/** Highlights in each field the words and substrings of its clauses. */
function highlighting({ must, should }: Conditions): Highlighting {
  const positive = [...must, ...should]
  const markers = markersOf((field) => {
    const onField = positive.filter(({ clause }) => clause.field === field || clause.field === 'any')
    return {
      terms: onField.flatMap(({ terms }) => terms),
      substrings: onField.flatMap(({ substrings }) => substrings),
      expansions: onField.reduce((all, { expansions }) => mergeExpansions(all, expansions), new Map<string, string[]>()),
    }
  })
  const inText = positive.filter(({ clause, ranked }) => ranked.length > 0 && (clause.field === 'content' || clause.field === 'any'))
  const any = or(inText.flatMap(({ ranked }) => ranked.map(({ query }) => query)))
  const exact = inText.flatMap(({ passages }) => passages)
  return { markers, passage: any === '' ? null : { all: and(exact.length === 0 ? [any] : exact), any } }
}
