/** Finds substrings of a text, ignoring case, accents and the amount of white space. */
import { foldSpaces } from '../query/folding.ts'
import { normalizeText } from '../query/tokenizer.ts'

export interface SubstringMatch {
  /** start and end offset in the text, in UTF-16 units */
  readonly start: number
  readonly end: number
  /** index of the substring */
  readonly substring: number
}

/** Maximum number of characters of a text that are searched. A normalized text takes 60 bytes for each. */
const maxSearched = 2_000_000
/** Maximum length of a match. Only white space can make a match longer. */
const maxMatchLength = 2_000

/** Returns the first `max` non-overlapping matches of each substring in the first 2,000,000 characters, in linear time per substring (Knuth, Morris and Pratt 1977). */
export function substringsIn(text: string, substrings: readonly string[], max = Number.POSITIVE_INFINITY): SubstringMatch[] {
  if (substrings.length === 0) return []
  const { normalized, startOf, endOf } = normalizeWithOffsets(text.slice(0, maxSearched))
  const collapsed = collapseSpaces(normalized)
  const cache = new Map<string, SubstringMatch[]>()
  return substrings.flatMap((value, substring) => {
    const pattern = foldSpaces(value)
    const matches =
      cache.get(pattern)?.map((match) => ({ ...match, substring })) ?? occurrences(collapsed, pattern, startOf, endOf, substring, max)
    cache.set(pattern, matches)
    return matches
  })
}

/** A text in which each run of white space is one space. */
interface CollapsedText {
  readonly codes: Uint16Array
  /** first and last unit of the text for each code */
  readonly first: Uint32Array
  readonly last: Uint32Array
}

function collapseSpaces(text: string): CollapsedText {
  const [codes, first, last] = [new Uint16Array(text.length), new Uint32Array(text.length), new Uint32Array(text.length)]
  let length = 0
  let isAfterSpace = false
  for (let unit = 0; unit < text.length; unit++) {
    const code = text.charCodeAt(unit)
    const isSpace = code === 32 || ((code < 14 || code > 127) && /\s/.test(text[unit]!))
    if (!isSpace || !isAfterSpace) {
      codes[length] = isSpace ? 32 : code
      first[length++] = unit
    }
    last[length - 1] = unit
    isAfterSpace = isSpace
  }
  return { codes: codes.subarray(0, length), first, last }
}

function occurrences(
  { codes, first, last }: CollapsedText,
  pattern: string,
  startOf: (unit: number) => number,
  endOf: (unit: number) => number,
  substring: number,
  max: number,
): SubstringMatch[] {
  const matches: SubstringMatch[] = []
  if (pattern === '') return matches
  const failure = failureFunction(pattern)
  let matched = 0
  for (let unit = 0; unit < codes.length && matches.length < max; unit++) {
    while (matched > 0 && pattern.charCodeAt(matched) !== codes[unit]) matched = failure[matched - 1]!
    if (pattern.charCodeAt(matched) === codes[unit]) matched++
    if (matched < pattern.length) continue
    matched = 0
    // A match includes only one of the spaces at each end.
    const from = (pattern.length > 1 && pattern[0] === ' ' ? last : first)[unit - pattern.length + 1]!
    const to = (pattern.length > 1 && pattern.endsWith(' ') ? first : last)[unit]!
    const start = startOf(from)
    matches.push({ start, end: Math.min(endOf(to), start + maxMatchLength), substring })
  }
  return matches
}

/** Returns, for each prefix, the length of its longest proper prefix that is also its suffix. */
function failureFunction(pattern: string): Uint32Array {
  const lengths = new Uint32Array(pattern.length)
  for (let index = 1, length = 0; index < pattern.length; index++) {
    while (length > 0 && pattern[index] !== pattern[length]) length = lengths[length - 1]!
    if (pattern[index] === pattern[length]) length++
    lengths[index] = length
  }
  return lengths
}

/**
 * Replaces white space in a regular expression by any white space. One character is enough at the ends; more would take quadratic time in a text full
 * of spaces.
 */
export const anySpace = (pattern: string): string => pattern.replace(/^\s+|\s+$/g, '\\s').replace(/\s+/g, '\\s+')

const combiningMarks = /^\p{M}+/u

/** Normalizes a text, with functions that map units of the result to start and end offsets of the text. */
function normalizeWithOffsets(text: string): { normalized: string; startOf(unit: number): number; endOf(unit: number): number } {
  if (!/[^\p{ASCII}]/u.test(text)) return { normalized: normalizeText(text), startOf: (unit) => unit, endOf: (unit) => unit + 1 }
  const cache = new Map<string, string>()
  const offsets: number[] = []
  let normalized = ''
  let offset = 0
  for (const character of text) {
    const replacement = cache.get(character) ?? normalizeText(character)
    cache.set(character, replacement)
    for (let unit = 0; unit < replacement.length; unit++) offsets.push(offset)
    normalized += replacement
    offset += character.length
  }
  return {
    normalized,
    startOf: (unit) => offsets[unit]!,
    endOf: (unit) => {
      const start = offsets[unit]!
      const end = start + String.fromCodePoint(text.codePointAt(start)!).length
      return end + (combiningMarks.exec(text.slice(end, end + 8))?.[0].length ?? 0)
    },
  }
}
