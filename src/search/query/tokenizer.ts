/** Tokenizes and normalizes texts and queries. The index and every query use it: equal words have equal tokens. */
import { foldDigits } from './digits.ts'
import { ibanGroup, ibanLengths, isIbanGroup } from './iban.ts'
import { charactersOf, hasSpaceless, invisible, radicals, splitSpaceless } from './spaceless.ts'

export interface Token {
  /** normalized; see normalizeWord() */
  readonly text: string
  /** position in words, from 1; of a joined token: the position of its first part */
  readonly position: number
  /** start and end offset in the text, in UTF-16 units */
  readonly start: number
  readonly end: number
  /**
   * `word`: a run of letters and digits. `joined`: adjacent words without the hyphen or other sign that joins them (e-mail: email).
   * `pair`: bigram of a script without spaces; `last`: the last character of such a run.
   */
  readonly form: 'word' | 'joined' | 'pair' | 'last'
}

/** Maximum length of a token. Longer words are truncated: a lexeme of PostgreSQL has at most 2,046 bytes. */
const maxLength = 255
/** Maximum number of words in a joined token. */
export const maxParts = 9

const lettersAndDigits = `\\p{L}\\p{N}${radicals}`
const runInitial = `[[${lettersAndDigits}]--\u02bc]`
/** A run of letters and digits, with marks and invisible characters, but no soft hyphen at its end. Bounded: a longer match overflows the regex stack. */
const runPattern = new RegExp(`${runInitial}[[${lettersAndDigits}\\p{M}${invisible}]--\u02bc]{0,999}(?<!\\u00ad(?=\\s))`, 'vy')
const maxRunLength = 1_000
const runStart = new RegExp(`(?=${runInitial})`, 'vg')

const hyphen = /^[-\u2010\u2011\u00ad]$/
/** U+02BC is the apostrophe of Ukrainian, which Unicode counts as a letter. The last three are the hyphen and the marks of abbreviations of Hebrew. */
const joint = /^[-\u2010\u2011'’\u02bc./\u05be\u05f3\u05f4]$/
/** Keyboards have quotation marks in place of the mark of Hebrew abbreviations. */
const quotedHebrew = /^\p{sc=Hebrew}["”]\p{sc=Hebrew}$/u
const hyphenation = /^[-\u2010\u2011\u00ad][ \t]*\r?\n\s*$/
const digit = /\p{N}/u

const accents = /[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]/g
const invisibles = new RegExp(`[${invisible}]`, 'g')
/** Signs and variation selectors, which choose the glyph of a character. */
const notWord = /[^\p{L}\p{N}\p{M}]|\p{Variation_Selector}/gu
/** Letters without a Unicode decomposition. */
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

/** Normalizes a text for comparison: NFKD, lower case, no accents, no invisible characters. Equal to dms_plain() in the database. */
export function normalizeText(text: string): string {
  if (isAscii(text)) return text.toLowerCase()
  return text
    .normalize('NFKD')
    .toLowerCase()
    .replace(accents, '')
    .replace(invisibles, '')
    .replace(letter, (character) => letters[character]!)
}

/** Returns the term of a word: its normalized letters, and digits of ASCII, at most 255 characters. */
export function normalizeWord(text: string): string {
  if (isAscii(text)) return normalizeAscii(text)
  return foldDigits(normalizeText(text).replace(notWord, '')).normalize('NFC').slice(0, maxLength).toWellFormed()
}

const normalizeAscii = (word: string): string => word.toLowerCase().slice(0, maxLength)

/** Yields the tokens of a text, or of its part between two run boundaries. A joined token follows its parts. Takes linear time. */
export function* tokenize(text: string, from = 0, to = text.length): Generator<Token> {
  let position = 0
  let chain: Token[] = []
  for (let start = nextRun(text, from), run: Run; start < to; start = nextRun(text, run.end)) {
    run = runAt(text, start)
    const { end } = run
    const word = text.slice(start, end)
    if (isSpaceless(text, run)) {
      if (chain.length > 1) yield* joinChain(chain)
      chain = []
      for (const token of tokenizeMixedRun(word, start, position)) {
        position = token.position
        yield token
      }
      continue
    }
    const term = run.isAscii ? normalizeAscii(word) : normalizeWord(word)
    if (term === '') continue
    const token: Token = { text: term, position: ++position, start, end, form: 'word' }
    const before = chain.at(-1)
    if (before && isJoined(chain, text.slice(before.end, Math.min(start, before.end + 40)), token))
      chain[Math.min(chain.length, maxParts)] = token
    else {
      // Most chains are single words: a generator for each of them is slow.
      if (chain.length > 1) yield* joinChain(chain)
      chain = [token]
    }
    yield token
  }
  yield* joinChain(chain)
}

/** Returns the offset of the next run at or after `from`; the length of the text if there is none. */
export function nextRun(text: string, from: number): number {
  for (let start = from; start < text.length; start++) {
    const code = text.charCodeAt(start)
    if (code < 128) {
      if (isLetterOrDigit[code]) return start
      continue
    }
    runStart.lastIndex = start
    return runStart.test(text) ? runStart.lastIndex : text.length
  }
  return text.length
}

/** Offsets of a run of letters and digits in a text. */
export interface Run {
  readonly start: number
  readonly end: number
  readonly isAscii: boolean
}

/** Returns the run that begins at `start`. */
export function runAt(text: string, start: number): Run {
  const limit = Math.min(text.length, start + maxRunLength)
  for (let end = start; end < limit; end++) {
    const code = text.charCodeAt(end)
    if (code < 128) {
      if (!isLetterOrDigit[code]) return { start, end, isAscii: true }
      continue
    }
    runPattern.lastIndex = start
    runPattern.test(text)
    return { start, end: runPattern.lastIndex, isAscii: isAscii(text, start, runPattern.lastIndex) }
  }
  return { start, end: limit, isAscii: true }
}

/** Letters and digits of ASCII. A table, because every character of every text is looked up. */
const isLetterOrDigit = Uint8Array.from({ length: 128 }, (_, code) => (/[a-z\d]/i.test(String.fromCharCode(code)) ? 1 : 0))
const isSeparator = isLetterOrDigit.map((is) => 1 - is)

/** Returns whether a run contains a script without spaces. Such a run is not joined to others. */
export const isSpaceless = (text: string, { start, end, isAscii }: Run): boolean => !isAscii && hasSpaceless(text.slice(start, end))

/** Yields the joined token of a chain of at least two words, and of an IBAN at its beginning, which other numbers may follow. */
function* joinChain(chain: readonly Token[]): Generator<Token> {
  if (chain.length < 2) return
  const words = chain.length > maxParts ? chain.slice(0, maxParts) : chain
  for (const count of ibanLengths(words)) if (count < chain.length) yield joinWords(words.slice(0, count))
  if (words.length < chain.length) return
  const joined = joinWords(words)
  if (joined.text.length <= maxLength) yield joined
}

function joinWords(words: readonly Token[]): Token {
  const { position, start } = words[0]!
  return { text: words.map(({ text }) => text).join(''), position, start, end: words.at(-1)!.end, form: 'joined' }
}

/** Returns whether `gap` joins two words: e-mail, O'Brien, U.S.A., 17.03.2026, 1,234.56, a hyphenated line break, the groups of an IBAN. */
function isJoined(chain: readonly Token[], gap: string, next: Token): boolean {
  const before = chain.at(-1)!
  if (gap === ' ') return isIbanGroup(next.text, chain)
  if (gap === ',') return /\d$/.test(before.text) && /^\d/.test(next.text)
  if (gap.length === 1) return joint.test(gap) || quotedHebrew.test(before.text.at(-1)! + gap + next.text[0]!)
  return gap.length > 1 && hyphen.test(gap[0]!) && hyphenation.test(gap)
}

/** Returns whether isJoined() can be true for two adjacent runs, in any chain. Usually false for two words of a sentence. */
export function canJoin(text: string, before: Run, next: Run): boolean {
  const sign = text.charAt(before.end)
  if (next.start - before.end > 1) return hyphen.test(sign) && /\s/.test(text.charAt(before.end + 1))
  if (sign !== ' ') return next.start > before.end && (sign === ',' || joint.test(sign) || (!before.isAscii && /["”]/.test(sign)))
  if (before.isAscii && before.end - before.start !== ibanGroup) return false
  return digit.test(text.slice(before.start, before.end)) || digit.test(text.slice(next.start, next.end))
}

/** Characters that can join the words around them. */
const asciiJoints = new Set([...`-'./,`].map((sign) => sign.charCodeAt(0)))
const space = 0x20
const dash = 0x2d
/** The last ASCII digit. All ASCII letters have higher codes. */
const nine = 0x39

/** Fast path for two ASCII words that cannot be joined: returns the offset of the second. Returns -1 if runAt() and canJoin() must decide. `start`: offset of the first word, which is not joined to a previous one. */
export function skipSingleWord(text: string, start: number): number {
  const limit = Math.min(text.length, start + maxRunLength)
  let end = start
  while (end < limit && isLetterOrDigit[text.charCodeAt(end)]) end++
  let next = end
  while (next < text.length && isSeparator[text.charCodeAt(next)]) next++
  if (next === end || next === text.length || !isLetterOrDigit[text.charCodeAt(next)]) return -1
  const sign = text.charCodeAt(end)
  if (sign === dash) return -1
  if (next - end > 1) return next
  if (sign === space) return end - start === ibanGroup && text.charCodeAt(end - 1) <= nine ? -1 : next
  return asciiJoints.has(sign) ? -1 : next
}

/** Yields the tokens of a run that contains a script without spaces. */
function* tokenizeMixedRun(text: string, start: number, position: number): Generator<Token> {
  let at = start
  for (const part of splitSpaceless(text)) {
    if (hasSpaceless(part)) {
      for (const token of bigrams(part, at, position)) {
        position = token.position
        yield token
      }
    } else {
      const term = normalizeWord(part)
      if (term !== '') yield { text: term, position: ++position, start: at, end: at + part.length, form: 'word' }
    }
    at += part.length
  }
}

function* bigrams(text: string, start: number, position: number): Generator<Token> {
  const characters = charactersOf(text)
  for (const [index, { 0: first, index: at }] of characters.entries()) {
    const second = characters[index + 1]?.[0]
    const end = start + at + first.length + (second?.length ?? 0)
    yield {
      text: normalizeWord(first + (second ?? '')),
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
