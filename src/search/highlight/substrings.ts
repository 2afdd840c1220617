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

/** Maximum number of characters of a folded text that are searched. Each takes ten bytes. */
const maxSearched = 2_000_000
/** Maximum number of characters that one character becomes. */
const maxFolded = 18
/** Maximum length of a match. Only white space can make a match longer. */
const maxMatchLength = 2_000
/** Characters after which a step ends. It takes a few milliseconds. */
const stepLength = 50_000

/**
 * Returns the first `max` non-overlapping matches of each substring in the first 2,000,000 characters. Takes linear time per substring (Knuth, Morris
 * and Pratt 1977), in steps, between which the event loop can have a turn.
 */
export function* searchSubstrings(
  text: string,
  substrings: readonly string[],
  max = Number.POSITIVE_INFINITY,
): Generator<undefined, SubstringMatch[]> {
  if (substrings.length === 0) return []
  const folded = yield* fold(text)
  const found = new Map<string, Span[]>()
  const matches: SubstringMatch[] = []
  for (const [substring, value] of substrings.entries()) {
    const pattern = foldSpaces(value)
    const spans = found.get(pattern) ?? (yield* occurrences(text, folded, pattern, max))
    found.set(pattern, spans)
    for (const { start, end } of spans) matches.push({ start, end, substring })
  }
  return matches
}

type Span = Pick<SubstringMatch, 'start' | 'end'>

/** A normalized text in which each run of white space is one space. */
interface FoldedText {
  readonly codes: Uint16Array
  /** offset in the text of the character of each code; of a space: of the first and the last character of the run */
  readonly first: Uint32Array
  readonly last: Uint32Array
}

function* fold(text: string): Generator<undefined, FoldedText> {
  const size = Math.min(maxFolded * text.length, maxSearched)
  const [codes, first, last] = [new Uint16Array(size), new Uint32Array(size), new Uint32Array(size)]
  const cache = new Map<string, string>()
  let length = 0
  let isAfterSpace = false
  const add = (code: number, isSpace: boolean, offset: number) => {
    if (!isSpace || !isAfterSpace) {
      codes[length] = isSpace ? space : code
      first[length++] = offset
    }
    last[length - 1] = offset
    isAfterSpace = isSpace
  }
  for (let offset = 0, stepEnd = stepLength; offset < text.length && length + maxFolded <= size; ) {
    if (offset + length >= stepEnd) {
      yield
      stepEnd = offset + length + stepLength
    }
    const code = text.charCodeAt(offset)
    if (code < 128) {
      add(lowerCase[code]!, code === space || (code > 8 && code < 14), offset++)
      continue
    }
    const character = String.fromCodePoint(text.codePointAt(offset)!)
    const normalized = cache.get(character) ?? normalizeText(character)
    cache.set(character, normalized)
    for (let unit = 0; unit < normalized.length; unit++) add(normalized.charCodeAt(unit), /\s/.test(normalized[unit]!), offset)
    offset += character.length
  }
  return { codes: codes.subarray(0, length), first, last }
}

const space = 32
const lowerCase = Uint8Array.from({ length: 128 }, (_, code) => String.fromCharCode(code).toLowerCase().charCodeAt(0))

function* occurrences(text: string, { codes, first, last }: FoldedText, pattern: string, max: number): Generator<undefined, Span[]> {
  const spans: Span[] = []
  if (pattern === '') return spans
  const failure = failureFunction(pattern)
  // A match includes only one of the spaces at each end.
  const starts = pattern.length > 1 && pattern.startsWith(' ') ? last : first
  const ends = pattern.length > 1 && pattern.endsWith(' ') ? first : last
  let matched = 0
  for (let unit = 0; unit < codes.length && spans.length < max; unit++) {
    if (unit % stepLength === stepLength - 1) yield
    while (matched > 0 && pattern.charCodeAt(matched) !== codes[unit]) matched = failure[matched - 1]!
    if (pattern.charCodeAt(matched) === codes[unit]) matched++
    if (matched < pattern.length) continue
    matched = 0
    const start = starts[unit - pattern.length + 1]!
    spans.push({ start, end: Math.min(characterEnd(text, ends[unit]!), start + maxMatchLength) })
  }
  return spans
}

/** Returns the end offset of a character with its combining marks. */
function characterEnd(text: string, offset: number): number {
  const end = offset + (text.codePointAt(offset)! > 0xffff ? 2 : 1)
  // No mark comes before U+0300.
  return text.charCodeAt(end) >= 0x300 ? end + (combiningMarks.exec(text.slice(end, end + 8))?.[0].length ?? 0) : end
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
