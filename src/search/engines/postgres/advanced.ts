/** Advanced search: clauses on fields, joined by must, should and must_not. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { AdvancedQuery, SearchAnswer } from '../../../ports/search-engine.ts'
import { type Highlighting, hits, markersOf, noHighlighting } from '../../hits.ts'
import { mergeExpansions } from '../../vocabulary/expansions.ts'
import { type CompiledClause, compileClauses, wordsIn } from './compile/clauses.ts'
import { type Conditions, compileConditions, isMet } from './compile/conditions.ts'
import { type Idf, idfOf, loadIdf } from './compile/idf.ts'
import { rankOf, type TopQuery } from './compile/plan.ts'
import { impactQueries } from './compile/top-queries.ts'
import { and, or } from './compile/tsquery.ts'
import { match } from './match/match.ts'

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
  const ranked = [...conditions.must, ...conditions.should]
  const { selection, keys } = compileConditions(conditions, query.filter)
  const plan = {
    ...selection,
    score: score(conditions, idf),
    top: conditions.must.some(({ anyOf }) => anyOf) ? [] : topQueries(ranked, keys),
  }
  const { page, ...matches } = await match(db, plan, query.sort, query)
  return { ...matches, hits: await hits(db, page, query.highlight ? highlighting(ranked) : noHighlighting) }
}

/** Ranks by words, weighted by idf. A should clause without words counts as one word with rank 0 or 1. */
function score({ must, should }: Conditions<CompiledClause>, idf: Idf): RawBuilder<number> {
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
function highlighting(positive: readonly CompiledClause[]): Highlighting {
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
