/** What is to be found in texts, looked up once for all of them. */
import type { Term } from '../query/parser.ts'

/** What to find; `expansions` are the words that count as one of the query, by that word. */
export interface MatcherOptions {
  readonly terms: readonly Term[]
  readonly expansions: ReadonlyMap<string, readonly string[]>
}

export interface Matcher {
  readonly terms: readonly Term[]
  /** word -> terms that it answers alone */
  readonly whole: ReadonlyMap<string, readonly number[]>
  readonly prefixes: readonly { readonly prefix: string; readonly term: number }[]
  /** first word -> terms of several words */
  readonly starts: ReadonlyMap<string, readonly number[]>
  readonly isNothing: boolean
  /** Whether any of these may begin with the run of a text that begins at `at`, alone or joined to others. */
  readonly mayBegin: (text: string, at: number) => boolean
}

export function compileMatcher({ terms, expansions }: MatcherOptions): Matcher {
  const whole = new Map<string, number[]>()
  const starts = new Map<string, number[]>()
  const prefixes: { prefix: string; term: number }[] = []
  for (const [term, { parts, joined, negated }] of terms.entries()) {
    if (negated) continue
    if (joined) for (const word of new Set([joined, ...(expansions.get(joined) ?? [])])) put(whole, word, term)
    const [first] = parts
    if (!first) continue
    if (parts.length > 1) put(starts, first.text, term)
    else for (const word of new Set([first.text, ...(expansions.get(first.text) ?? [])])) put(whole, word, term)
    if (joined && parts.at(-1)!.prefix) prefixes.push({ prefix: joined, term })
    if (parts.length === 1 && first.prefix) prefixes.push({ prefix: first.text, term })
  }
  const isNothing = whole.size + starts.size + prefixes.length === 0
  const beginnings = beginningsOf(
    [...whole.keys(), ...starts.keys()],
    prefixes.map(({ prefix }) => prefix),
  )
  return { terms, whole, prefixes, starts, isNothing, mayBegin: (text, at) => mayBegin(beginnings, text, at) }
}

function put(map: Map<string, number[]>, word: string, term: number): void {
  const known = map.get(word)
  if (known) known.push(term)
  else map.set(word, [term])
}

/** Characters of ASCII. */
const ascii = 128
/** In the place of a second letter: there is none, or it is not in ASCII, and what that is folded to is not known here. */
const none = 0
/** The place of a character in ASCII: letters are made small, and what is none, and no digit, is as if it were not there. */
const foldedAscii = Uint8Array.from({ length: ascii }, (_, code) => {
  const character = String.fromCharCode(code).toLowerCase()
  return /[a-z\d]/.test(character) ? character.charCodeAt(0) : none
})

/** The first two letters of words, each pair once, as one number: a table, because each word of each text is looked for in it. */
function beginningsOf(words: readonly string[], prefixes: readonly string[]): Uint8Array {
  const known = new Uint8Array(ascii * ascii)
  for (const word of [...words, ...prefixes]) {
    const first = word.charCodeAt(0)
    if (first >= ascii) continue
    known[first * ascii + none] = 1
    known[first * ascii + (foldedAscii[word.charCodeAt(1)] ?? none)] = 1
  }
  for (const prefix of prefixes) {
    const first = prefix.charCodeAt(0)
    if (prefix.length === 1 && first < ascii) known.fill(1, first * ascii, (first + 1) * ascii)
  }
  return known
}

function mayBegin(beginnings: Uint8Array, text: string, at: number): boolean {
  const first = text.charCodeAt(at)
  if (first >= ascii) return true
  // Not asked for past the end of the text, nor of what is not in ASCII: a table is slow to say that it does not hold something.
  const second = at + 1 < text.length ? text.charCodeAt(at + 1) : ascii
  return beginnings[foldedAscii[first]! * ascii + (second < ascii ? foldedAscii[second]! : none)] === 1
}
