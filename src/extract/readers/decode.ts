/** Decoding and cleaning of text. */
import chardet from 'chardet'
import iconv from 'iconv-lite'
import { guessSingleByte } from './single-byte.ts'

const sampleBytes = 64 * 1024

/** Returns the encoding and length of a byte order mark, null if there is none. */
export function byteOrderMark(bytes: Uint8Array): { encoding: string; length: number } | null {
  const [a, b, c, d] = bytes
  if (a === 0xef && b === 0xbb && c === 0xbf) return { encoding: 'utf-8', length: 3 }
  if (a === 0xff && b === 0xfe && c === 0 && d === 0) return { encoding: 'utf-32le', length: 4 }
  if (a === 0 && b === 0 && c === 0xfe && d === 0xff) return { encoding: 'utf-32be', length: 4 }
  if (a === 0xff && b === 0xfe) return { encoding: 'utf-16le', length: 2 }
  if (a === 0xfe && b === 0xff) return { encoding: 'utf-16be', length: 2 }
  return null
}

/** Returns whether the bytes are valid UTF-8. `isHead` permits an incomplete character at the end. */
export function isUtf8(bytes: Uint8Array, { isHead = false } = {}): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: isHead })
    return true
  } catch {
    return false
  }
}

/**
 * Detects UTF-16 and UTF-32 without a byte order mark by the positions of zero bytes: most high bytes are zero, hardly any low byte is. In UTF-16 of
 * other alphabets, most high bytes are equal. Returns null for other encodings.
 */
export function wideEncoding(bytes: Uint8Array): string | null {
  const sample = bytes.subarray(0, 4096 & ~3)
  const units = Math.floor(sample.length / 4)
  if (sample.length < 4) return null
  const zeros = [0, 0, 0, 0]
  for (let i = 0; i < units * 4; i++) if (sample[i] === 0) zeros[i % 4]!++
  const [a, b, c, d] = zeros.map((count) => count / units) as [number, number, number, number]
  // Without a space or line end of 16 bits: the line ends of `1\n2\n3` would be high bytes.
  if (a + b + c + d === 0) return null
  if (c > 0.9 && d > 0.9 && a < 0.1) return 'utf-32le'
  if (a > 0.9 && b > 0.9 && d < 0.1) return 'utf-32be'
  if (Math.min(b, d) > 0.5 && Math.max(a, c) < 0.05) return 'utf-16le'
  if (Math.min(a, c) > 0.5 && Math.max(b, d) < 0.05) return 'utf-16be'
  if (isAlphabet(sample, 1)) return 'utf-16le'
  if (isAlphabet(sample, 0)) return 'utf-16be'
  return null
}

/** Returns whether UTF-16 has the letters of one alphabet, such as Cyrillic, and ASCII. `offset`: that of the high bytes, which would be control characters. */
function isAlphabet(sample: Uint8Array, offset: 0 | 1): boolean {
  const [high, low] = [new Uint32Array(256), new Uint32Array(256)]
  const units = sample.length / 2
  let others = 0
  for (let i = 0; i + 1 < sample.length; i += 2) {
    // Binary files end here. Each upload is examined.
    if (sample[i + offset]! >= 0x20 && ++others > 0.05 * units) return false
    high[sample[i + offset]!]!++
    low[sample[i + 1 - offset]!]!++
  }
  const alphabet = high.indexOf(Math.max(...high))
  return (
    alphabet > 0 &&
    alphabet < 0x20 &&
    high[alphabet]! > 0.5 * units &&
    high[alphabet]! + high[0]! > 0.95 * units &&
    Math.max(...low) < 0.5 * units
  )
}

/** Decodes by the name of an encoding. Returns null for an unknown name. */
export function decodeAs(bytes: Uint8Array, encoding: string): string | null {
  try {
    return new TextDecoder(encoding).decode(bytes)
  } catch {
    return iconv.encodingExists(encoding) ? iconv.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), encoding) : null
  }
}

/** Escape sequences by which ISO-2022 changes the character set (ECMA-35, 14). */
const isoDesignators = ['\x1b$', '\x1b(', '\x1b)']

/** Returns whether the bytes are UTF-8. ISO-2022 is valid UTF-8 too, but its escape sequences change the character set; those of terminals do not. */
function isPlainUtf8(bytes: Uint8Array): boolean {
  if (!isUtf8(bytes)) return false
  if (!bytes.includes(0x1b) || bytes.some((byte) => byte >= 0x80)) return true
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return !isoDesignators.some((designator) => text.includes(designator))
}

/** Minimum number of characters of several bytes for each invalid byte of a damaged UTF-8 text. In other encodings they are rare. */
const minCharactersPerError = { declared: 1, undeclared: 10 } as const

/** Returns the text if it is UTF-8 with a few invalid bytes, as after a cut or with a line in another encoding; null otherwise. */
function decodeDamagedUtf8(bytes: Uint8Array, isDeclared: boolean): string | null {
  const text = new TextDecoder().decode(bytes)
  let [characters, errors] = [0, 0]
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0xfffd) errors++
    else if (code >= 0x80) characters++
  }
  const minCharacters = isUtf8(bytes, { isHead: true }) ? 1 : errors * minCharactersPerError[isDeclared ? 'declared' : 'undeclared']
  return errors > 0 && characters >= minCharacters ? text : null
}

/** Decodes by byte order mark, as UTF-8, by the declared encoding, or by a guess, in this order. Never throws. */
export function decode(bytes: Uint8Array, declared?: string | null): string {
  const mark = byteOrderMark(bytes)
  if (mark) return removeInvalidCharacters(decodeAs(bytes.subarray(mark.length), mark.encoding) ?? '')
  const wide = wideEncoding(bytes)
  if (wide) return removeInvalidCharacters(decodeAs(bytes, wide) ?? '')
  if (isPlainUtf8(bytes)) return removeInvalidCharacters(new TextDecoder().decode(bytes))
  // A declaration that is readable as ASCII cannot be of UTF-16 (HTML Standard, 13.2.3.2).
  const isReliable = declared && !/^(?:utf|ucs)-?(?:8|16|32|2|4)/i.test(declared)
  const isUtf8Declared = /^utf-?8/i.test(declared ?? '')
  const text =
    (isReliable ? decodeAs(bytes, declared) : null) ?? decodeDamagedUtf8(bytes, isUtf8Declared) ?? decodeAs(bytes, guessEncoding(bytes))
  return removeInvalidCharacters(text ?? '')
}

/** Guesses the encoding of a text that is not Unicode. */
export function guessEncoding(bytes: Uint8Array): string {
  const sample = bytes.subarray(0, sampleBytes)
  const japanese = japaneseEncodings.find((encoding) => isKana(decodeAs(sample.subarray(0, kanaSampleBytes), encoding) ?? ''))
  if (japanese !== undefined) return japanese
  const guessed = chardet.detect(sample) ?? ''
  const hasPairs = /^iso-2022/i.test(guessed) || sample.reduce((count, byte) => count + (byte >> 7), 0) >= minPairBytes
  const asian = hasPairs && multiByteEncodings.test(guessed) ? decodeAs(bytes, guessed) : null
  return asian !== null && !asian.slice(0, sampleBytes).includes('\ufffd') ? guessed : guessSingleByte(bytes)
}

const japaneseEncodings = ['shift_jis', 'euc-jp']
const kanaSampleBytes = 1000
const minKana = 5

/** Returns whether at least half of the letters are kana. Chardet does not recognize short texts, and texts of other languages hardly have their pairs of bytes. */
function isKana(text: string): boolean {
  const kana = text.match(/[\u3041-\u30ff]/g)?.length ?? 0
  return kana >= minKana && kana >= 0.5 * (text.match(/[\p{L}\ufffd]/gu)?.length ?? 0)
}

/** Number of bytes from 0x80 below which a text has no pairs: one umlaut and the letter behind it look like one. */
const minPairBytes = 4

/** Encodings that chardet tells by their pairs of bytes. */
const multiByteEncodings = /^(shift_jis|euc-|gb|big5|iso-2022)/i

/** Removes characters that PostgreSQL cannot store: NUL and lone surrogates. */
export function removeInvalidCharacters(text: string): string {
  const whole = text.isWellFormed() ? text : text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '')
  return whole.includes('\0') ? whole.replaceAll('\0', '') : whole
}

/** Sequences that terminals interpret (ECMA-48): colours and moves of the cursor, titles of windows, and others. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with a control character
const terminalSequence = /\x1b(?:\[[0-?]{0,100}[ -/]{0,10}[@-~]|\][^\x07\x1b]{0,1000}(?:\x07|\x1b\\)|[ -/]{0,10}[0-Z\\^-~])/g

/** Removes what terminals do not show: control sequences, which would become part of the next word, and overprinted characters. */
export const removeTerminalCodes = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the backspace of bold and underlined letters
  text.replace(terminalSequence, '').replace(/[^\n\x08]\x08/gu, '')

/** Normalizes white space: single spaces, at most one empty line, none at the ends. */
export const normalizeWhitespace = (text: string): string =>
  removeInvalidCharacters(text)
    .replace(/\r\n?/g, '\n')
    .replace(/[^\S\n\t]+/g, ' ')
    // Without the lookbehind a long run of tabs takes quadratic time.
    .replace(/(?<![ \t])[ \t]+\n/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()

/** Maximum length of the text of a file, in characters. */
export const maxTextLength = 20_000_000
/** Maximum bytes of plain text. More would exceed `maxTextLength` in every encoding. */
export const maxTextBytes = maxTextLength * 4

export interface TextSink {
  add(text: string): void
  /** Whether the text has reached its maximum length. */
  readonly isFull: boolean
  text(): string
}

/** Length at which a sink is full: the caller sees that the text was too long. */
const maxLength = maxTextLength + 1000

/** Creates a collector of text. Drops text beyond `maxLength`, which protects against endless markup. */
export function createTextSink(): TextSink {
  const parts: string[] = []
  let length = 0
  return {
    add(text) {
      if (length >= maxLength || text === '') return
      parts.push(length + text.length > maxLength ? text.slice(0, maxLength - length) : text)
      length += text.length
    },
    get isFull() {
      return length >= maxLength
    },
    text: () => parts.join(''),
  }
}
