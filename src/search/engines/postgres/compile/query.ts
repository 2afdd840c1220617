/** Compiles the terms of a query into a plan. */
import { type RawBuilder, sql } from 'kysely'
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import { type Group, groupsOf, type Term, wordsOf } from '../../../query/parser.ts'
import type { Expansions } from '../../../vocabulary/expansions.ts'
import { edgeTag, shinglesOf, type Tag } from '../index/tags.ts'
import type { TextField } from '../index/terms.ts'
import { type Condition, compileConditions } from './conditions.ts'
import { type Idf, idfOf } from './idf.ts'
import { type Plan, rank, rankOf, type Weighted } from './plan.ts'
import { isHeading, queryOf, sequencesOf, sequencesQuery, stepQueries, type TermQuery } from './term-queries.ts'
import { topQueries } from './top-queries.ts'
import { and, or, quote } from './tsquery.ts'

export interface CompiledQuery {
  readonly plan: Plan
  /** Tsquery that a passage meets if it has all positive terms. Null without positive terms. */
  readonly all: string | null
  /** Tsquery of any word of the positive terms, in any form. */
  readonly any: string
}

/** Compiles a query. Returns null for a query without terms, which matches nothing. */
export function compileQuery(terms: readonly Term[], expansions: Expansions, filter: SearchFilter, idf: Idf): CompiledQuery | null {
  if (terms.length === 0) return null
  const groups = groupsOf(terms)
  const positive = groups.filter(([first]) => !first!.negated)
  const must = positive.map((group) => conditionOf(group, expansions))
  const mustNot = groups.filter(([first]) => first!.negated).map((group) => conditionOf(group, expansions))
  const { selection, filterKeys } = compileConditions({ must, should: [], mustNot }, filter)
  const wholeWords = positive
    .filter((group) => !isTag(group))
    .map((group) => group.map((term) => (isShortPrefix(term) ? term : whole(term))))
    .map((group) => or(queriesOf(group, expansions).map(({ superset }) => superset)))
  const positiveTerms = positive.flat()
  const any = or(positiveTerms.flatMap((term) => wordQueries(isShortPrefix(term) ? whole(term) : term, expansions)))
  const typed = positiveTerms.map((term) => ({ query: or(wordQueries(whole(term), new Map())), weight: idfOf(wordsOf([term]), idf) }))
  return {
    plan: {
      ...selection,
      score: score(typed, any, proximityPairs(positive)),
      top: topQueries(positive, expansions, filterKeys, wholeWords),
    },
    all: positive.length === 0 ? null : and(positive.map((group) => passageQuery(group, expansions))),
    any,
  }
}

const whole = (term: Term): Term => ({ ...term, parts: term.parts.map((part) => ({ ...part, prefix: false })) })

/** Whether a term is a prefix of one or two letters. Its number of occurrences is no sign of relevance. */
const isShortPrefix = ({ parts }: Term): boolean => parts.length === 1 && parts[0]!.prefix && parts[0]!.text.length <= 2

/** Returns the tags that every match of a group has: the shingles of a phrase, or the edge tag of a prefix. Groups with alternatives have none. */
function tagsOf([term, ...others]: Group): Tag[] {
  const { parts, joined, field } = term!
  if (others.length > 0 || joined !== null) return []
  const edge = parts.length === 1 && field === null && parts[0]!.prefix ? edgeTag(parts[0]!.text) : null
  return edge === null ? shinglesOf(parts) : [{ number: edge, isDeferred: false }]
}

/** Whether the tag of a group is equivalent to it. */
const isTag = (group: Group): boolean => group[0]!.parts.length === 1 && tagsOf(group).length > 0

/** Compiles a group: a match has at least one of its terms. */
function conditionOf(group: Group, expansions: Expansions): Condition {
  const compiled = queriesOf(group, expansions)
  const isExact = compiled.every(({ check }) => check === null)
  return {
    superset: isTag(group) ? null : or(compiled.map(({ superset }) => superset)),
    check: isExact ? null : or(compiled.map(({ check, superset }) => check ?? superset)),
    passages: group.every((term) => isHeading(fieldOf(term))) ? [] : [passageQuery(group, expansions)],
    tags: tagsOf(group),
  }
}

const queriesOf = (group: Group, expansions: Expansions): TermQuery[] =>
  group.map((term) => queryOf([sequencesOf(term, expansions)], fieldOf(term)))

const fieldOf = ({ field }: Term): TextField => field ?? 'any'

const passageQuery = (group: Group, expansions: Expansions): string =>
  or(group.map((term) => sequencesQuery(sequencesOf(term, expansions), fieldOf(term))))

const wordQueries = (term: Term, expansions: Expansions): string[] => stepQueries(sequencesOf(term, expansions), fieldOf(term))

/**
 * Returns the score: the sum over the matched words, weighted by idf. The typed form of a word counts twice as much as its other forms: stem,
 * prefix, typo. Adjacent words add a little.
 */
function score(typed: readonly Weighted[], any: string, pairs: readonly string[]): RawBuilder<number> {
  if (typed.length === 0) return sql`0::real`
  const byTyped = rankOf(typed)
  const byWords = or(typed.map(({ query }) => query)) === any ? byTyped : sql<number>`(${byTyped} + ${rank(any)}) / 2`
  return pairs.length === 0 ? sql`least(1, ${byWords})` : sql`least(1, ${byWords} + ${proximity(pairs)})`
}

/** Maximum share of proximity in a score. It is less than one occurrence, so it only orders similar documents. */
const maxProximity = 0.03
const maxPairs = 8
/** Distances of two words, in words. */
const distances = [1, 2, 3]

const proximity = (pairs: readonly string[]): RawBuilder<number> =>
  sql`(select count(*) * ${maxProximity / pairs.length}::real from unnest(${pairs}::text[]::tsquery[]) pair where entry.words @@ pair)::real`

/** Returns a tsquery for each two consecutive words of the query: both occur near each other. */
function proximityPairs(groups: readonly Group[]): string[] {
  const words = groups.map(([term, ...others]) =>
    others.length > 0 || term!.parts.length > 1 || term!.field !== null ? null : quote(term!.parts[0]!.text),
  )
  const pairs = words.slice(1).flatMap((other, nth) => {
    const one = words[nth]
    return one && other ? [or(distances.flatMap((far) => [`(${one} <${far}> ${other})`, `(${other} <${far}> ${one})`]))] : []
  })
  return pairs.slice(0, maxPairs)
}
