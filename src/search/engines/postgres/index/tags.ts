/**
 * Tags: 16-bit numbers beside the words of an entry, two bytes each instead of the ten of a word.
 * A shingle is two words that follow each other, hashed: it finds a rare phrase of frequent words, and a collision is left to the check of positions.
 * An edge n-gram is the beginning of a word, up to two ASCII letters or digits, exactly: its words would be thousands.
 */
import type { Part } from '../../../query/parser.ts'
import type { Token } from '../../../query/tokenizer.ts'

const shingleCount = 62_000
const characters = '0123456789abcdefghijklmnopqrstuvwxyz'
const maxEdge = 2

/** Maps a number below 65,536 to a smallint. */
const smallint = (number: number): number => number - 0x8000

/** Hashes a word (FNV-1a over UTF-16 units). */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** Returns the tag of two consecutive words, given their hashes. */
const shingle = (one: number, other: number): number => smallint(((Math.imul(one, 31) + other) >>> 0) % shingleCount)

/** Returns the edge n-gram tag of a prefix, or null for prefixes without tags. */
export function edgeTag(prefix: string): number | null {
  if (prefix.length > maxEdge) return null
  let code = 0
  for (const character of prefix) {
    const digit = characters.indexOf(character)
    if (digit < 0) return null
    code = code * (characters.length + 1) + digit + 1
  }
  return smallint(shingleCount + code)
}

/** Collects the tags of a document. */
export class Tags {
  readonly all = new Set<number>()
  #previous: number | null = null

  /** Adds a word of a field, in order. */
  add(word: Token): void {
    if (word.form === 'joined') return
    const hash = hashOf(word.text)
    if (this.#previous !== null) this.all.add(shingle(this.#previous, hash))
    this.#previous = hash
  }

  endField(): void {
    this.#previous = null
  }

  /** Adds the edge n-grams of a word. */
  addEdges({ text }: Token): void {
    for (let length = 1; length <= Math.min(maxEdge, text.length); length++) {
      const tag = edgeTag(text.slice(0, length))
      if (tag !== null) this.all.add(tag)
    }
  }
}

/** Returns the shingle tags of a phrase. A prefix as last word has none. */
export const shinglesOf = (parts: readonly Part[]): number[] =>
  parts.slice(1).flatMap((part, index) => {
    const before = parts[index]!
    return part.offset === before.offset + 1 && !part.prefix ? shingle(hashOf(before.text), hashOf(part.text)) : []
  })
