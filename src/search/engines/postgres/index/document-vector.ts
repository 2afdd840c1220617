/** Analysis: turns the fields of a document into the tsvector and the tags of its entry. */
import { setImmediate as yieldTurn } from 'node:timers/promises'
import type { IndexedDocument } from '../../../indexed-documents.ts'
import { type Token, tokenize } from '../../../query/tokenizer.ts'
import { positionOf, tsvector, weighted, weightOf } from './binary.ts'
import { type SortedTags, Tags } from './tags.ts'
import { type HeadingWeight, headingOnlyTerm, headingTerm, impactTerm, longTerm, overflowTerm, weights } from './terms.ts'

export type Fields = Pick<IndexedDocument, 'title' | 'label_names' | 'filename' | 'content'>

/** A part of a long document with its own tsvector. */
export interface Passage {
  /** A tsvector in binary format. The first passage also contains title, labels and filename. */
  readonly words: Buffer
  /** Offset in the content, in characters. */
  readonly start: number
  readonly length: number
}

export interface DocumentVector {
  /** A tsvector in binary format. */
  readonly words: Buffer
  readonly tags: SortedTags
  /** 0: `words` is complete. 1: later positions are in passages only. 2: some words are in passages only. */
  readonly parts: 0 | 1 | 2
}

/** Receives each distinct word of a document. Words of long documents may repeat. */
export type OnWord = (word: Token) => void

/** Stores a passage of a long document. */
export type SavePassage = (passage: Passage) => Promise<void>

type Weight = HeadingWeight | 'D'
/** Weight of an occurrence in the score, by field weight. */
export const fieldScores = { A: 1, B: 0.6, C: 0.3, D: 0.1 } as const satisfies Record<Weight, number>

const weightNumbers = { A: 3, B: 2, C: 1, D: 0 } as const satisfies Record<Weight, number>
const scoreByNumber = [fieldScores.D, fieldScores.C, fieldScores.B, fieldScores.A]

const maxPositions = 16_000
/** PostgreSQL keeps at most 255 positions of a lexeme. */
const maxOccurrences = 255
/** Minimum number of positions of a passage. Before it, a frequent word loses occurrences; after it, the passage ends. */
const minPositions = 2_000
/** Bytes of words after which a passage ends. The remaining bytes are for terms. */
const maxBytes = 900_000
/** Bytes of headings after which the words of further labels are left out: each word of a heading has up to three terms. */
const maxHeadingBytes = 40_000
/** A tsvector holds at most 1,048,575 bytes. Impact terms are left out that would exceed this: they only change the order of hits. */
const maxBytesWithImpact = 1_040_000
/** Number of words that consecutive passages share. Phrases up to this length match across the boundary. */
const overlap = 128
/** Gap in positions between fields, so that no phrase matches across them. */
const fieldGap = 2
/** Number of words after which the event loop gets a turn. */
const turnWords = 10_000

/** Analyzes a document. `terms` are added unchanged. Passages of a long document are passed to `save` in order. */
export async function analyze(fields: Fields, terms: readonly string[], onWord: OnWord, save: SavePassage): Promise<DocumentVector> {
  const head = new Vector()
  const tags = new Tags()
  const marks = new Set(terms)
  const headingOnly = new Set<string>()
  let base = 0
  const first = (word: Token): void => {
    onWord(word)
    tags.addEdges(word)
  }
  const addHeading = (text: string, weight: HeadingWeight): void => {
    let last = 0
    for (const word of tokenize(text)) {
      tags.add(word)
      if (head.add(word.text, base + word.position, weight)) first(word)
      marks.add(headingTerm(word.text, weight))
      headingOnly.add(word.text)
      // A joined word comes after its parts, with the position of the first.
      last = Math.max(last, word.position)
    }
    base += last + fieldGap
    tags.endField()
  }
  addHeading(fields.title, weights.title)
  for (const label of fields.label_names) if (head.bytes < maxHeadingBytes) addHeading(label, weights.labels)
  addHeading(fields.filename, weights.filename)

  const { content } = fields
  const characters = characterCounter(content)
  /** The last words, at least `overlap` of them if there are as many. */
  let recent: Token[] = []
  let vector = head
  let start = 0
  let count = 0
  for (const word of tokenize(content)) {
    if (++count % turnWords === 0) await yieldTurn()
    tags.add(word)
    const local = base + word.position
    if (local > maxPositions || vector.bytes > maxBytes || (local > minPositions && vector.isFull(word.text))) {
      await save({ words: vector.encode(), ...characters(start, word.start) })
      vector = new Vector()
      const shared = recent.slice(-overlap)
      // The first word may not be the lowest: a joined form follows its parts and has the position of the first part.
      const first = shared.reduce((least, again) => (again.position < least.position ? again : least), shared[0] ?? word)
      start = first.start
      base = 1 - first.position
      for (const again of shared) vector.add(again.text, base + again.position, weights.content)
    }
    const isNew = vector.add(word.text, base + word.position, weights.content)
    // A word of a heading is not new to the first vector.
    if (!isNew || vector !== head) headingOnly.delete(word.text)
    if (vector === head ? isNew : head.mention(word.text)) first(word)
    recent.push(word)
    if (recent.length === 8 * overlap) recent = recent.slice(-overlap)
  }
  const impacts = head.impactTerms()
  for (const word of headingOnly) marks.add(headingOnlyTerm(word))
  if (vector === head) {
    head.mark(marks)
    head.mark(impacts, maxBytesWithImpact)
    return { words: head.encode(), tags: tags.sorted(), parts: 0 }
  }
  await save({ words: vector.encode(), ...characters(start, content.length) })
  const parts = head.bytes > maxBytes ? 2 : 1
  head.mark(parts === 2 ? [...marks, longTerm, overflowTerm] : [...marks, longTerm])
  head.mark(impacts, maxBytesWithImpact)
  return { words: head.encode(), tags: tags.sorted(), parts }
}

/** Builds a tsvector. */
class Vector {
  /** Approximate size in PostgreSQL, in bytes. */
  bytes = 0
  readonly #positions = new Map<string, number[]>()

  /** Adds an occurrence. Returns true for the first occurrence of a word. */
  add(word: string, position: number, weight: Weight): boolean {
    const value = weighted(position, weightNumbers[weight])
    const positions = this.#positions.get(word)
    if (positions === undefined) {
      // Not an empty array and a push, which reserves room for 17 numbers: most words occur once.
      this.#insert(word, [value])
      this.bytes += 2
      return true
    }
    const count = positions.length
    if (count >= maxOccurrences || (count > 0 && positionOf(positions[count - 1]!) >= positionOf(value))) return false
    positions.push(value)
    this.bytes += 2
    return count === 0
  }

  /** Adds a word without a position if there is room. Returns false if it was added before. */
  mention(word: string): boolean {
    if (this.#positions.has(word)) return false
    if (this.bytes <= maxBytes) this.#insert(word, [])
    return true
  }

  /** Adds terms without positions, up to a size of `max` bytes. */
  mark(terms: Iterable<string>, max = Number.POSITIVE_INFINITY): void {
    for (const term of terms) if (!this.#positions.has(term) && this.bytes + sizeOf(term) <= max) this.#insert(term, [])
  }

  impactTerms(): string[] {
    const terms: string[] = []
    for (const [word, positions] of this.#positions) {
      const level = impactOf(positions)
      if (level > 0) terms.push(impactTerm(word, level))
    }
    return terms
  }

  isFull(word: string): boolean {
    return (this.#positions.get(word)?.length ?? 0) >= maxOccurrences
  }

  encode(): Buffer {
    return tsvector(this.#positions)
  }

  #insert(word: string, positions: number[]): void {
    this.#positions.set(word, positions)
    this.bytes += sizeOf(word)
  }
}

/** Returns the size of a lexeme without positions, in bytes. */
const sizeOf = (lexeme: string): number => Buffer.byteLength(lexeme) + 4

/**
 * The minimum score of each impact level, from the highest. In words: in the title and often elsewhere; in the title and once elsewhere; in the
 * title; in a label or in the filename; at least four times in the content. Most words of a document have level 0 and no term. Quantized impacts:
 * Anh, Moffat, "Pruned query evaluation using pre-computed impacts" (2006).
 */
const impactScores = [1.25, 1.07, 1, 0.3, 0.14] as const
export const maxImpact = impactScores.length

function impactOf(positions: readonly number[]): number {
  const [first] = positions
  if (first === undefined || (positions.length < 4 && weightOf(first) === weightNumbers.D)) return 0
  // Like ts_rank: each occurrence counts by its weight over the square of its number.
  let score = 0
  for (let nth = 0; nth < Math.min(positions.length, 20); nth++) score += scoreByNumber[weightOf(positions[nth]!)]! / (nth + 1) ** 2
  const index = impactScores.findIndex((least) => score >= least)
  return index < 0 ? 0 : maxImpact - index
}

/** Converts ascending UTF-16 offsets to code points, which PostgreSQL counts, in one pass over the text. */
function characterCounter(text: string) {
  let unit = 0
  let character = 0
  const count = (from: number, to: number): number => {
    let characters = 0
    for (let at = from; at < to; at++) if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) characters++
    return characters
  }
  return (from: number, to: number): { start: number; length: number } => {
    character += count(unit, from)
    unit = from
    return { start: character, length: count(from, to) }
  }
}
