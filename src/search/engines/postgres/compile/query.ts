/** Compiles the terms of a query into a plan. */
import { type RawBuilder, sql } from 'kysely'
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import { type Group, groupsOf, type Term, wordsOf } from '../../../query/parser.ts'
import type { Expansions } from '../../../vocabulary/expansions.ts'
import { edgeTag, shinglesOf } from '../index/tags.ts'
import { weights } from '../index/terms.ts'
import { type Idf, idfOf } from './idf.ts'
import { indexed, inPassages, type Plan, rangeConditions, rank, rankOf, type Weighted, withTags } from './plan.ts'
import { queryOf, sequenceQuery, sequencesOf, stepQuery, type TermQuery } from './term-queries.ts'
import { topQueries } from './top-queries.ts'
import { and, filterQueries, not, or, quote, scanKeys } from './tsquery.ts'

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
  const compiled = groups.map((group) => groupQuery(group, expansions))
  const isNegated = (nth: number): boolean => groups[nth]![0]!.negated
  const { required, excluded } = filterQueries(filter)
  const negated = compiled.flatMap(({ superset, check }, nth) => (isNegated(nth) && check === null ? [not(superset)] : []))
  const positive = groups.filter(([first]) => !first!.negated)
  const positiveTerms = positive.flat()
  const checks = compiled.flatMap(({ check }, nth) => (check === null ? [] : isNegated(nth) ? [not(check)] : [check]))
  const any = or(positiveTerms.flatMap((term) => words(isShortPrefix(term) ? whole(term) : term, expansions)))
  const typed = positiveTerms.map((term) => ({ query: or(words(whole(term), new Map())), weight: idfOf(wordsOf([term]), idf) }))
  const supersets = compiled.flatMap(({ superset }, nth) => (isNegated(nth) || edgeOf(groups[nth]!) !== null ? [] : [superset]))
  const tags = [...shingles(positive), ...positive.flatMap((group) => edgeOf(group) ?? [])]
  const wholeWords = positive
    .filter((group) => edgeOf(group) === null)
    .map(
      (group) =>
        groupQuery(
          group.map((term) => (isShortPrefix(term) ? term : whole(term))),
          expansions,
        ).superset,
    )
  return {
    plan: {
      indexed: [...scanKeys([...required, ...supersets], [...excluded, ...negated]).map(indexed), ...withTags(tags)],
      filters: [
        ...rangeConditions(filter),
        inPassages(
          groups.map((group) => ({
            query: passageQuery(group, expansions),
            needsPassage: group.some(needsPassage),
            isNegated: group[0]!.negated,
          })),
        ),
      ],
      checks: checks.length === 0 ? [] : [sql`entry.words @@ ${and(checks)}::tsquery`],
      tests: [],
      maxTested: null,
      score: score(typed, any, proximityPairs(positive)),
      top: topQueries(positive, expansions, [...required, ...excluded, ...negated], wholeWords),
      topIndexed: withTags(tags),
    },
    all: positive.length === 0 ? null : and(positive.map((group) => passageQuery(group, expansions))),
    any,
  }
}

/** Whether the entry of a long document cannot decide: it lacks positions, and a prefix in the content also matches words of headings. */
const needsPassage = ({ parts, field, negated }: Term): boolean =>
  parts.length > 1 || (field === 'content' && (negated || parts[0]!.prefix))

const whole = (term: Term): Term => ({ ...term, parts: term.parts.map((part) => ({ ...part, prefix: false })) })

/** Whether a term is a prefix of one or two letters. Its number of occurrences is no sign of relevance. */
const isShortPrefix = ({ parts }: Term): boolean => parts.length === 1 && parts[0]!.prefix && parts[0]!.text.length <= 2

/** Returns the shingle tags that every match has: the tags of phrases without alternatives. */
const shingles = (groups: readonly Group[]): number[] =>
  groups.flatMap(([term, ...others]) => (others.length === 0 && term!.joined === null ? shinglesOf(term!.parts) : []))

/** Returns the tag that is equivalent to a group: a prefix of one or two letters in any field. Otherwise null. */
function edgeOf([term, ...others]: Group): number | null {
  const { parts, joined, field, negated } = term!
  const [part, ...more] = parts
  return others.length === 0 && more.length === 0 && joined === null && field === null && !negated && part!.prefix
    ? edgeTag(part!.text)
    : null
}

function groupQuery(group: Group, expansions: Expansions): Omit<TermQuery, 'passages'> {
  const compiled = group.map((term) =>
    term.negated ? negatedQuery(term, expansions) : queryOf([sequencesOf(term, expansions)], term.field ?? 'any'),
  )
  const isExact = compiled.every(({ check }) => check === null)
  return {
    superset: or(compiled.map(({ superset }) => superset)),
    check: isExact ? null : or(compiled.map(({ check, superset }) => check ?? superset)),
  }
}

/** Compiles a negated term for the entry. Passages are checked separately. */
function negatedQuery(term: Term, expansions: Expansions): Omit<TermQuery, 'passages'> {
  const sequences = sequencesOf(term, expansions)
  const { field } = term
  if (field !== null && field !== 'content') return queryOf([sequences], field)
  const query = or(sequences.map((sequence) => sequenceQuery(sequence, weights[field ?? 'any'])))
  const isExact = field === null && sequences.every((sequence) => sequence.length === 1)
  return { superset: query, check: isExact ? null : query }
}

const passageQuery = (group: Group, expansions: Expansions): string =>
  or(group.flatMap((term) => sequencesOf(term, expansions).map((sequence) => sequenceQuery(sequence, weights[term.field ?? 'any']))))

const words = (term: Term, expansions: Expansions): string[] =>
  sequencesOf(term, expansions).flatMap((sequence) => sequence.map((step) => stepQuery(step, weights[term.field ?? 'any'])))

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
  const pairs = words.slice(1).flatMap((word, nth): [string, string][] => (word && words[nth] ? [[words[nth], word]] : []))
  return pairs
    .slice(0, maxPairs)
    .map(([one, other]) => or(distances.flatMap((far) => [`(${one} <${far}> ${other})`, `(${other} <${far}> ${one})`])))
}
