/** Where the terms of a query stand in a text. Of most words only the first letters are looked at: to read all of it takes much longer. */
import type { Part, Term } from '../query/parser.ts'
import { fold, isSpaceless, mayBelong, nextAfterAlone, nextRun, type Run, runAt, type Word, words } from '../query/tokenizer.ts'
import type { Known } from './matcher.ts'

export interface Span {
  readonly start: number
  readonly end: number
  /** which of the terms */
  readonly term: number
}

/** Whether these are enough, in no order; all that begin before `upTo` are among them. */
export type IsEnough = (spans: readonly Span[], upTo: number) => boolean

/** The places, in no order: all, or until there are enough. Time is linear in the length of the text. */
export function places(text: string, wanted: Known, isEnough: IsEnough): Span[] {
  const spans: Span[] = []
  if (wanted.isNothing) return spans
  const rows = new Rows(text)
  for (let at = nextRun(text, 0); at < text.length; ) {
    const stretch = stretchAt(text, pass(text, at, wanted), wanted)
    at = stretch.next
    if (!stretch.isLike) continue
    for (const { word, first } of read(text, stretch))
      place(spans, wanted, text, word, first, () => rows.from(stretch.first.start, word.start))
    if (isEnough(spans, at)) break
  }
  return spans
}

/** The next run that may be wanted or of which more has to be known, from one on that belongs to none before. Nearly all time is spent here. */
function pass(text: string, from: number, { mayBegin }: Known): number {
  for (let at = from; ; ) {
    const next = mayBegin(text, at) ? -1 : nextAfterAlone(text, at)
    if (next < 0) return at
    at = next
  }
}

/** Runs that may be parts of one joined word: what is before and after has no part in how they are read. */
interface Stretch {
  readonly first: Run
  readonly last: Run
  /** whether any of its words may be one that is wanted */
  readonly isLike: boolean
  /** where the run after it begins */
  readonly next: number
}

function stretchAt(text: string, start: number, wanted: Known): Stretch {
  const first = runAt(text, start)
  let last = first
  let isLike = mayBe(text, first, wanted)
  for (;;) {
    const next = nextRun(text, last.end)
    if (next === text.length) return { first, last, isLike, next }
    const run = runAt(text, next)
    if (!mayBelong(text, last, run)) return { first, last, isLike, next }
    isLike ||= mayBe(text, run, wanted)
    last = run
  }
}

/** In a script without spaces words begin within a run too. */
const mayBe = (text: string, run: Run, { mayBegin }: Known): boolean => mayBegin(text, run.start) || isSpaceless(text, run)

interface Read {
  readonly word: Word
  /** the first part where it is a joined word; otherwise itself */
  readonly first: Word
}

function* read(text: string, { first, last }: Stretch): Generator<Read> {
  const { start, end } = last
  if (first === last && !isSpaceless(text, first)) {
    const word: Word = { text: fold(text.slice(start, end)), position: 1, start, end, form: 'word' }
    yield { word, first: word }
    return
  }
  const row: Word[] = []
  for (const word of words(text, first.start, end)) {
    if (word.form !== 'joined') row.push(word)
    yield { word, first: row[word.position - 1]! }
  }
}

/** Adds where the terms stand that begin with this word. */
function place(spans: Span[], { terms, whole, prefixes, starts }: Known, text: string, word: Word, first: Word, rowFrom: () => Row): void {
  const { start } = word
  const add = (term: number) => spans.push({ start, end: endOf(text, word, terms[term]!), term })
  for (const term of whole.get(word.text) ?? []) add(term)
  for (const { prefix, term } of prefixes) {
    // Where the first part of a joined word begins like that already, it is marked alone.
    if (word.text.startsWith(prefix) && !(word.form === 'joined' && first.text.startsWith(prefix))) add(term)
  }
  if (word.form === 'joined') return
  for (const term of starts.get(word.text) ?? []) {
    const last = lastOf(rowFrom(), terms[term]!.parts)
    if (last) spans.push({ start, end: last.end, term })
  }
}

/** Of a pair of characters only the first was asked for where the term is but one. */
function endOf(text: string, { start, end, form }: Word, term: Term): number {
  if (form !== 'pair' || [...term.parts[0]!.text].length > 1) return end
  return start + String.fromCodePoint(text.codePointAt(start)!).length
}

/** The last of these words where they stand in a row. */
function lastOf(row: Row, parts: readonly Part[]): Word | null {
  let last: Word | null = null
  for (const part of parts) {
    const word = row(part.offset)
    if (!word || !(part.prefix ? word.text.startsWith(part.text) : word.text === part.text)) return null
    last = word
  }
  return last
}

/** The word that stands so many after the first; none past the end of the text. */
type Row = (offset: number) => Word | undefined

/** Words in a row from places that come later and later, each word read once. */
class Rows {
  readonly #text: string
  #rest = words('')
  #read: Word[] = []
  /** of those that are read, the one with which the row begins */
  #first = 0

  constructor(text: string) {
    this.#text = text
  }

  /** From the word on that begins at `start`, in a stretch that begins at `stretch`. */
  from(stretch: number, start: number): Row {
    if ((this.#read.at(-1)?.end ?? -1) < stretch) {
      this.#rest = words(this.#text, stretch)
      this.#read = []
      this.#first = 0
    }
    while ((this.#at(this.#first)?.start ?? start) < start) this.#first++
    return (offset) => this.#at(this.#first + offset)
  }

  #at(index: number): Word | undefined {
    while (this.#read.length <= index) {
      const { value: word, done } = this.#rest.next()
      if (done) return undefined
      if (word.form !== 'joined') this.#read.push(word)
    }
    return this.#read[index]
  }
}
