/** What a word is. The index and every query are cut and folded here, so whatever is written the same is found. */

export interface Word {
  /** folded; see fold() */
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
const run = /[\p{L}\p{N}][\p{L}\p{N}\p{M}\p{Join_Control}\u00ad\u2060]{0,999}/gu
const spaceless = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u
const spacelessRuns = new RegExp(`(${spaceless.source}[${spaceless.source.slice(1, -1)}\\p{M}]*)`, 'u')
const character = /\P{M}\p{M}*/gu

const hyphen = /^[-\u2010\u2011]$/
const joint = /^[-\u2010\u2011'’./]$/
const hyphenation = /^[-\u2010\u2011][ \t]*\r?\n\s*$/
const digitBefore = /\d$/
const digitAfter = /^\d/

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
export function plain(text: string): string {
  if (isAscii(text)) return text.toLowerCase()
  return text
    .normalize('NFKD')
    .toLowerCase()
    .replace(accents, '')
    .replace(invisible, '')
    .replace(letter, (found) => letters[found]!)
}

/** A word as it is compared: lower case, without accents, ligatures, width or invisible characters; at most 255 characters. */
export function fold(text: string): string {
  if (isAscii(text)) return text.toLowerCase().slice(0, maxLength)
  return plain(text).replace(notWord, '').normalize('NFC').slice(0, maxLength).toWellFormed()
}

/** The words of a text, in order; a joined form comes after its parts. Time is linear in the length of the text. */
export function* words(text: string): Generator<Word> {
  let position = 0
  let chain: Word[] = []
  for (const match of text.matchAll(run)) {
    if (!isAscii(match[0]) && spaceless.test(match[0])) {
      yield* joined(chain)
      chain = []
      for (const word of mixed(match[0], match.index, position)) {
        position = word.position
        yield word
      }
      continue
    }
    const folded = fold(match[0])
    if (folded === '') continue
    const word: Word = { text: folded, position: ++position, start: match.index, end: match.index + match[0].length, form: 'word' }
    const before = chain.at(-1)
    if (!before || !belongs(chain, text.slice(before.end, Math.min(word.start, before.end + 40)), word)) {
      yield* joined(chain)
      chain = []
    }
    chain.push(word)
    yield word
  }
  yield* joined(chain)
}

function* joined(chain: readonly Word[]): Generator<Word> {
  const first = chain[0]
  const last = chain.at(-1)
  if (!first || !last || chain.length < 2 || chain.length > maxParts + 1) return
  const text = chain.map((word) => word.text).join('')
  if (text.length <= maxLength) yield { text, position: first.position, start: first.start, end: last.end, form: 'joined' }
}

/** Whether `gap` makes the next word part of the same chain: e-mail, O'Brien, U.S.A., 17.03.2026, 1,234.56, a word broken at the end of a line, the groups of an IBAN. */
function belongs(chain: readonly Word[], gap: string, next: Word): boolean {
  const before = chain.at(-1)!
  if (gap.length === 1) {
    if (joint.test(gap)) return true
    if (gap === ',') return digitBefore.test(before.text) && digitAfter.test(next.text)
    return gap === ' ' && isIbanGroup(chain, next.text)
  }
  return gap.length > 1 && hyphen.test(gap[0]!) && hyphenation.test(gap)
}

function isIbanGroup(chain: readonly Word[], next: string): boolean {
  if (!/^[a-z]{2}\d{2}$/.test(chain[0]!.text) || chain.at(-1)!.text.length !== 4) return false
  return /^[a-z\d]{1,4}$/.test(next) && (chain.length === 1 || /\d/.test(next))
}

/** A run in which some script without spaces occurs. */
function* mixed(text: string, start: number, position: number): Generator<Word> {
  let at = start
  for (const part of text.split(spacelessRuns)) {
    if (part !== '' && spaceless.test(part)) {
      for (const word of pairs(part, at, position)) {
        position = word.position
        yield word
      }
    } else {
      const folded = fold(part)
      if (folded !== '') yield { text: folded, position: ++position, start: at, end: at + part.length, form: 'word' }
    }
    at += part.length
  }
}

function* pairs(text: string, start: number, position: number): Generator<Word> {
  const characters = [...text.matchAll(character)]
  for (const [index, { 0: first, index: at }] of characters.entries()) {
    const second = characters[index + 1]?.[0]
    const end = start + at + first.length + (second?.length ?? 0)
    yield { text: fold(first + (second ?? '')), position: ++position, start: start + at, end, form: second === undefined ? 'last' : 'pair' }
  }
}

function isAscii(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) > 127) return false
  return true
}
