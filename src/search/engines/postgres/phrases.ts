/** Rows of words, as tsqueries: what must stand in a field, one after the other. */
import type { SearchField } from '../../../ports/search-engine.ts'
import type { Term } from '../../query/parser.ts'
import { orderOf } from './token-order.ts'
import { and, inRow, lexeme, or } from './tsquery.ts'
import { codeLexeme, headingLexeme, headingOnlyLexeme, quote } from './tsvector.ts'

export const weights = { any: '', title: 'A', labels: 'B', filename: 'C', content: 'D' } as const
export type TextField = keyof typeof weights
export type Weight = (typeof weights)[TextField]

export const isText = (field: SearchField): field is TextField => Object.hasOwn(weights, field)

/** One place in a row of words: any of `words`, of which the first may go on where `prefix`. */
export interface Step {
  readonly words: readonly string[]
  readonly prefix: boolean
  readonly offset: number
  /** see Part */
  readonly isWord?: boolean
  readonly begun?: readonly string[]
}

/** A term as rows, one of which is enough. `others`: what else counts as a word of it, where it is one alone or its parts are written as one. */
export function rowsOf({ parts, joined }: Term, others: ReadonlyMap<string, readonly string[]>): Step[][] {
  const last = parts.at(-1)!
  const inOrder = parts.map((part) => ({
    words: [part.text, ...(parts.length === 1 ? (others.get(part.text) ?? []) : [])],
    prefix: part.prefix,
    offset: part.offset,
    ...(part.isWord && { isWord: true }),
    ...(part.begun && { begun: part.begun }),
  }))
  return [inOrder, ...(joined === null ? [] : [[{ words: [joined, ...(others.get(joined) ?? [])], prefix: last.prefix, offset: 0 }]])]
}

export const oneOfWords = ({ words, prefix }: Step, weight: Weight, max = Number.POSITIVE_INFINITY): string =>
  or(words.slice(0, max).map((text, index) => lexeme({ text, prefix: prefix && index === 0 }, weight)))

/**
 * The same for the index. Of all that begins so PostgreSQL makes a list first, in which common words have most: so those that are known are looked up by name, and only what is not made of letters alone
 * by how it begins. Where they are not known, the word itself is looked up by name, and what it goes on to by its next letter. (A word in two alphabets is not found by its beginning then.)
 */
export const oneOfLookedUp = (step: Step, weight: Weight): string => {
  const [word = ''] = step.words
  if (step.prefix && step.begun && weight === '')
    return or([...new Set([...step.words, ...step.begun])].map(quote).concat(lexeme({ text: codeLexeme(word), prefix: true })))
  if (!step.isWord || !step.prefix || !/^[a-z0-9]+$/.test(word)) return oneOfWords(step, weight)
  const longer = [...nextLetters].map((letter) => lexeme({ text: word + letter, prefix: true }, weight))
  return or([...step.words.map((text) => lexeme({ text, prefix: false }, weight)), or(longer)])
}

const nextLetters = 'abcdefghijklmnopqrstuvwxyz0123456789'

export const inARow = (row: readonly Step[], weight: Weight): string =>
  inRow(row.map((step) => ({ query: oneOfWords(step, weight), offset: step.offset })))

/** Words in one look into the index: each look reads anew what is asked besides, and one with many words holds what it finds against each of them. */
const wordsInLook = 16

/** Tsqueries one of which every document answers that has a word of the step in the field; of long documents some others too. */
export function each({ words, prefix }: Step, field: TextField): string[] {
  const weight = weights[field]
  const isMarked = weight === 'A' || weight === 'B' || weight === 'C'
  const one = (word: string, index: number) =>
    lexeme({ text: isMarked ? headingLexeme(word, weight) : word, prefix: prefix && index === 0 })
  return inLooks([...words.map(one), ...(isMarked ? [] : [quote('~many')])])
}

/** The same of those that have it in the text, where entries have hints; besides, those that have a word of the title or the like that begins with the first, where that may go on: see `begunOutside`. */
export const eachInText = ({ words, prefix }: Step): string[] =>
  inLooks([...words.map((word, index) => (prefix && index === 0 ? lexeme({ text: word, prefix }) : inText(word))), quote('~many')])

/** Tsqueries one of which only what has one of these words in the text, or anywhere, answers, where entries have hints. */
export const allIn = (words: readonly string[], field: 'content' | 'any'): string[] =>
  inLooks(words.map(field === 'content' ? inText : quote))

/** What has a word that begins so in the title, a label or the filename, but not in the text. */
export const begunOutside = (word: string): string => lexeme({ text: headingOnlyLexeme(word), prefix: true })

function inLooks(queries: readonly string[]): string[] {
  return Array.from({ length: Math.ceil(queries.length / wordsInLook) }, (_, nth) =>
    or(queries.slice(nth * wordsInLook, (nth + 1) * wordsInLook)),
  )
}

export interface LookedUp {
  /** a tsquery that every document answers which has the terms; of long ones some others too */
  readonly candidate: string
  /** one that the index answers without a look at the words of documents: it finds what `candidate` finds, and perhaps more */
  readonly loose: string
  /** one that the index answers without such a look for exactly what answers `candidate`, where the entries have hints; not there: there is none */
  readonly known?: string
  /** what some passage of a long document must answer besides */
  readonly passages: string[]
}

/** What asks for all of these terms, each of which is any of its rows of words. */
export function lookedUp(terms: readonly (readonly (readonly Step[])[])[], field: TextField): LookedUp {
  const weight = weights[field]
  if (weight === 'A' || weight === 'B' || weight === 'C') {
    const marked = (step: Step): string => oneOfWords({ ...step, words: step.words.map((word) => headingLexeme(word, weight)) }, '')
    // The place is looked up in what the marks leave: to see it, PostgreSQL reads all words of a document.
    const inField = (row: readonly Step[]): string => and([...row.map(marked), ...(row.length > 1 ? [inARow(row, weight)] : [])])
    const somewhere = (row: readonly Step[]): string => and(row.map(marked))
    return {
      candidate: and(terms.map((rows) => or(rows.map(inField)))),
      loose: and(terms.map((rows) => or(rows.map(somewhere)))),
      passages: [],
    }
  }
  const alone = terms.map((rows) => or(rows.map((row) => inARow(row, weight))))
  const apart = terms.map((rows) => or(rows.map((row) => and(row.map((step) => oneOfLookedUp(step, ''))))))
  const loose = or([and(apart), quote('~many')])
  const isAlone = terms.every((rows) => rows.every((row) => row.length === 1))
  if (weight === '' && isAlone) return { candidate: loose, loose, passages: alone }
  const candidate = or([and(alone), and([quote('~long'), ...apart]), quote('~many')])
  if (!isAlone || terms.some((rows) => rows.some(([step]) => step!.prefix))) return { candidate, loose, passages: alone }
  return {
    candidate,
    loose,
    known: or([and(terms.map((rows) => or(rows.flatMap(([step]) => step!.words.map(inText))))), quote('~many')]),
    passages: alone,
  }
}

/** A word, whole, in the text. */
const inText = (word: string): string => and([quote(word), `!${quote(headingOnlyLexeme(word))}`])

/** Words that follow each other. */
export interface Row {
  /** what shows it in the order of a text; see token-order.ts */
  readonly order: Buffer
  /** a tsquery that every document answers which has them all in headings; null: there they do not count */
  readonly headings: string | null
}

/** The row of a phrase that every entry with it has a hint of (see rowHints in tags.ts); null where its order does not show it. */
export function rowOf({ parts, joined, field }: Term): Row | null {
  const isPlain = joined === null && parts.length > 1 && parts.every(({ prefix, offset }, nth) => !prefix && offset === nth)
  if (!isPlain || (field !== null && field !== 'content')) return null
  const order = orderOf(parts.map(({ text }) => text))
  return { order, headings: field === 'content' ? null : and(parts.map(({ text }) => `${quote(text)}:ABC`)) }
}
