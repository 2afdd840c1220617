/**
 * Tags: 16-bit numbers beside the words of an entry. A tag takes two bytes, a word ten. A shingle tag is the hash of two consecutive words: it finds
 * a rare phrase of frequent words, and the check of positions removes collisions. An edge tag is a prefix of one or two ASCII letters or digits,
 * without collisions: a prefix query would read thousands of words.
 *
 * Deferred tags are the shingles that contain a long word: half of all keys of a document. They are indexed once the segment is full. Until then, a search
 * for a phrase reads them from the row of every document that contains its words. In most languages, short words are in too many documents for that.
 */
import type { Part } from '../../../query/parser.ts'
import { maxParts, type Token } from '../../../query/tokenizer.ts'

const shingleCount = 62_000
const characters = '0123456789abcdefghijklmnopqrstuvwxyz'
const maxEdge = 2
/** Digit of each ASCII character in an edge n-gram; 0: none. A table, because two characters of every word are looked up. */
const digits = Uint8Array.from({ length: 128 }, (_, code) => characters.indexOf(String.fromCharCode(code)) + 1)

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

/** Returns the edge tag of a prefix, or null for prefixes without tags. */
export function edgeTag(prefix: string): number | null {
  if (prefix.length > maxEdge) return null
  let code = 0
  for (let at = 0; at < prefix.length; at++) {
    const digit = digits[prefix.charCodeAt(at)] ?? 0
    if (digit === 0) return null
    code = code * (characters.length + 1) + digit
  }
  return smallint(shingleCount + code)
}

/** Maximum length of a short word, in UTF-16 units. */
const maxShort = 4
const isShort = (word: string): boolean => word.length <= maxShort

/** Distinct tags, ascending. */
export interface SortedTags {
  readonly immediate: Int16Array
  readonly deferred: Int16Array
}

/** Collects the tags of a document. */
export class Tags {
  readonly #immediate = new TagSet()
  readonly #deferred = new TagSet()
  /** Hashes of the last words of the field, by position, and whether they are short. */
  #hashes: number[] = []
  #areShort: boolean[] = []

  /** Adds a word of a field, in order. A joined word follows its parts and has the position of the first. */
  add({ text, form, position }: Token): void {
    const hash = hashOf(text)
    const before = (position - 1) % (maxParts + 1)
    const previous = this.#hashes[before]
    if (previous !== undefined) {
      const tags = this.#areShort[before] && isShort(text) ? this.#immediate : this.#deferred
      tags.add(shingle(previous, hash))
    }
    if (form === 'joined') return
    this.#hashes[position % (maxParts + 1)] = hash
    this.#areShort[position % (maxParts + 1)] = isShort(text)
  }

  endField(): void {
    this.#hashes = []
  }

  /** Adds the edge tags of a word. */
  addEdges({ text }: Token): void {
    for (let length = 1; length <= Math.min(maxEdge, text.length); length++) {
      const tag = edgeTag(text.slice(0, length))
      if (tag !== null) this.#immediate.add(tag)
    }
  }

  sorted(): SortedTags {
    return { immediate: this.#immediate.sorted(), deferred: this.#deferred.sorted() }
  }
}

/** A set of smallints. */
class TagSet {
  /** A bit for each of the 65,536 numbers, in ascending order: the numbers of a Set would have to be sorted. */
  readonly #bits = new Uint8Array(0x2000)
  #count = 0

  add(tag: number): void {
    const index = (tag + 0x8000) >> 3
    const bit = 1 << (tag & 7)
    if ((this.#bits[index]! & bit) !== 0) return
    this.#bits[index]! |= bit
    this.#count++
  }

  sorted(): Int16Array {
    const sorted = new Int16Array(this.#count)
    let count = 0
    for (let index = 0; index < this.#bits.length; index++)
      for (let bits = this.#bits[index]!; bits > 0; bits &= bits - 1) sorted[count++] = smallint(8 * index + 31 - Math.clz32(bits & -bits))
    return sorted
  }
}

export interface Tag {
  readonly number: number
  readonly isDeferred: boolean
}

/** Returns the shingle tags of a phrase. A prefix as last word has none. */
export const shinglesOf = (parts: readonly Part[]): Tag[] =>
  parts.slice(1).flatMap((part, index) => {
    const before = parts[index]!
    if (part.offset !== before.offset + 1 || part.prefix) return []
    return { number: shingle(hashOf(before.text), hashOf(part.text)), isDeferred: !isShort(before.text) || !isShort(part.text) }
  })
