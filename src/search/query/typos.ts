/** Typo tolerance of words. */
import { hasSpaceless } from './spaceless.ts'

export { editDistance } from '../../edit-distance.ts'

/** Returns whether a word has only letters, with the vowel signs of Indian scripts, and is no part of a text without spaces. */
export const isLetters = (word: string): boolean => /^\p{L}+$/u.test(word) || (/^[\p{L}\p{M}]+$/u.test(word) && !hasSpaceless(word))

/** Returns the maximum number of typos of a word: 1 from 5 letters, 2 from 9; 0 in numbers and codes. */
export function maxTypos(word: string): 0 | 1 | 2 {
  if (word.length < 5 || !isLetters(word)) return 0
  return word.length < 9 ? 1 : 2
}

/** Parts of a word. Each variant of the word with typos begins with `beginning`, ends with `ending` or contains `middle`. */
export interface WordParts {
  readonly beginning: string
  /** null: two parts are enough */
  readonly middle: string | null
  readonly ending: string
}

/**
 * Splits a word into `typos + 1` parts, with one letter free between them. A typo spans at most two letters (a transposition), so it changes
 * one part only, and one part stays whole.
 */
export function wordParts(word: string, typos: 1 | 2): WordParts {
  const letterCount = word.length - typos
  if (typos === 1) return { beginning: word.slice(0, letterCount >> 1), middle: null, ending: word.slice(1 + (letterCount >> 1)) }
  const length = Math.floor((letterCount - 1) / 3)
  return {
    beginning: word.slice(0, length),
    middle: word.slice(length + 1, word.length - length - 1),
    ending: word.slice(word.length - length),
  }
}
