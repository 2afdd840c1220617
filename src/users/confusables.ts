/** Confusable user names (Unicode Technical Standard 39): mixed scripts, and letters that look like letters of another script. */

const commonScript = /[\p{Script=Common}\p{Script=Inherited}]/u

/** The recommended scripts of UAX 31, table 5. All other scripts count as one script. */
const scripts = (
  'Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hangul Han Hebrew Hiragana Kannada Katakana ' +
  'Khmer Lao Latin Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan'
).split(' ')
const scriptPatterns = scripts.map((script) => new RegExp(`\\p{Script=${script}}`, 'u'))

/** Scripts that may be combined: the level "highly restrictive" of the standard. */
const compatibleScripts = ['Latin Han Hiragana Katakana', 'Latin Han Bopomofo', 'Latin Han Hangul'].map((names) => names.split(' '))

/** Returns whether a name mixes scripts that are not written together, such as Latin and Cyrillic. */
export function hasMixedScripts(name: string): boolean {
  const letters = [...name].filter((character) => !commonScript.test(character))
  const used = new Set(letters.map((letter) => scripts[scriptPatterns.findIndex((pattern) => pattern.test(letter))] ?? 'other'))
  return used.size > 1 && !compatibleScripts.some((group) => [...used].every((script) => group.includes(script)))
}

/** Pairs of Latin and Cyrillic or Greek letters: lower case, then upper case folded to lower case. */
const confusableLetters: readonly (readonly [latin: string, other: string])[] = [
  ['acdehijklmopqstwxy', 'асԁеһіјкӏморԛѕтԝху'],
  ['abcehijkmopstxy', 'авсеніјкморѕтху'],
  ['aikoptuvwxy', 'αικορτυνωχγ'],
  ['abehikmnoptxyz', 'αβεηικμνορτχυζ'],
]
const tables = confusableLetters.flatMap(([latin, other]) => {
  const pairs = [...latin].map((letter, index) => [letter, [...other][index] ?? letter] as const)
  return [new Map(pairs), new Map(pairs.map(([letter, confusable]) => [confusable, letter] as const))]
})

/** Returns the keys of names that look like this name. Every letter must have a counterpart; digits and signs match themselves. */
export function confusableKeys(key: string): string[] {
  const letters = [...key].filter((character) => !commonScript.test(character))
  if (letters.length === 0) return []
  const fitting = tables.filter((table) => letters.every((letter) => table.has(letter)))
  return [...new Set(fitting.map((table) => Array.from(key, (character) => table.get(character) ?? character).join('')))]
}
