/** Where the terms of a query stand in a text. Of most words only the first letters are looked at: to read all of it takes much longer. */
import type { Part, Term } from '../query/parser.ts'
import { foldWord, isSpaceless, mayBelong, nextAfterAlone, nextRun, type Run, runAt, type Token, tokenize } from '../query/tokenizer.ts'
import type { Matcher } from './matcher.ts'

export interface Span {
  readonly start: number
  readonly end: number
  /** which of the terms */
  readonly term: number
}

/** Whether these are enough, in no order; all that begin before `upTo` are among them. */
export type IsEnough = (spans: readonly Span[], upTo: number) => boolean

/** The places, in no order: all, or until there are enough. Time is linear in the length of the text. */
export function matchPositions(text: string, matcher: Matcher, isEnough: IsEnough): Span[] {
  const spans: Span[] = []
  if (matcher.isNothing) return spans
  const windows = new TokenWindows(text)
  for (let at = nextRun(text, 0); at < text.length; ) {
    const chain = chainAt(text, skipNonMatches(text, at, matcher), matcher)
    at = chain.next
    if (!chain.mayMatchChain) continue
    for (const { word, first } of read(text, chain))
      addMatches(spans, matcher, text, word, first, () => windows.from(chain.first.start, word.start))
    if (isEnough(spans, at)) break
  }
  return spans
}

/** Returns the offset of the next run that may match, at or after `from`. Nearly all time is spent here. */
function skipNonMatches(text: string, from: number, { mayBegin }: Matcher): number {
  for (let at = from; ; ) {
    const next = mayBegin(text, at) ? -1 : nextAfterAlone(text, at)
    if (next < 0) return at
    at = next
  }
}

/** Runs that may be parts of one joined word: what is before and after has no part in how they are read. */
interface Chain {
  readonly first: Run
  readonly last: Run
  /** whether any of its words may match */
  readonly mayMatchChain: boolean
  /** where the run after it begins */
  readonly next: number
}

function chainAt(text: string, start: number, matcher: Matcher): Chain {
  const first = runAt(text, start)
  let last = first
  let mayMatchChain = mayMatch(text, first, matcher)
  for (;;) {
    const next = nextRun(text, last.end)
    if (next === text.length) return { first, last, mayMatchChain, next }
    const run = runAt(text, next)
    if (!mayBelong(text, last, run)) return { first, last, mayMatchChain, next }
    mayMatchChain ||= mayMatch(text, run, matcher)
    last = run
  }
}

/** In a script without spaces words begin within a run too. */
const mayMatch = (text: string, run: Run, { mayBegin }: Matcher): boolean => mayBegin(text, run.start) || isSpaceless(text, run)

interface Read {
  readonly word: Token
  /** the first part where it is a joined word; otherwise itself */
  readonly first: Token
}

function* read(text: string, { first, last }: Chain): Generator<Read> {
  const { start, end } = last
  if (first === last && !isSpaceless(text, first)) {
    const word: Token = { text: foldWord(text.slice(start, end)), position: 1, start, end, form: 'word' }
    yield { word, first: word }
    return
  }
  const window: Token[] = []
  for (const word of tokenize(text, first.start, end)) {
    if (word.form !== 'joined') window.push(word)
    yield { word, first: window[word.position - 1]! }
  }
}

/** Adds where the terms stand that begin with this word. */
function addMatches(
  spans: Span[],
  { terms, whole, prefixes, starts }: Matcher,
  text: string,
  word: Token,
  first: Token,
  windowFrom: () => TokenWindow,
): void {
  const { start } = word
  const add = (term: number) => spans.push({ start, end: endOf(text, word, terms[term]!), term })
  for (const term of whole.get(word.text) ?? []) add(term)
  for (const { prefix, term } of prefixes) {
    // Where the first part of a joined word begins like that already, it is marked alone.
    if (word.text.startsWith(prefix) && !(word.form === 'joined' && first.text.startsWith(prefix))) add(term)
  }
  if (word.form === 'joined') return
  for (const term of starts.get(word.text) ?? []) {
    const last = lastOf(windowFrom(), terms[term]!.parts)
    if (last) spans.push({ start, end: last.end, term })
  }
}

/** Of a pair of characters only the first was asked for where the term is but one. */
function endOf(text: string, { start, end, form }: Token, term: Term): number {
  if (form !== 'pair' || [...term.parts[0]!.text].length > 1) return end
  return start + String.fromCodePoint(text.codePointAt(start)!).length
}

/** The last of these words where they stand in a window. */
function lastOf(window: TokenWindow, parts: readonly Part[]): Token | null {
  let last: Token | null = null
  for (const part of parts) {
    const word = window(part.offset)
    if (!word || !(part.prefix ? word.text.startsWith(part.text) : word.text === part.text)) return null
    last = word
  }
  return last
}

/** The word that stands so many after the first; none past the end of the text. */
type TokenWindow = (offset: number) => Token | undefined

/** Words in a window from places that come later and later, each word read once. */
class TokenWindows {
  readonly #text: string
  #rest = tokenize('')
  #read: Token[] = []
  /** of those that are read, the one with which the window begins */
  #first = 0

  constructor(text: string) {
    this.#text = text
  }

  /** From the word on that begins at `start`, in a chain that begins at `chain`. */
  from(chain: number, start: number): TokenWindow {
    if ((this.#read.at(-1)?.end ?? -1) < chain) {
      this.#rest = tokenize(this.#text, chain)
      this.#read = []
      this.#first = 0
    }
    while ((this.#at(this.#first)?.start ?? start) < start) this.#first++
    return (offset) => this.#at(this.#first + offset)
  }

  #at(index: number): Token | undefined {
    while (this.#read.length <= index) {
      const { value: word, done } = this.#rest.next()
      if (done) return undefined
      if (word.form !== 'joined') this.#read.push(word)
    }
    return this.#read[index]
  }
}
