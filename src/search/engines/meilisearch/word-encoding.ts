/** Encodes tokens as words that every build of Meilisearch tokenizes equally, so that it finds the documents that the PostgreSQL index finds. */

/**
 * First letter of the encoded words of a script. It belongs to the script, because Meilisearch splits words at a change of script. It is rare: no
 * encoded word is a concatenation of two. Typos in the first letter of the word then count like other typos.
 */
const scripts: readonly (readonly [RegExp, string])[] = [
  [/^[\p{sc=Latin}0-9]+$/u, 'q'],
  [/^\p{sc=Cyrillic}+$/u, 'ѵ'],
  [/^\p{sc=Greek}+$/u, 'ϟ'],
]

/** Maximum length of a word, in characters. Meilisearch ignores words of more than 250 bytes. */
const maxLength = 80
const maxOtherLength = 45

/** Encodes a normalized word. The encoding of a prefix is a prefix of the encoding. */
export function encodeWord(word: string): string {
  const [, first] = scripts.find(([script]) => script.test(word)) ?? []
  if (first !== undefined) return first + [...word].slice(0, maxLength).join('')
  // Tokenization of other scripts differs between builds.
  const codes = [...word].slice(0, maxOtherLength).map((character) => character.codePointAt(0)!.toString(16).padStart(5, '0'))
  return `z${codes.join('')}`
}

/** Decodes a word, which may be truncated. */
export function decodeWord(text: string): string {
  if (!text.startsWith('z')) return text.slice(1)
  return (text.slice(1).match(/.{5}/g) ?? []).map((code) => String.fromCodePoint(Number.parseInt(code, 16))).join('')
}

/** Minimum length of a word within one typo of a word with typo tolerance. */
const minLength = 4

/** Returns whether a word of a document can match a query word with typos. */
export const canBeTypoTarget = (word: string): boolean =>
  word.length >= minLength && /^\p{L}+$/u.test(word) && scripts.some(([script]) => script.test(word))

/** Encoded lengths from which one or two typos are tolerated: 5 and 9 letters. */
export const minSizeForTypos = { oneTypo: 6, twoTypos: 10 }
