/** Top queries: find the best of very many matches by impact terms, highest levels first. */
import type { Term } from '../../../query/parser.ts'
import type { Expansions } from '../../../vocabulary/expansions.ts'
import { maxImpact } from '../index/document-vector.ts'
import { impactTerm } from '../index/terms.ts'
import type { TopQuery } from './plan.ts'
import { type Sequence, type Step, sequencesOf } from './term-queries.ts'
import { and, not, or, quote } from './tsquery.ts'

/** Maximum number of expansions per word. */
const maxExpansions = 8
/** Lowest impact level of a word in the title. */
const titleImpact = 3

type Groups = readonly (readonly Term[])[]

/**
 * The queries in the order to try them. `filters`: tsqueries that all matches satisfy; `supersets`: the index query of each group. Empty if a term is
 * of a field without impacts.
 */
export function topQueries(groups: Groups, expansions: Expansions, filters: readonly string[], supersets: readonly string[]): TopQuery[] {
  if (groups.length === 0 || groups.some((group) => group.some(({ field }) => field !== null && field !== 'title'))) return []
  const hasField = groups.some((group) => group.some(({ field }) => field !== null))
  const levels = Array.from({ length: maxImpact }, (_, nth) => maxImpact - nth)
  // A document with an impact of every group has their words.
  const ofEvery = { rest: and([...filters, ...(hasField ? supersets : [])]) || null }
  const ofSome = { rest: and([...filters, ...supersets]) }
  const queries = levels.flatMap((level): TopQuery[] => {
    // Other words of the list may have a higher level.
    const accepted = groups.length === 1 ? [level] : levelsFrom(level)
    const typed = groups.map((group) => withImpact(group, accepted, typedOnly, new Map()))
    const expanded = groups.map((group) => withImpact(group, accepted, nearest, expansions))
    const [all, any] = [and(typed), and(expanded)]
    if (groups.length === 1) return [{ impact: all, ...ofEvery }, ...(any === all ? [] : [{ impact: and([any, not(all)]), ...ofEvery }])]
    return [...(level >= titleImpact ? [{ impact: any, ...ofEvery }] : []), { impact: or(expanded), ...ofSome }]
  })
  return queries
}

const typedOnly = (step: Step): Step => ({ ...step, words: step.words.slice(0, 1), prefix: false })
const nearest = (step: Step): Step => ({ ...step, words: step.words.slice(0, 1 + maxExpansions) })

/** Returns a tsquery: all words of a term of the group have one of these impact levels. */
function withImpact(group: readonly Term[], levels: readonly number[], form: (step: Step) => Step, expansions: Expansions): string {
  const one = ({ words, prefix }: Step) =>
    or(
      words.flatMap((word, index) =>
        levels.map((level) => `${quote(impactTerm(word, level))}${prefix && index === 0 && word.length > 2 ? ':*' : ''}`),
      ),
    )
  const sequence = (steps: Sequence) => and(steps.map((step) => one(form(step))))
  return or(group.flatMap((term) => sequencesOf(term, expansions).map(sequence)))
}

/** Returns impact queries for lists of words: one word of each list first, then of any list. */
export function impactQueries(lists: readonly (readonly string[])[]): string[] {
  if (lists.length === 0) return []
  const anyOf = (words: readonly string[], levels: readonly number[]) =>
    or(words.flatMap((word) => levels.map((level) => quote(impactTerm(word, level)))))
  return [levelsFrom(titleImpact), levelsFrom(1)].flatMap((levels) => {
    const each = lists.map((words) => anyOf(words, levels))
    return lists.length === 1 ? each : [and(each), or(each)]
  })
}

const levelsFrom = (least: number): number[] => Array.from({ length: maxImpact - least + 1 }, (_, nth) => least + nth)
