/** Searches by conditions on fields. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { AdvancedQuery, SearchAnswer } from '../../../ports/search-engine.ts'
import { type Compiled, compile, withHints, wordsIn } from './compile-clauses.ts'
import { hits, type MarkedField, type Shown } from './hits.ts'
import { type Rarities, rarestOf, rarities } from './idf.ts'
import { match } from './match.ts'
import { indexed, inPassages, inRows, lookUpAny, type Plan, type Planned, type Ranked, ranges, rankOfAll } from './plan.ts'
import { filterHints, shortOnes } from './tags.ts'
import { and, eachAlone, filters, or } from './tsquery.ts'
import { gradeLexeme, type HeadingWeight, headingLexeme, quote } from './tsvector.ts'
import { together } from './vocabulary.ts'

/** Texts that one search reads because the index alone cannot say whether they match. */
const maxRead = 10_000

interface Conditions {
  readonly must: readonly Compiled[]
  readonly should: readonly Compiled[]
  readonly mustNot: readonly Compiled[]
}

/** One page of the documents that meet the conditions. */
export async function advanced(db: Db, query: AdvancedQuery): Promise<SearchAnswer> {
  const { must, should, mustNot } = query
  const clauses = [...must, ...should]
  const [all, rare] = await Promise.all([compile(db, [...clauses, ...mustNot]), rarities(db, wordsIn(clauses))])
  const conditionsOf = (all: readonly Compiled[]): Conditions => ({
    must: all.slice(0, must.length),
    should: all.slice(must.length, must.length + should.length),
    mustNot: all.slice(must.length + should.length),
  })
  const conditions = conditionsOf(all)
  const hinted = conditionsOf(all.map(withHints))
  const planned = { hinted: plan(hinted, query, rare, true), plain: plan(conditions, query, rare, false) }
  const { page, ...matches } = await match(db, planned, query.sort, query, commonly(hinted, query, rare))
  return { ...matches, hits: await hits(db, page, query.highlight ? shown(conditions) : { markers: {}, passage: null }) }
}

/** What finds some of them in less time, where entries have hints; not there: nothing does. */
function commonly({ must, ...others }: Conditions, query: AdvancedQuery, rare: Rarities): Planned | undefined {
  if (!must.some(({ common }) => common)) return undefined
  const few = plan({ ...others, must: must.map((clause) => clause.common ?? clause) }, query, rare, true)
  return { hinted: few, plain: few }
}

function plan({ must, should, mustNot }: Conditions, { filter }: AdvancedQuery, rare: Rarities, hasHints: boolean): Plan {
  const oneOf = must.length === 0 ? should : []
  const wide = must.find(({ apart }) => apart)
  const filtered = filters(filter)
  const wanted = [
    ...filtered.wanted,
    ...must.filter((clause) => clause !== wide).flatMap((clause) => looseOf(clause) ?? []),
    ...oneCandidate(oneOf, looseOf),
  ]
  const unwanted = [...filtered.unwanted, ...mustNot.filter((clause) => !isLate(clause)).flatMap(excluded)]
  const hints = hasHints ? must.flatMap((clause) => clause.hints) : []
  const ranged = hasHints ? filterHints(filter) : []
  const isApart = wide !== undefined && hints.length + ranged.length === 0 && [...wanted, ...unwanted].every(isQuick)
  const words = eachAlone(isApart || !wide ? wanted : [...wanted, looseOf(wide)!], unwanted)
  const lateOnes = must.filter(isLate)
  const others = [
    ...(oneOf.some(isLate) ? oneCandidate(oneOf, ({ candidate }) => candidate) : []),
    ...mustNot.filter(isLate).flatMap(excluded),
  ]
  const late = [...lateOnes.flatMap(({ candidate }) => candidate ?? []), ...others]
  const rows = lateOnes.flatMap(({ row }) => row ?? [])
  // Where one of several is enough, each document is looked at besides.
  const doubts = hasHints && oneOf.length === 0 && !mustNot.some(isLate) ? lateOnes.flatMap(({ doubt }) => doubt ?? []) : []
  const decided = [...must.flatMap(passagesOf), ...mustNot.filter(({ test }) => !test).flatMap(exceptPassages)]
  const isShown = oneOf.every(({ candidate, test }) => candidate !== null && !test)
  const tests = [
    ...must.flatMap(({ test }) => (test ? [seen(test)] : [])),
    ...mustNot.filter(({ test }) => test).map((clause) => sql`not ${passes(clause)}`),
    ...(oneOf.length === 0 || isShown ? [] : [anyOf(oneOf)]),
  ]
  const indexedBy = (query: readonly string[], oneOf = ranged) => [
    ...indexed({ matches: query, hints, oneOf }),
    ...(isApart ? [lookUpAny(wide.apart!)] : []),
  ]
  const readers = [...must, ...oneOf, ...mustNot].filter(({ readsContent }) => readsContent).length
  return {
    indexed: indexedBy(words),
    isLong: isApart,
    filters: [...ranges(filter), ...decided],
    late: [
      ...(late.length === 0 ? [] : [inRows(rows.length === late.length ? rows : null, and(late))]),
      ...(oneOf.length > 0 && isShown ? [anyOf(oneOf)] : []),
    ],
    ...(doubts.length > 0 && doubts.length === lateOnes.length ? { doubt: or(doubts) } : {}),
    tests,
    ...(hasHints && tests.length === 1 && must.some(({ sure }) => sure) ? { sure: must.flatMap(({ sure }) => sure ?? []) } : {}),
    maxTested: readers > 0 ? Math.ceil(maxRead / readers) : null,
    score: score(must, should, rare, 'words'),
    roughly: score(must, should, rare, 'telling'),
    best: isApart ? [] : best([...must, ...should]).map((mark) => ({ mark, besides: words })),
    besides: indexedBy([], shortOnes(ranged)),
  }
}

/** From what says much of all clauses to what says something of one of them; see grades in tsvector.ts. */
function best(clauses: readonly Compiled[]): string[] {
  const telling = clauses.filter(({ telling }) => telling.length > 0)
  if (telling.length === 0) return []
  const much = telling.map((clause) => marked(clause, ['A'], [7, 6, 5, 4, 3, 2]))
  const some = telling.map((clause) => marked(clause, ['B', 'C'], [1]))
  return [...new Set([and(much), or(much), and(some), or(some)])]
}

/** That a document has one of these marks for a word of the clause. */
const marked = ({ telling }: Compiled, headings: readonly HeadingWeight[], grades: readonly number[]): string =>
  or(
    telling
      .flatMap((word) => [...headings.map((weight) => headingLexeme(word, weight)), ...grades.map((grade) => gradeLexeme(word, grade))])
      .map(quote),
  )

/** Whether PostgreSQL may well ask this of the index again for each of many words: it takes the one with each of the others. */
const isQuick = (query: string): boolean => query.length < 1000 && !/[!*]/.test(query)

/** Whether the index alone cannot say which documents are candidates. */
const isLate = ({ candidate, loose }: Compiled): boolean => loose !== undefined && loose !== candidate

const looseOf = ({ candidate, loose }: Compiled): string | null => loose ?? candidate

const oneCandidate = (clauses: readonly Compiled[], of: (clause: Compiled) => string | null): string[] => {
  const candidates = clauses.flatMap((clause) => of(clause) ?? [])
  return clauses.length > 0 && candidates.length === clauses.length ? [or(candidates)] : []
}

/** What the index can leave out at once; of long documents the passages decide, and where there is a test, the test. */
const excluded = ({ candidate, passages, test }: Compiled): string[] => {
  if (candidate === null || test) return []
  return [passages.length === 0 ? `!${candidate}` : or([quote('~long'), `!${candidate}`])]
}

/** A test says all there is to say of a long document too. */
function passagesOf({ passages }: Compiled): RawBuilder<boolean>[] {
  if (passages.length === 0) return []
  return [
    inPassages(
      passages,
      passages.map(() => true),
      passages.map(() => false),
    ),
  ]
}

const exceptPassages = (clause: Compiled): RawBuilder<boolean>[] =>
  clause.passages.length === 0 ? [] : [sql`(entry.parts = 0 or not ${passes(clause)})`]

/** The whole of a clause, in terms of `entry`. */
function passes(clause: Compiled): RawBuilder<boolean> {
  const { candidate, test } = clause
  const all = [
    ...(candidate === null ? [] : [sql`entry.words @@ ${candidate}::tsquery`]),
    ...passagesOf(clause),
    ...(test ? [seen(test)] : []),
  ]
  return all.length === 0 ? sql`true` : sql`(${sql.join(all, sql` and `)})`
}

/** A scalar subquery, because PostgreSQL would make a join of anything else, and a join loses the order of the candidates. */
const seen = (test: RawBuilder<boolean>): RawBuilder<boolean> => sql`(select ${test} from documents where documents.id = entry.document_id)`

/** Of what is in one row the index has said it already, where it can. */
function anyOf(clauses: readonly Compiled[]): RawBuilder<boolean> {
  const any = sql<boolean>`(${sql.join(clauses.map(passes), sql` or `)})`
  return clauses.every(({ candidate, test }) => candidate !== null && !test) ? sql`(entry.parts = 0 or ${any})` : any
}

/** By words, the rare ones more than the common; what is not about words counts as one more word each, which is there or not. */
function score(must: readonly Compiled[], should: readonly Compiled[], rare: Rarities, of: Ranked): RawBuilder<number> {
  const ranked = [...must, ...should].flatMap(({ ranked }) => ranked.map(({ query, words }) => ({ query, weight: rarestOf(words, rare) })))
  const byWords = ranked.length === 0 ? sql<number>`0::real` : sql<number>`least(1, ${rankOfAll(ranked, of)})`
  const others = should.filter(({ ranked }) => ranked.length === 0)
  if (others.length === 0) return byWords
  return sql`((${byWords} + ${sql.join(
    others.map((clause) => sql`${passes(clause)}::integer`),
    sql` + `,
  )}) / ${others.length + 1}::real)`
}

/** Each field is marked with what was asked of it. */
function shown({ must, should }: Conditions): Shown {
  const asked = [...must, ...should]
  const marker = (field: MarkedField) => {
    const on = asked.filter(({ clause }) => clause.field === field || clause.field === 'any')
    const terms = on.flatMap((compiled) => compiled.terms)
    const pieces = on.flatMap((compiled) => compiled.pieces)
    const spellings = on.reduce((all, compiled) => together(all, compiled.spellings), new Map<string, string[]>())
    return terms.length + pieces.length === 0 ? {} : { [field]: { terms, substrings: pieces, expansions: spellings } }
  }
  const inText = asked.filter(({ clause, ranked }) => ranked.length > 0 && (clause.field === 'content' || clause.field === 'any'))
  const meant = inText.flatMap(({ ranked }) => ranked.map(({ query }) => query))
  const exact = inText.flatMap(({ passages }) => passages)
  return {
    markers: { ...marker('title'), ...marker('content'), ...marker('filename'), ...marker('labels') },
    passage: meant.length === 0 ? null : { all: and(exact.length === 0 ? [or(meant)] : exact), meant: or(meant) },
  }
}
