/** From a term of a query to tsqueries: one that the index answers, and one that positions are checked with. */
import type { SearchField } from '../../../../ports/search-engine.ts'
import type { Term } from '../../../query/parser.ts'
import type { Expansions } from '../../../vocabulary/expansions.ts'
import { headingOnlyTerm, headingTerm, longTerm, overflowTerm, type TextField, type Weight, weights } from '../index/terms.ts'
import { and, inSequence, lexeme, not, or, quote } from './tsquery.ts'

export const isTextField = (field: SearchField): field is TextField => Object.hasOwn(weights, field)

/** One place of a sequence: any of `words`; the first may go on where `prefix`. */
export interface Step {
  readonly words: readonly string[]
  readonly prefix: boolean
  readonly offset: number
}

/** Words that follow each other. */
export type Sequence = readonly Step[]

/** A term as sequences, one of which is enough: its words, and its words written as one. */
export function sequencesOf({ parts, joined }: Term, expansions: Expansions): Sequence[] {
  const last = parts.at(-1)!
  const inOrder = parts.map(({ text, prefix, offset }) => ({
    words: [text, ...(parts.length === 1 ? (expansions.get(text) ?? []) : [])],
    prefix,
    offset,
  }))
  return [inOrder, ...(joined === null ? [] : [[{ words: [joined, ...(expansions.get(joined) ?? [])], prefix: last.prefix, offset: 0 }]])]
}

/** A step where positions are known. */
export const stepQuery = ({ words, prefix }: Step, weight: Weight, max = Number.POSITIVE_INFINITY): string =>
  or(words.slice(0, max).map((text, index) => lexeme({ text, prefix: prefix && index === 0 }, weight)))

export const sequenceQuery = (sequence: Sequence, weight: Weight): string =>
  inSequence(sequence.map((step) => ({ query: stepQuery(step, weight), offset: step.offset })))

export interface TermQuery {
  /** A tsquery that every match answers, and that the index answers without a look at positions. */
  readonly superset: string
  /** A tsquery that of the documents that answer `superset` only matches answer, passages apart; null: all are matches. */
  readonly check: string | null
  /** Of a long document some passage must answer each of these. */
  readonly passages: readonly string[]
}

/** All of these terms in one field; each is given as its sequences. */
export function queryOf(terms: readonly (readonly Sequence[])[], field: TextField): TermQuery {
  const superset = and(terms.map((sequences) => or(sequences.map((sequence) => and(sequence.map((step) => stepInField(step, field)))))))
  const isExact = terms.flat().every((sequence) => sequence.length === 1 && !(field === 'content' && sequence[0]!.prefix))
  const exact = terms.map((sequences) => or(sequences.map((sequence) => sequenceQuery(sequence, weights[field]))))
  if (field === 'title' || field === 'labels' || field === 'filename') return { superset, check: isExact ? null : and(exact), passages: [] }
  const overflowing = or([superset, quote(overflowTerm)])
  if (isExact) return { superset: overflowing, check: null, passages: exact }
  return { superset: overflowing, check: or([and(exact), and([quote(longTerm), superset]), quote(overflowTerm)]), passages: exact }
}

/** A step as the index answers it, without positions. Of content only a prefix finds more than it should: words of headings. */
export function stepInField({ words, prefix }: Step, field: TextField): string {
  return or(
    words.map((word, index) => {
      const isPrefix = prefix && index === 0
      if (field === 'title' || field === 'labels' || field === 'filename')
        return lexeme({ text: headingTerm(word, weights[field]), prefix: isPrefix })
      const some = lexeme({ text: word, prefix: isPrefix })
      return field === 'any' || isPrefix ? some : and([some, not(quote(headingOnlyTerm(word)))])
    }),
  )
}
