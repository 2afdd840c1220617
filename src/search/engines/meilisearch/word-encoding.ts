/** How words are written for Meilisearch: already cut and folded, so that it finds what our own index would, whatever languages its build knows. */

/**
 * Every word begins with a letter that hardly any word has in it, of its own script (Meilisearch cuts where the script changes): so no word is two others
 * put together, and a typo in the first letter counts like any other.
 */
const scripts: readonly (readonly [RegExp, string])[] = [
  [/^[\p{sc=Latin}0-9]+$/u, 'q'],
  [/^\p{sc=Cyrillic}+$/u, 'ѵ'],
  [/^\p{sc=Greek}+$/u, 'ϟ'],
]

/** Characters of one word; Meilisearch leaves words of more than 250 bytes out. */
const maxLength = 80
const maxOther = 45

/** A folded word as Meilisearch is given it, in documents and in queries: its beginning is written as the beginning of what it is written as. */
export function written(word: string): string {
  const [, first] = scripts.find(([script]) => script.test(word)) ?? []
  if (first !== undefined) return first + [...word].slice(0, maxLength).join('')
  // Other scripts would be cut by rules that differ from build to build.
  const codes = [...word].slice(0, maxOther).map((character) => character.codePointAt(0)!.toString(16).padStart(5, '0'))
  return `z${codes.join('')}`
}

/** The word that was written so, as far as it was not cut. */
export function read(text: string): string {
  if (!text.startsWith('z')) return text.slice(1)
  return (text.slice(1).match(/.{5}/g) ?? []).map((code) => String.fromCodePoint(Number.parseInt(code, 16))).join('')
}

/** Letters of the shortest word that a typo may have turned into one that tolerates typos. */
const shortest = 4

/** Whether a word of a document can be what a mistyped one was meant to be. */
export const isMeantByTypos = (word: string): boolean =>
  word.length >= shortest && /^\p{L}+$/u.test(word) && scripts.some(([script]) => script.test(word))

/** For words of 5 letters, and of 9. */
export const minSizeForTypos = { oneTypo: 6, twoTypos: 10 }
