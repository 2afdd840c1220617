/** Finds the offsets of query terms in a text. For speed, most words are compared by their first two letters only. */
import type { Part, Term } from '../query/parser.ts'
import {
  canJoin,
  isSpaceless,
  maxParts,
  nextRun,
  normalizeWord,
  type Run,
  runAt,
  skipSingleWord,
  type Token,
  tokenize,
} from '../query/tokenizer.ts'
import type { Matcher } from './matcher.ts'

/** A match of a term: its start and end offset. */
export interface Span {
  readonly start: number
  readonly end: number
  /** index of the term */
  readonly term: number
}

/** Returns whether the search can stop. `spans` contain all matches that begin before `upTo`, unordered. */
export type IsComplete = (spans: readonly Span[], upTo: number) => boolean

/** Length of text, and number of compared tokens, after which searchMatches() yields: a step takes a few milliseconds. */
const stepLength = 50_000
const stepTokens = 500

/**
 * Returns the matches in no order; all, or until `isComplete`. Searches in steps, between which the event loop can have a turn. Takes time linear in
 * the text, and for a phrase that nearly matches everywhere in the product of both lengths.
 */
export function* searchMatches(text: string, matcher: Matcher, isComplete: IsComplete): Generator<undefined, Span[]> {
  const spans: Span[] = []
  if (matcher.isEmpty) return spans
  const windows = new TokenWindows(text)
  let [stepStart, tokens] = [0, 0]
  for (let offset = nextRun(text, 0); offset < text.length; ) {
    let chain = chainAt(text, skipNonMatches(text, offset, matcher), matcher)
    while (!chain.isWhole) {
      yield
      chain = extended(text, chain, matcher)
    }
    offset = chain.next
    if (offset - stepStart > stepLength) {
      yield
      stepStart = offset
    }
    if (!chain.canMatch) continue
    for (const chainToken of tokenizeChain(text, chain)) {
      addMatches(spans, matcher, text, chainToken, () => windows.from(chain.first.start, chainToken.token.start))
      if (++tokens % stepTokens > 0) continue
      if (isComplete(spans, chain.first.start)) return spans
      yield
    }
    if (isComplete(spans, offset)) break
  }
  return spans
}

/** Returns the offset of the first run that can match, at or after `from`. Stops after `stepLength` characters. Nearly all time is spent here. */
function skipNonMatches(text: string, from: number, { canBegin }: Matcher): number {
  for (let offset = from; ; ) {
    const next = canBegin(text, offset) || offset - from > stepLength ? -1 : skipSingleWord(text, offset)
    if (next < 0) return offset
    offset = next
  }
}

/** Runs that can form a joined token. They can be tokenized without the text around them. */
interface Chain {
  readonly first: Run
  readonly last: Run
  readonly canMatch: boolean
  /** offset of the run after the chain, or after the part that has been read */
  readonly next: number
  readonly isWhole: boolean
}

/** Maximum number of runs that are read in one step. */
const stepRuns = 10_000

function chainAt(text: string, start: number, matcher: Matcher): Chain {
  const first = runAt(text, start)
  return extended(text, { first, last: first, canMatch: canMatchRun(text, first, matcher) }, matcher)
}

/** Reads the next runs of a chain. */
function extended(text: string, { first, last, canMatch }: Pick<Chain, 'first' | 'last' | 'canMatch'>, matcher: Matcher): Chain {
  for (let count = 0; ; count++) {
    const next = nextRun(text, last.end)
    if (next === text.length) return { first, last, canMatch, next, isWhole: true }
    const run = runAt(text, next)
    if (!canJoin(text, last, run)) return { first, last, canMatch, next, isWhole: true }
    if (count === stepRuns) return { first, last, canMatch, next, isWhole: false }
    canMatch ||= canMatchRun(text, run, matcher)
    last = run
  }
}

/** In a script without spaces, words begin inside a run too. */
const canMatchRun = (text: string, run: Run, { canBegin }: Matcher): boolean => canBegin(text, run.start) || isSpaceless(text, run)

interface ChainToken {
  readonly token: Token
  /** the first part of a joined token, or else the token itself */
  readonly first: Token
}

function* tokenizeChain(text: string, { first, last }: Chain): Generator<ChainToken> {
  const { start, end } = last
  if (first === last && !isSpaceless(text, first)) {
    const token: Token = { text: normalizeWord(text.slice(start, end)), position: 1, start, end, form: 'word' }
    yield { token, first: token }
    return
  }
  // A joined token follows its parts, at most `maxParts`. A chain can be as long as the text.
  const parts: Token[] = []
  for (const token of tokenize(text, first.start, end)) {
    if (token.form !== 'joined') parts[token.position % maxParts] = token
    yield { token, first: parts[token.position % maxParts]! }
  }
}

/** Adds the matches of all terms that begin with this token. */
function addMatches(
  spans: Span[],
  { terms, words, prefixes, phrases }: Matcher,
  text: string,
  { token, first }: ChainToken,
  openWindow: () => TokenWindow,
): void {
  const { start } = token
  const add = (term: number) => spans.push({ start, end: matchEnd(text, token, terms[term]!), term })
  for (const term of words.get(token.text) ?? []) add(term)
  for (const { prefix, term } of prefixes) {
    // If the first part of a joined token has the prefix, only that part is a match.
    if (token.text.startsWith(prefix) && !(token.form === 'joined' && first.text.startsWith(prefix))) add(term)
  }
  if (token.form === 'joined') return
  for (const { parts, term } of phrases.get(token.text) ?? []) {
    const last = matchPhrase(openWindow(), parts)
    if (last) spans.push({ start, end: last.end, term })
  }
}

/** Returns the end offset of a match. A term of one character matches only the first character of a bigram. */
function matchEnd(text: string, { start, end, form }: Token, term: Term): number {
  if (form !== 'pair' || [...term.parts[0]!.text].length > 1) return end
  return start + String.fromCodePoint(text.codePointAt(start)!).length
}

/** Returns the last token of a phrase that begins at the window; null if the phrase does not match. */
function matchPhrase(window: TokenWindow, parts: readonly Part[]): Token | null {
  let last: Token | null = null
  for (const part of parts) {
    const token = window(part.offset)?.find(({ text }) => (part.prefix ? text.startsWith(part.text) : text === part.text))
    if (!token) return null
    last = token
  }
  return last
}

/** Returns the token `offset` positions after the first one, and the joined tokens that begin with it; undefined after the end of the text. */
type TokenWindow = (offset: number) => readonly Token[] | undefined

/** Maximum number of tokens before the window. More are discarded. */
const maxPassed = 1_000

/** Windows of tokens at increasing offsets. Each token is read once. */
class TokenWindows {
  readonly #text: string
  #tokens = tokenize('')
  #read: Token[][] = []
  /** index in #read of the first token of the window */
  #first = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Opens a window at the token that begins at `start`, in the chain that begins at `chainStart`. */
  from(chainStart: number, start: number): TokenWindow {
    if ((this.#read.at(-1)?.[0]?.end ?? -1) < chainStart) {
      this.#tokens = tokenize(this.#text, chainStart)
      this.#read = []
      this.#first = 0
    }
    while ((this.#at(this.#first)?.[0]?.start ?? start) < start) this.#first++
    if (this.#first > maxPassed) {
      this.#read.splice(0, this.#first)
      this.#first = 0
    }
    return (offset) => this.#at(this.#first + offset)
  }

  #at(index: number): readonly Token[] | undefined {
    // A joined token comes after its parts.
    while (this.#read.length <= index + maxParts) {
      const { value: token, done } = this.#tokens.next()
      if (done) break
      if (token.form !== 'joined') this.#read.push([token])
      else this.#read.findLast(([first]) => first!.start === token.start)?.push(token)
    }
    return this.#read[index]
  }
}
