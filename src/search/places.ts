/** Where the terms of a query stand in a text. It is read word by word only around what looks like a word of theirs: to read all of it takes much longer. */
import type { Part, Term } from './query.ts'
import { maxParts, type Word, words } from './words.ts'

/** What to find; `spellings` are the words that count as one of the query, by that word. */
export interface Wanted {
  readonly terms: readonly Term[]
  readonly spellings: ReadonlyMap<string, readonly string[]>
}

export interface Span {
  readonly start: number
  readonly end: number
  /** which of the terms */
  readonly term: number
}

/** Whether these are enough, in no order; all that begin before `upTo` are among them. */
export type IsEnough = (spans: readonly Span[], upTo: number) => boolean

/** Spans after which it is first asked whether they are enough; then each time they have doubled. */
const firstAsked = 4

/** The places, in no order: all, or until there are enough. Time is linear in the length of the text. */
export function places(text: string, { terms, spellings }: Wanted, isEnough: IsEnough): Span[] {
  const wanted = lookUp(terms, spellings)
  const spans: Span[] = []
  const next = (from: number): number => {
    wanted.like.lastIndex = from
    return wanted.like.exec(text)?.index ?? -1
  }
  let asked = firstAsked
  let at = wanted.isNothing ? -1 : next(0)
  for (let from = 0; at >= 0; ) {
    from = beginning(text, from, at)
    const row: Word[] = []
    let placed = 0
    let jump = -1
    for (const word of words(from === 0 ? text : text.slice(from))) {
      if (word.form === 'joined') {
        place(spans, wanted, terms, text, from, word, row)
        continue
      }
      row.push(word)
      if (row.length <= wanted.ahead) continue
      place(spans, wanted, terms, text, from, row[placed++]!, row)
      const upTo = from + row[placed]!.start
      if (upTo <= at) continue
      if (spans.length >= asked) {
        if (isEnough(spans, upTo)) return spans
        asked = spans.length * 2
      }
      at = next(upTo)
      if (at < 0) return spans
      const begins = beginning(text, from + word.end, at)
      if (begins <= from + word.end) continue
      jump = begins
      break
    }
    if (jump < 0) {
      while (placed < row.length) place(spans, wanted, terms, text, from, row[placed++]!, row)
      return spans
    }
    from = jump
  }
  return spans
}

interface Known {
  /** word -> terms that it answers alone */
  readonly whole: ReadonlyMap<string, readonly number[]>
  readonly prefixes: readonly { readonly prefix: string; readonly term: number }[]
  /** first word -> terms of several words */
  readonly starts: ReadonlyMap<string, readonly number[]>
  readonly isNothing: boolean
  /** found wherever any of these may begin, and elsewhere */
  readonly like: RegExp
  /** words that have to be read beyond one to know all about it */
  readonly ahead: number
}

function lookUp(terms: readonly Term[], spellings: Wanted['spellings']): Known {
  const whole = new Map<string, number[]>()
  const starts = new Map<string, number[]>()
  const prefixes: { prefix: string; term: number }[] = []
  const put = (map: Map<string, number[]>, word: string, term: number) => map.set(word, [...(map.get(word) ?? []), term])
  let furthest = 0
  for (const [term, { parts, joined, negated }] of terms.entries()) {
    if (negated) continue
    if (joined) put(whole, joined, term)
    const [first] = parts
    if (!first) continue
    if (parts.length > 1) put(starts, first.text, term)
    else for (const word of new Set([first.text, ...(spellings.get(first.text) ?? [])])) put(whole, word, term)
    if (joined && parts.at(-1)!.prefix) prefixes.push({ prefix: joined, term })
    if (parts.length === 1 && first.prefix) prefixes.push({ prefix: first.text, term })
    furthest = Math.max(furthest, parts.at(-1)!.offset)
  }
  const all = new Set([...whole.keys(), ...starts.keys(), ...prefixes.map(({ prefix }) => prefix)])
  return { whole, prefixes, starts, isNothing: all.size === 0, like: likeAny(all), ahead: furthest + maxParts + 2 }
}

/** Characters of a word that are looked at: with more little is gained. */
const maxLooked = 12
const plain = /[a-z\d]/
/** What any other character is folded to is not known here. */
const other = '[^\\x00-\\x7f]'

/** Where a word begins that is one of these once it is folded, perhaps joined of several; or that is so up to a character that is not in ASCII. */
function likeAny(all: ReadonlySet<string>): RegExp {
  const from = (letters: readonly string[]): string => {
    const [letter, ...rest] = letters
    if (letter === undefined) return ''
    if (!plain.test(letter)) return other
    return `(?:${letter}${rest.length === 0 ? '' : `[^a-z\\d]{0,40}${from(rest)}`}|${other})`
  }
  return new RegExp(`(?<![a-z\\d])(?:${[...all].map((word) => from([...word].slice(0, maxLooked))).join('|')})`, 'gi')
}

/** What ends a word and joins it to no other, which is what all words around depend on. */
const end = /[a-z\d](?:[.,;:!?)]\s|\n)/gi
/** Characters before a place in which such an end is looked for, from the last on. */
const steps = [200, 2_000, 20_000]

/** The last place from which the text can be read as if from its beginning to see what is at `at`; `from` where there is none between the two. */
function beginning(text: string, from: number, at: number): number {
  for (const step of steps) {
    const first = Math.max(from, at - step)
    const last = [...text.slice(first, at).matchAll(end)].at(-1)
    if (last) return first + last.index + last[0].length
    if (first === from) break
  }
  return from
}

/** Adds where the terms stand that begin with this word of the row. */
function place(spans: Span[], wanted: Known, terms: readonly Term[], text: string, from: number, word: Word, row: readonly Word[]): void {
  const start = from + word.start
  const add = (term: number) => spans.push({ start, end: endOf(text, start, from + word.end, word, terms[term]!), term })
  for (const term of wanted.whole.get(word.text) ?? []) add(term)
  for (const { prefix, term } of wanted.prefixes) {
    // Where the first part of a joined word begins like that already, it is marked alone.
    if (word.text.startsWith(prefix) && !(word.form === 'joined' && row[word.position - 1]!.text.startsWith(prefix))) add(term)
  }
  if (word.form === 'joined') return
  for (const term of wanted.starts.get(word.text) ?? []) {
    const last = lastOf(row, word.position - 1, terms[term]!.parts)
    if (last) spans.push({ start, end: from + last.end, term })
  }
}

/** Of a pair of characters only the first was asked for where the term is but one. */
function endOf(text: string, start: number, end: number, { form }: Word, term: Term): number {
  if (form !== 'pair' || [...term.parts[0]!.text].length > 1) return end
  return start + String.fromCodePoint(text.codePointAt(start)!).length
}

/** The last of these words where they stand in a row from `at` on. */
function lastOf(row: readonly Word[], at: number, parts: readonly Part[]): Word | null {
  let last: Word | null = null
  for (const part of parts) {
    const word = row[at + part.offset]
    if (!word || !(part.prefix ? word.text.startsWith(part.text) : word.text === part.text)) return null
    last = word
  }
  return last
}
