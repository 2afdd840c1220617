/** Compiles a term into tsqueries: one for the index, one that checks positions. */
import type { SearchField } from '../../../../ports/search-engine.ts'
import type { Term } from '../../../query/parser.ts'
import type { Expansions } from '../../../vocabulary/expansions.ts'
import { headingOnlyTerm, headingTerm, longTerm, overflowTerm, type TextField, weights } from '../index/terms.ts'
import { and, inSequence, lexeme, not, or, quote } from './tsquery.ts'

export const isTextField = (field: SearchField): field is TextField => Object.hasOwn(weights, field)
export const isHeading = (field: TextField): field is Exclude<TextField, 'any' | 'content'> => field !== 'any' && field !== 'content'

/** A position of a sequence: one of `words`. The first word is a prefix if `prefix`. */
export interface Step {
  readonly words: readonly string[]
  readonly prefix: boolean
  readonly offset: number
}

/** Consecutive words. */
export type Sequence = readonly Step[]

/** Returns the alternative sequences of a term: its words, its words written as one, and the digits of a number in groups. */
export function sequencesOf({ parts, joined, grouped }: Term, expansions: Expansions): Sequence[] {
  const last = parts.at(-1)!
  const inOrder = parts.map(({ text, prefix, offset }) => ({
    words: [text, ...(parts.length === 1 ? (expansions.get(text) ?? []) : [])],
    prefix,
    offset,
  }))
  return [
    inOrder,
    ...(joined === null ? [] : [[{ words: [joined, ...(expansions.get(joined) ?? [])], prefix: last.prefix, offset: 0 }]]),
    ...(grouped === null ? [] : [grouped.map(({ text, prefix, offset }) => ({ words: [text], prefix, offset }))]),
  ]
}

/** Returns the tsquery of a step, for text with positions. */
export const stepQuery = ({ words, prefix }: Step, field: TextField, max = Number.POSITIVE_INFINITY): string =>
  or(words.slice(0, max).map((text, index) => lexeme({ text, prefix: prefix && index === 0 }, weights[field])))

/** Returns the tsqueries of all steps, for text with positions. */
export const stepQueries = (sequences: readonly Sequence[], field: TextField): string[] =>
  sequences.flatMap((sequence) => sequence.map((step) => stepQuery(step, field)))

/** Returns the tsquery of alternative sequences, for text with positions. */
export const sequencesQuery = (sequences: readonly Sequence[], field: TextField): string =>
  or(sequences.map((sequence) => inSequence(sequence.map((step) => ({ query: stepQuery(step, field), offset: step.offset })))))

export interface TermQuery {
  /** A tsquery that the index evaluates without positions and every match meets. */
  readonly superset: string
  /** A tsquery that separates matches from other documents of `superset`, except by passages. Null: all are matches. */
  readonly check: string | null
  /** Tsqueries that passages of a long document must meet, each by some passage. */
  readonly passages: readonly string[]
}

/** Compiles terms that must all occur in a field. Each term is a list of alternative sequences. */
export function queryOf(terms: readonly (readonly Sequence[])[], field: TextField): TermQuery {
  const superset = and(terms.map((sequences) => or(sequences.map((sequence) => and(sequence.map((step) => stepInField(step, field)))))))
  const isExact = terms.flat().every((sequence) => sequence.length === 1 && !(field === 'content' && sequence[0]!.prefix))
  const exact = terms.map((sequences) => sequencesQuery(sequences, field))
  if (isHeading(field)) return { superset, check: isExact ? null : and(exact), passages: [] }
  return {
    superset: or([superset, quote(overflowTerm)]),
    check: isExact ? null : or([and(exact), and([quote(longTerm), superset]), quote(overflowTerm)]),
    passages: exact,
  }
}

/** Returns the tsquery of a step for the index, without positions. In the content, a prefix also matches words of headings. */
export function stepInField({ words, prefix }: Step, field: TextField): string {
  return or(
    words.map((word, index) => {
      const isPrefix = prefix && index === 0
      if (isHeading(field)) return lexeme({ text: headingTerm(word, weights[field]), prefix: isPrefix })
      const some = lexeme({ text: word, prefix: isPrefix })
      return field === 'any' || isPrefix ? some : and([some, not(quote(headingOnlyTerm(word)))])
    }),
  )
}
