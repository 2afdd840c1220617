/** Compiles query terms into tables for matching many texts. */
import type { Part, Term } from '../query/parser.ts'

export interface MatcherOptions {
  readonly terms: readonly Term[]
  /** words that also match a word of the query, by that word */
  readonly expansions: ReadonlyMap<string, readonly string[]>
}

export interface Matcher {
  readonly terms: readonly Term[]
  /** token -> indexes of the terms that it matches alone */
  readonly words: ReadonlyMap<string, readonly number[]>
  readonly prefixes: readonly { readonly prefix: string; readonly term: number }[]
  /** phrases by their first token */
  readonly phrases: ReadonlyMap<string, readonly Phrase[]>
  readonly isEmpty: boolean
  /** Returns whether a match can begin with the run at `offset`. May return true without a match, never false with one. */
  readonly canBegin: (text: string, offset: number) => boolean
}

interface Phrase {
  readonly parts: readonly Part[]
  readonly term: number
}

/** Compiles the terms of a query. Leaves out negated terms. */
export function compileMatcher({ terms, expansions }: MatcherOptions): Matcher {
  const words = new Map<string, number[]>()
  const phrases = new Map<string, Phrase[]>()
  const prefixes: { prefix: string; term: number }[] = []
  const addWord = (word: string, term: number) => {
    for (const one of new Set([word, ...(expansions.get(word) ?? [])])) add(words, one, term)
  }
  for (const [term, { parts, joined, grouped, negated }] of terms.entries()) {
    if (negated) continue
    if (joined) addWord(joined, term)
    const [first] = parts
    if (!first) continue
    if (parts.length > 1) add(phrases, first.text, { parts, term })
    else addWord(first.text, term)
    if (grouped) add(phrases, grouped[0]!.text, { parts: grouped, term })
    if (joined && parts.at(-1)!.prefix) prefixes.push({ prefix: joined, term })
    if (parts.length === 1 && first.prefix) prefixes.push({ prefix: first.text, term })
  }
  const isEmpty = words.size + phrases.size + prefixes.length === 0
  const table = buildBigramTable(
    [...words.keys(), ...phrases.keys()],
    prefixes.map(({ prefix }) => prefix),
  )
  return { terms, words, prefixes, phrases, isEmpty, canBegin: (text, offset) => canBegin(table, text, offset) }
}

function add<T>(map: Map<string, T[]>, word: string, value: T): void {
  const values = map.get(word)
  if (values) values.push(value)
  else map.set(word, [value])
}

const asciiCount = 128
/** Code of a missing second letter and of letters outside ASCII, which this table does not normalize. */
const none = 0
/** Lower-case letter or digit for each ASCII character; `none` for others. */
const normalizedAscii = Uint8Array.from({ length: asciiCount }, (_, code) => {
  const character = String.fromCharCode(code).toLowerCase()
  return /[a-z\d]/.test(character) ? character.charCodeAt(0) : none
})

/** Returns a bitmap of the first two letters of words. A table, because every word of every text is looked up. */
function buildBigramTable(words: readonly string[], prefixes: readonly string[]): Uint8Array {
  const table = new Uint8Array(asciiCount * asciiCount)
  for (const word of [...words, ...prefixes]) {
    const first = word.charCodeAt(0)
    if (first >= asciiCount) continue
    table[first * asciiCount + none] = 1
    table[first * asciiCount + (normalizedAscii[word.charCodeAt(1)] ?? none)] = 1
  }
  for (const prefix of prefixes) {
    const first = prefix.charCodeAt(0)
    if (prefix.length === 1 && first < asciiCount) table.fill(1, first * asciiCount, (first + 1) * asciiCount)
  }
  return table
}

function canBegin(table: Uint8Array, text: string, offset: number): boolean {
  const first = text.charCodeAt(offset)
  if (first >= asciiCount) return true
  // Out-of-range reads of a typed array are slow.
  const second = offset + 1 < text.length ? text.charCodeAt(offset + 1) : asciiCount
  return table[normalizedAscii[first]! * asciiCount + (second < asciiCount ? normalizedAscii[second]! : none)] === 1
}
