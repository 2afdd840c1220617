/** What a word is. The index and every query are cut and folded here, so whatever is written the same is found. */

export interface Token {
  /** folded; see foldWord() */
  readonly text: string
  /** counted in words, from 1; a joined form has that of its first part */
  readonly position: number
  /** where it stands in the text it was read from (UTF-16) */
  readonly start: number
  readonly end: number
  /**
   * `word`: letters and digits in a row. `joined`: parts with a hyphen or the like between them, written as one (e-mail: email).
   * Scripts without spaces are indexed by `pair`s of characters that overlap, and the `last` character of each run.
   */
  readonly form: 'word' | 'joined' | 'pair' | 'last'
}

/** Longer words are cut: PostgreSQL takes lexemes of 2,046 bytes at most, and nobody types so much. */
const maxLength = 255
/** Parts of a joined word, but one. */
export const maxParts = 8

/** Inside of words only marks and invisible joiners stand; soft hyphens are where a word could be broken. Bounded: an endless one would overflow the stack. */
const run = /[\p{L}\p{N}][\p{L}\p{N}\p{M}\p{Join_Control}\u00ad\u2060]{0,999}/uy
const longestRun = 1_000
const first = /[\p{L}\p{N}]/uy
const spaceless = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u
const spacelessRuns = new RegExp(`(${spaceless.source}[${spaceless.source.slice(1, -1)}\\p{M}]*)`, 'u')
const character = /\P{M}\p{M}*/gu

const hyphen = /^[-\u2010\u2011]$/
const joint = /^[-\u2010\u2011'’./]$/
const hyphenation = /^[-\u2010\u2011][ \t]*\r?\n\s*$/
const digitBefore = /\d$/
const digitAfter = /^\d/
const digit = /\p{N}/u

const accents = /[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]/g
const invisible = /[\u00ad\u200b-\u200d\u2060\ufeff]/g
const notWord = /[^\p{L}\p{N}\p{M}]/gu
/** Letters that Unicode does not take apart. */
const letters: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ł: 'l',
  ħ: 'h',
  ı: 'i',
  ŧ: 't',
  ς: 'σ',
}
const letter = new RegExp(`[${Object.keys(letters).join('')}]`, 'g')

/** A text as pieces of it are compared: lower case, without accents, ligatures, width or invisible characters. dms_plain() in the database does the same. */
export function normalizeText(text: string): string {
  if (isAscii(text)) return text.toLowerCase()
  return text
    .normalize('NFKD')
    .toLowerCase()
    .replace(accents, '')
    .replace(invisible, '')
    .replace(letter, (found) => letters[found]!)
}

/** A word as it is compared: lower case, without accents, ligatures, width or invisible characters; at most 255 characters. */
export function foldWord(text: string): string {
  if (isAscii(text)) return text.toLowerCase().slice(0, maxLength)
  return normalizeText(text).replace(notWord, '').normalize('NFC').slice(0, maxLength).toWellFormed()
}

/** The words of a text, or of its part `from` … `to`, whose edges are those of runs; in order, a joined form after its parts. Time is linear in the length of the text. */
export function* tokenize(text: string, from = 0, to = text.length): Generator<Token> {
  let position = 0
  let chain: Token[] = []
  for (let start = nextRun(text, from), run: Run; start < to; start = nextRun(text, run.end)) {
    run = runAt(text, start)
    const { end } = run
    const letters = text.slice(start, end)
    if (isSpaceless(text, run)) {
      yield* joined(chain)
      chain = []
      for (const word of mixed(letters, start, position)) {
        position = word.position
        yield word
      }
      continue
    }
    const folded = foldWord(letters)
    if (folded === '') continue
    const word: Token = { text: folded, position: ++position, start, end, form: 'word' }
    const before = chain.at(-1)
    if (before && belongs(chain, text.slice(before.end, Math.min(start, before.end + 40)), word)) chain.push(word)
    else {
      if (chain.length > 1) yield* joined(chain)
      chain = [word]
    }
    yield word
  }
  yield* joined(chain)
}

/** Where the next run of letters and digits begins, from `at` on; the end of the text where there is none. */
export function nextRun(text: string, at: number): number {
  for (let start = at; start < text.length; start++) {
    const code = text.charCodeAt(start)
    if (code < 128) {
      if (isLetterOrDigit[code]) return start
      continue
    }
    first.lastIndex = start
    if (first.test(text)) return start
    // Of a pair of surrogates the second is none of its own.
    if (text.codePointAt(start)! > 0xffff) start++
  }
  return text.length
}

/** Letters and digits in a row: from where to where in a text. */
export interface Run {
  readonly start: number
  readonly end: number
  readonly isAscii: boolean
}

/** The run that begins at `start`. */
export function runAt(text: string, start: number): Run {
  const limit = Math.min(text.length, start + longestRun)
  for (let end = start; end < limit; end++) {
    const code = text.charCodeAt(end)
    if (code < 128) {
      if (!isLetterOrDigit[code]) return { start, end, isAscii: true }
      continue
    }
    run.lastIndex = start
    run.test(text)
    return { start, end: run.lastIndex, isAscii: isAscii(text, start, run.lastIndex) }
  }
  return { start, end: limit, isAscii: true }
}

/** Of ASCII; a table, because each character of each text is asked for. */
const isLetterOrDigit = Uint8Array.from({ length: 128 }, (_, code) => (/[a-z\d]/i.test(String.fromCharCode(code)) ? 1 : 0))
const isPlainGap = isLetterOrDigit.map((is) => 1 - is)

/** Whether some script without spaces occurs in a run: its words are none of a chain. */
export const isSpaceless = (text: string, { start, end, isAscii }: Run): boolean => !isAscii && spaceless.test(text.slice(start, end))

function* joined(chain: readonly Token[]): Generator<Token> {
  const first = chain[0]
  const last = chain.at(-1)
  if (!first || !last || chain.length < 2 || chain.length > maxParts + 1) return
  const text = chain.map((word) => word.text).join('')
  if (text.length <= maxLength) yield { text, position: first.position, start: first.start, end: last.end, form: 'joined' }
}

/** Whether `gap` makes the next word part of the same chain: e-mail, O'Brien, U.S.A., 17.03.2026, 1,234.56, a word broken at the end of a line, the groups of an IBAN. */
function belongs(chain: readonly Token[], gap: string, next: Token): boolean {
  const before = chain.at(-1)!
  if (gap === ' ') return isIbanGroup(chain, next.text)
  if (gap === ',') return digitBefore.test(before.text) && digitAfter.test(next.text)
  if (gap.length === 1) return joint.test(gap)
  return gap.length > 1 && hyphen.test(gap[0]!) && hyphenation.test(gap)
}

/** Whether a run and the next one may be parts of the same chain, whatever came before; of two words in a sentence it is seldom so. */
export function mayBelong(text: string, before: Run, next: Run): boolean {
  const sign = text.charAt(before.end)
  if (next.start - before.end > 1) return hyphen.test(sign) && /\s/.test(text.charAt(before.end + 1))
  if (sign !== ' ') return next.start > before.end && (sign === ',' || joint.test(sign))
  if (before.isAscii && before.end - before.start !== ibanGroup) return false
  return digit.test(text.slice(before.start, before.end)) || digit.test(text.slice(next.start, next.end))
}

/** What could join the words before and after it: - ' . / and , between digits. */
const asciiJoints = new Set([...`-'./,`].map((sign) => sign.charCodeAt(0)))
const space = 0x20
const dash = 0x2d
/** The last digit; letters come after. */
const nine = 0x39

/** Where the next run begins after one that is a word of its own, as most are; -1 where that is not plain to see. `start`: of a run that does not belong to the one before. */
export function nextAfterAlone(text: string, start: number): number {
  const limit = Math.min(text.length, start + longestRun)
  let end = start
  while (end < limit && isLetterOrDigit[text.charCodeAt(end)]) end++
  let next = end
  while (next < text.length && isPlainGap[text.charCodeAt(next)]) next++
  if (next === end || next === text.length || !isLetterOrDigit[text.charCodeAt(next)]) return -1
  const sign = text.charCodeAt(end)
  if (sign === dash) return -1
  if (next - end > 1) return next
  if (sign === space) return end - start === ibanGroup && text.charCodeAt(end - 1) <= nine ? -1 : next
  return asciiJoints.has(sign) ? -1 : next
}

/** Characters of each group of an IBAN but the last. */
const ibanGroup = 4

function isIbanGroup(chain: readonly Token[], next: string): boolean {
  if (chain.at(-1)!.text.length !== ibanGroup || !/^[a-z]{2}\d{2}$/.test(chain[0]!.text)) return false
  return /^[a-z\d]{1,4}$/.test(next) && (chain.length === 1 || /\d/.test(next))
}

/** A run in which some script without spaces occurs. */
function* mixed(text: string, start: number, position: number): Generator<Token> {
  let at = start
  for (const part of text.split(spacelessRuns)) {
    if (part !== '' && spaceless.test(part)) {
      for (const word of pairs(part, at, position)) {
        position = word.position
        yield word
      }
    } else {
      const folded = foldWord(part)
      if (folded !== '') yield { text: folded, position: ++position, start: at, end: at + part.length, form: 'word' }
    }
    at += part.length
  }
}

function* pairs(text: string, start: number, position: number): Generator<Token> {
  const characters = [...text.matchAll(character)]
  for (const [index, { 0: first, index: at }] of characters.entries()) {
    const second = characters[index + 1]?.[0]
    const end = start + at + first.length + (second?.length ?? 0)
    yield {
      text: foldWord(first + (second ?? '')),
      position: ++position,
      start: start + at,
      end,
      form: second === undefined ? 'last' : 'pair',
    }
  }
}

function isAscii(text: string, from = 0, to = text.length): boolean {
  for (let index = from; index < to; index++) if (text.charCodeAt(index) > 127) return false
  return true
}
