/** From a document to what PostgreSQL indexes of it. */
import { setImmediate as breathe } from 'node:timers/promises'
import { type Token, tokenize } from '../../query/tokenizer.ts'
import { placeOf, positionOf, tsvector, weightOf } from './binary.ts'
import { Order } from './token-order.ts'
import { isCode } from './vocabulary.ts'

export interface Fields {
  readonly title: string
  readonly labels: readonly string[]
  readonly filename: string
  readonly content: string
}

/** A piece of a long document. */
export interface Passage {
  /** a tsvector; of the first one it holds title, labels and filename too. See binary.ts */
  readonly words: Buffer
  /** of the content, in characters */
  readonly start: number
  readonly length: number
}

export interface Vectors {
  /** a tsvector; see binary.ts */
  readonly words: Buffer
  /** another, of the words that the document says most about; see `telling` */
  readonly telling: Buffer
  /** the words of the content in their order; null: they are too many, or not all in one row. See token-order.ts */
  readonly order: Buffer | null
  /** see search_entries.parts */
  readonly parts: 0 | 1 | 2
}

/** Who hears of every word of every field, in their order. */
export interface Notes {
  word(word: Token): void
  /** besides, where it is the first time in this document, or nobody remembers */
  newWord(word: Token): void
  endField(): void
}

/** Heaviest first, as ts_rank has them. */
const weights = { title: 'A', labels: 'B', filename: 'C', content: 'D' } as const
type Weight = (typeof weights)[keyof typeof weights]
export type HeadingWeight = Exclude<Weight, 'D'>
/** What one word of a field counts for the score. */
export const counts = { A: 1, B: 0.6, C: 0.3, D: 0.1 } as const satisfies Record<Weight, number>

const weightNumbers = { A: 3, B: 2, C: 1, D: 0 } as const satisfies Record<Weight, number>
const countsByNumber = [counts.D, counts.C, counts.B, counts.A]

/** A word of the title, a label or the filename once more: the index knows words, but not where they stand. */
export const headingLexeme = (word: string, weight: HeadingWeight): string => `~${weight}${word}`

/** A word of the title, a label or the filename that the text does not have: what stands in the text is looked up without it. */
export const headingOnlyLexeme = (word: string): string => `~N${word}`

/** A word that is not made of letters alone once more, so that those which begin like one of letters are found apart: the others are known by name. See begun in vocabulary.ts */
export const codeLexeme = (word: string): string => `~=${word}`

/**
 * How much a document says about a word, in grades, the best first: what the word alone would score, as ts_rank counts it (each place by its weight over the
 * square of its number), is at least so much. Twice in the title, in the title and the filename, often in the text; once in the title or a label has marks already.
 */
const grades = [
  { grade: 7, from: 1.4 },
  { grade: 6, from: 1.36 },
  { grade: 5, from: 1.29 },
  { grade: 4, from: 1.25 },
  { grade: 3, from: 1.09 },
  { grade: 2, from: 1.07 },
  { grade: 0, from: 0.17 },
  { grade: 1, from: 0.14 },
] as const

/** That a document is of that grade for the word: the index knows words, but not how often they are there. */
export const gradeLexeme = (word: string, grade: number): string => `~${grade}${word}`

/** Words, those of headings first, and places of each, that `telling` has: it stands in the row, of which many are read. What comes after so many places hardly counts. */
export const maxTelling = 64
const maxTold = 12

const maxPositions = 16_000
const maxRepeats = 255
/** A word in every eighth place would cut passages short: it loses positions instead. */
const minPositions = 2_000
/** of 1,048,575 that a tsvector may have */
const maxBytes = 900_000
/** Passages share so many words: phrases up to this length are found across the cut. */
const overlap = 128
/** Words between fields, so that no phrase runs from one into the next. */
const gap = 2
/** A long text is read in steps, between which others get their turn. */
const stepWords = 10_000

/** Reads a document into its vectors. What is too long for one goes piece by piece to `save`, in order. Memory stays flat but for the distinct words. */
export async function read(
  fields: Fields,
  filters: readonly string[],
  note: Notes,
  save: (passage: Passage) => Promise<void>,
): Promise<Vectors> {
  const head = new Vector()
  let base = 0
  const marks = new Set(filters)
  const notInText = new Set<string>()
  const first = (word: Token): void => {
    note.newWord(word)
    if (isCode(word.text)) head.mention(codeLexeme(word.text))
  }
  const heading = (text: string, weight: HeadingWeight): void => {
    let last = 0
    for (const word of tokenize(text)) {
      note.word(word)
      if (head.add(word.text, base + word.position, weight)) first(word)
      marks.add(headingLexeme(word.text, weight))
      notInText.add(word.text)
      last = word.position
    }
    base += last + gap
    note.endField()
  }
  heading(fields.title, weights.title)
  for (const label of fields.labels) heading(label, weights.labels)
  heading(fields.filename, weights.filename)

  const { content } = fields
  const characters = counter(content)
  const order = new Order()
  const recent: Token[] = []
  let vector = head
  let start = 0
  let read = 0
  for (const word of tokenize(content)) {
    if (++read % stepWords === 0) await breathe()
    note.word(word)
    notInText.delete(word.text)
    order.follow(word)
    const local = base + word.position
    if (local > maxPositions || vector.bytes > maxBytes || (local > minPositions && vector.isFull(word.text))) {
      await save({ words: vector.encoded(), ...characters(start, word.start) })
      vector = new Vector()
      // Not simply the first: a joined form follows its parts and has the position of the first of them.
      const first = recent.reduce((least, again) => (again.position < least.position ? again : least), recent[0] ?? word)
      start = first.start
      base = 1 - first.position
      for (const again of recent) vector.add(again.text, base + again.position, weights.content)
    }
    const isNew = vector.add(word.text, base + word.position, weights.content)
    if (vector === head ? isNew : head.mention(word.text)) first(word)
    recent.push(word)
    if (recent.length > overlap) recent.shift()
  }
  for (const grade of head.grades()) marks.add(grade)
  for (const word of notInText) marks.add(headingOnlyLexeme(word))
  if (vector === head) {
    head.mark(marks)
    return { words: head.encoded(), telling: head.telling(), order: order.bytes(), parts: 0 }
  }
  await save({ words: vector.encoded(), ...characters(start, content.length) })
  const parts = head.bytes > maxBytes ? 2 : 1
  head.mark(parts === 2 ? [...marks, '~long', '~many'] : [...marks, '~long'])
  return { words: head.encoded(), telling: head.telling(), order: null, parts }
}

/** A tsvector in the making. */
class Vector {
  /** what it takes in PostgreSQL, about */
  bytes = 0
  /** of each word; see binary.ts */
  readonly #places = new Map<string, number[]>()

  /** Whether it is the first time. */
  add(word: string, position: number, weight: Weight): boolean {
    const places = this.#entry(word)
    const place = placeOf(position, weightNumbers[weight])
    if (places.length >= maxRepeats || (places.length > 0 && positionOf(places.at(-1)!) >= positionOf(place))) return false
    places.push(place)
    this.bytes += 2
    return places.length === 1
  }

  /** Adds a word without its place, as long as there is room; false where it is there already. */
  mention(word: string): boolean {
    if (this.#places.has(word)) return false
    if (this.bytes <= maxBytes) this.#entry(word)
    return true
  }

  mark(lexemes: Iterable<string>): void {
    for (const lexeme of lexemes) this.#entry(lexeme)
  }

  /** The grades of its words, of those that have one. */
  grades(): string[] {
    const found: string[] = []
    for (const [word, places] of this.#places) {
      const grade = gradeOf(places)
      if (grade !== 0) found.push(gradeLexeme(word, grade))
    }
    return found
  }

  /** The words that are there more than once, or in a heading: of very many those that count most. */
  telling(): Buffer {
    const all: { word: string; places: number[] }[] = []
    for (const [word, places] of this.#places) if (places.length > 1 || !isInText(places)) all.push({ word, places })
    const some =
      all.length <= maxTelling
        ? all
        : all
            .map((one) => ({ ...one, score: scoreOf(one.places) }))
            .sort((one, other) => other.score - one.score)
            .slice(0, maxTelling)
    return tsvector(new Map(some.map(({ word, places }) => [word, places.slice(0, maxTold)])))
  }

  isFull(word: string): boolean {
    return (this.#places.get(word)?.length ?? 0) >= maxRepeats
  }

  encoded(): Buffer {
    return tsvector(this.#places)
  }

  #entry(word: string): number[] {
    const known = this.#places.get(word)
    if (known) return known
    const places: number[] = []
    this.#places.set(word, places)
    this.bytes += Buffer.byteLength(word) + 4
    return places
  }
}

/** 0: none. Most words are there once or twice and have none. */
function gradeOf(places: readonly number[]): number {
  if (places.length < 4 && isInText(places)) return 0
  const sum = scoreOf(places)
  return grades.find(({ from }) => sum >= from)?.grade ?? 0
}

/** Whether a word stands in no heading: those come first. */
const isInText = ([first]: readonly number[]): boolean => first === undefined || weightOf(first) === weightNumbers.D

function scoreOf(places: readonly number[]): number {
  let sum = 0
  for (let nth = 0; nth < Math.min(places.length, 20); nth++) sum += countsByNumber[weightOf(places[nth]!)]! / (nth + 1) ** 2
  return sum
}

/** As tsvector and tsquery want it. */
export const quote = (lexeme: string): string => `'${lexeme.replace(/['\\]/g, '$&$&')}'`

/** PostgreSQL counts characters, JavaScript UTF-16 units. Remembers how far it has counted, so that a whole text is counted once. */
function counter(text: string) {
  let unit = 0
  let character = 0
  const count = (from: number, to: number): number => {
    let found = 0
    for (let at = from; at < to; at++) if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) found++
    return found
  }
  return (from: number, to: number): { start: number; length: number } => {
    character += count(unit, from)
    unit = from
    return { start: character, length: count(from, to) }
  }
}
