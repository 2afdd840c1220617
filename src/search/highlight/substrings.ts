/** Finds substrings of a text, no matter the case, the accents or how much space there is. */
import { normalizeText } from '../query/tokenizer.ts'

export interface SubstringMatch {
  /** in the text (UTF-16) */
  readonly start: number
  readonly end: number
  /** which of them */
  readonly substring: number
}

/** What is longer than anything that can be asked for is so by its spaces, and not shown whole. */
const longest = 2_000

/** Where the substrings stand, one after the other, each place once for each substring. Time is linear in the text for each substring (Knuth, Morris and Pratt 1977). */
export function substringsIn(text: string, substrings: readonly string[]): SubstringMatch[] {
  if (substrings.length === 0) return []
  const { folded, starts, ends } = normalizeWithOffsets(text)
  const collapsed = collapseSpaces(folded)
  const known = new Map<string, SubstringMatch[]>()
  return substrings.flatMap((value, substring) => {
    const wanted = normalizeText(value).replace(/\s+/g, ' ')
    const found = known.get(wanted)?.map((same) => ({ ...same, substring })) ?? occurrences(collapsed, wanted, starts, ends, substring)
    known.set(wanted, found)
    return found
  })
}

/** A text whose spaces count as one, however many they are. */
interface CollapsedText {
  readonly codes: Uint16Array
  /** units of the text that each code stands for: first and last */
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
  wanted: string,
  starts: (unit: number) => number,
  ends: (unit: number) => number,
  substring: number,
): SubstringMatch[] {
  const found: SubstringMatch[] = []
  if (wanted === '') return found
  const shorter = prefixes(wanted)
  let matched = 0
  for (let at = 0; at < codes.length; at++) {
    while (matched > 0 && wanted.charCodeAt(matched) !== codes[at]) matched = shorter[matched - 1]!
    if (wanted.charCodeAt(matched) === codes[at]) matched++
    if (matched < wanted.length) continue
    matched = 0
    // Of the spaces around what was found one on each side is enough.
    const from = (wanted.length > 1 && wanted[0] === ' ' ? last : first)[at - wanted.length + 1]!
    const to = (wanted.length > 1 && wanted.endsWith(' ') ? first : last)[at]!
    const start = starts(from)
    found.push({ start, end: Math.min(ends(to), start + longest), substring })
  }
  return found
}

/** For each length of the beginning of a text that of the longest part which both begins and ends it. */
function prefixes(text: string): Uint32Array {
  const lengths = new Uint32Array(text.length)
  for (let at = 1, length = 0; at < text.length; at++) {
    while (length > 0 && text[at] !== text[length]) length = lengths[length - 1]!
    if (text[at] === text[length]) length++
    lengths[at] = length
  }
  return lengths
}

/** A pattern in which any space may be more or less; at the edges one is enough, and more would take quadratic time in a text full of spaces. */
export const anySpace = (pattern: string): string => pattern.replace(/^\s+|\s+$/g, '\\s').replace(/\s+/g, '\\s+')

const mark = /^\p{M}+/u

/** The text as normalizeText() has it, and where each unit of that stands in the text itself. */
function normalizeWithOffsets(text: string): { folded: string; starts(at: number): number; ends(at: number): number } {
  const whole = normalizeText(text)
  // Nothing was replaced by anything longer or shorter, as in all plain English.
  if (whole.length === text.length && !/[^\p{ASCII}]/u.test(text)) return { folded: whole, starts: (at) => at, ends: (at) => at + 1 }
  const known = new Map<string, string>()
  const from: number[] = []
  let folded = ''
  let at = 0
  for (const character of text) {
    const now = known.get(character) ?? normalizeText(character)
    known.set(character, now)
    for (let unit = 0; unit < now.length; unit++) from.push(at)
    folded += now
    at += character.length
  }
  const widthAt = (start: number): number => String.fromCodePoint(text.codePointAt(start)!).length
  return {
    folded,
    starts: (unit) => from[unit]!,
    ends: (unit) => {
      const start = from[unit]!
      const end = start + widthAt(start)
      return end + (mark.exec(text.slice(end, end + 8))?.[0].length ?? 0)
    },
  }
}
