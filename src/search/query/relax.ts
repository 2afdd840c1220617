/** Relaxes queries whose words no document has all. */
import { parse } from './parser.ts'
import type { ParsedQuery } from './qualifiers.ts'

/** Number of words below which every word matters. */
const minWords = 3
/** Number of words above which none is left out: each pair of words becomes a condition. */
const maxWords = 8

/** Returns the words of a query of at least three plain words; null for one with operators, phrases, fields or filters. */
export function plainWords({ text, isFiltered }: ParsedQuery): string[] | null {
  const words = [...new Set(text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)))]
  const terms = parse(text)
  const isPlain = terms.every(({ negated, quoted, field, alternative }) => !negated && !quoted && field === null && !alternative)
  return !isFiltered && isPlain && words.length >= minWords && terms.length === words.length ? words : null
}

/** Returns a query for all words but any one: of each two words, one must match. Null for too many words. */
export function withoutOne(words: readonly string[]): string | null {
  if (words.length > maxWords) return null
  return words.flatMap((one, nth) => words.slice(nth + 1).map((other) => `${one} OR ${other}`)).join(' ')
}
