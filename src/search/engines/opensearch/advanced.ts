/** Advanced search: conditions on fields, joined by must, should and must_not. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { AdvancedQuery } from '../../../ports/search-engine.ts'
import { type Highlighting, type Matches, noHighlighting } from '../../hits.ts'
import { termsOf } from '../../query/parser.ts'
import { inContent, test } from '../document-conditions.ts'
import { type CompiledClause, compileClause } from './clauses.ts'
import type { Cluster } from './cluster.ts'
import { anyOf, filterOf, type Query } from './filter.ts'
import { highlightingOf } from './highlight.ts'
import { findHits, idOf, match, orderOf } from './matches.ts'
import { withinLimits } from './terms.ts'

/** Maximum number of document texts that one search reads. */
const maxRead = 10_000

const newestFirst = [{ field: 'created_at', order: 'desc' }] as const

interface Conditions {
  readonly must: readonly CompiledClause[]
  readonly should: readonly CompiledClause[]
  readonly mustNot: readonly CompiledClause[]
}

/** Returns one page of the documents that meet the clauses, with their highlights. Returns null if the index does not exist. */
export async function matchAdvanced(
  db: Db,
  cluster: Cluster,
  index: string,
  query: AdvancedQuery,
  languages: readonly string[],
): Promise<{ matches: Matches; highlighting: Highlighting } | null> {
  const clauses = [...query.must, ...query.should, ...query.mustNot]
  const options = withinLimits(
    { fuzzy: false, languages },
    clauses.filter(({ type }) => type === 'match').reduce((sum, { value }) => sum + termsOf(value).length, 0),
  )
  const [must, should, mustNot] = [query.must, query.should, query.mustNot].map((list) =>
    list.map((clause) => compileClause(clause, options)),
  )
  const conditions: Conditions = { must: must!, should: should!, mustNot: mustNot! }
  const decided = await decide(db, cluster, index, query, conditions)
  if (decided === null) return null
  const scored = [...conditions.must, ...conditions.should]
  const whole = { bool: { ...decided.query, should: scored.flatMap(({ score }) => score) } }
  const matches = await match(cluster, index, whole, query.sort, query)
  if (matches === null) return null
  return {
    matches: { ...matches, isCapped: matches.isCapped || decided.isCut },
    highlighting: query.highlight ? highlightingOfClauses(db, scored) : noHighlighting,
  }
}

interface Decided {
  readonly query: { readonly filter: readonly Query[]; readonly must_not: readonly Query[] }
  /** The limit of read texts was reached; there are more candidates. */
  readonly isCut: boolean
}

/** Returns the conditions. Reads the texts of candidates if the index is not exact. Returns null if the index does not exist. */
async function decide(
  db: Db,
  cluster: Cluster,
  index: string,
  query: AdvancedQuery,
  { must, should, mustNot }: Conditions,
): Promise<Decided | null> {
  const { filter, mustNot: excluded } = filterOf(query.filter)
  const oneOf = must.length === 0 ? should : []
  const named = oneOf.map(({ query }, nth) => ({ bool: { filter: [query], _name: String(nth) } }))
  const conditions = {
    filter: [...filter, ...must.map(({ query }) => query), ...(named.length === 0 ? [] : [anyOf(named)])],
    must_not: [...excluded, ...mustNot.filter(({ isSuperset }) => !isSuperset).map(({ query }) => query)],
  }
  const undecided = [...must, ...oneOf, ...mustNot].filter(({ isSuperset }) => isSuperset)
  if (undecided.length === 0) return { query: conditions, isCut: false }
  const max = Math.ceil(maxRead / undecided.length)
  const found = await findHits(cluster, index, { query: { bool: conditions }, sort: orderOf(newestFirst) }, max)
  if (found === null) return null
  const ids = found.hits.map((hit) => idOf(hit, newestFirst))
  // A document that meets a condition which the index decides needs no test for the others.
  const isMet = found.hits.map(
    ({ matched_queries: names = [] }) => oneOf.length === 0 || names.some((name) => !oneOf[Number(name)]!.isSuperset),
  )
  const tests = [
    ...must.filter(({ isSuperset }) => isSuperset).map(testOf),
    ...mustNot.filter(({ isSuperset }) => isSuperset).map((compiled) => sql`not ${testOf(compiled)}`),
    sql`(${sql.join([sql`is_met`, ...oneOf.filter(({ isSuperset }) => isSuperset).map(testOf)], sql` or `)})`,
  ]
  const { rows } = await sql<{ id: string }>`
    select documents.id from unnest(${ids}::uuid[], ${isMet}::boolean[]) candidate (id, is_met) join live_documents documents on documents.id = candidate.id
    where ${sql.join(tests, sql` and `)}`.execute(db)
  return {
    query: { filter: [...filter, { terms: { id: rows.map(({ id }) => id) } }], must_not: excluded },
    isCut: found.total > max,
  }
}

const testOf = ({ clause }: CompiledClause) => test(clause, inContent(clause))

function highlightingOfClauses(db: Db, clauses: readonly CompiledClause[]): Highlighting {
  return highlightingOf(db, { fuzzy: false }, (field) => {
    const onField = clauses.filter(({ clause }) => clause.field === field || clause.field === 'any')
    return { terms: onField.flatMap(({ terms }) => terms), substrings: onField.flatMap(({ substrings }) => substrings) }
  })
}
