/** Scripts without spaces: Chinese, Japanese, Thai, Lao, Khmer and Burmese. Their texts are divided into characters. */

/** Radicals that some PDF files have in place of the same ideograph. Unicode counts them as symbols. For a character class. */
export const radicals = '\\u2e9f\\u2ef3\\u2f00-\\u2fd5'

/** Characters without width in the middle of words, such as the soft hyphen and the zero-width space. For a character class. */
export const invisible = '\\u00ad\\u200b-\\u200d\\u2060\\ufeff'

/** A tilde or a dot below of Latin letters also belongs to Thai. Digits form words. */
const spaceless =
  /(?![\u0300-\u036f\p{Nd}])[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u
const spacelessRuns = new RegExp(`(${spaceless.source}(?:${spaceless.source}|[\\p{M}${invisible}])*)`, 'u')

/** The vowel am of Thai and Lao as two characters: a mark and a letter. */
const am = '\\u0e4d\\u0e32|\\u0ecd\\u0eb2'
/** The mark of the vowel am before a tone mark, as the glyphs of some PDF files are ordered. */
const markBeforeTone = /([\u0e4d\u0ecd])([\u0e48-\u0e4b\u0ec8-\u0ecb])(?=[\u0e32\u0eb2])/g
/** A character with its marks, also with the voiced sound marks of half-width kana, which are letters. */
const character = new RegExp(`(?:${am}|\\P{M})(?:(?!${am})[\\p{M}\uff9e\uff9f${invisible}])*`, 'gu')

/** Returns whether a text has a character of a script without spaces. */
export const hasSpaceless = (text: string): boolean => spaceless.test(text)

/** Returns whether a text begins with a character of a script without spaces. */
export const isSpacelessCharacter = (text: string): boolean => spaceless.test(String.fromCodePoint(text.codePointAt(0) ?? 0))

/** Divides a run into parts of scripts without spaces and others, of the same lengths. A tone mark comes before the vowel am. */
export const splitSpaceless = (run: string): string[] => run.replace(markBeforeTone, '$2$1').split(spacelessRuns)

/** Returns the characters with their offsets. Equal to those of the text in NFKD. */
export const charactersOf = (text: string): RegExpExecArray[] => [...text.matchAll(character)]
