/** Bytes of text in any common encoding, decoded. */
import chardet from 'chardet'
import iconv from 'iconv-lite'

const sampleBytes = 64 * 1024

/** The encoding that a byte order mark announces, and its length; null without one. */
export function byteOrderMark(bytes: Uint8Array): { encoding: string; length: number } | null {
  const [a, b, c, d] = bytes
  if (a === 0xef && b === 0xbb && c === 0xbf) return { encoding: 'utf-8', length: 3 }
  if (a === 0xff && b === 0xfe && c === 0 && d === 0) return { encoding: 'utf-32le', length: 4 }
  if (a === 0 && b === 0 && c === 0xfe && d === 0xff) return { encoding: 'utf-32be', length: 4 }
  if (a === 0xff && b === 0xfe) return { encoding: 'utf-16le', length: 2 }
  if (a === 0xfe && b === 0xff) return { encoding: 'utf-16be', length: 2 }
  return null
}

/** Whether the bytes are UTF-8; a character cut off at the end is forgiven when they are only the head of a file. */
export function isUtf8(bytes: Uint8Array, isHead = false): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: isHead })
    return true
  } catch {
    return false
  }
}

/** Tells UTF-16 and UTF-32 without a mark by where their zero bytes are; null for anything else. */
export function wideEncoding(bytes: Uint8Array): string | null {
  const sample = bytes.subarray(0, 4096 & ~3)
  const units = Math.floor(sample.length / 4)
  if (sample.length < 4) return null
  const zeros = [0, 0, 0, 0]
  for (let i = 0; i < units * 4; i++) if (sample[i] === 0) zeros[i % 4]!++
  const [a, b, c, d] = zeros.map((count) => count / units) as [number, number, number, number]
  if (c > 0.9 && d > 0.9 && a < 0.1) return 'utf-32le'
  if (a > 0.9 && b > 0.9 && d < 0.1) return 'utf-32be'
  if (b + d > 0.8 && a + c < 0.1) return 'utf-16le'
  if (a + c > 0.8 && b + d < 0.1) return 'utf-16be'
  return null
}

/** Decodes with an encoding by name; null where nobody knows the name. */
export function decodeAs(bytes: Uint8Array, encoding: string): string | null {
  try {
    return new TextDecoder(encoding).decode(bytes)
  } catch {
    return iconv.encodingExists(encoding) ? iconv.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), encoding) : null
  }
}

/** Decodes by mark, by UTF-8, by the declared name, by the pattern of the bytes, in this order. Never fails. */
export function decode(bytes: Uint8Array, declared?: string | null): string {
  const mark = byteOrderMark(bytes)
  if (mark) return removeInvalidCharacters(decodeAs(bytes.subarray(mark.length), mark.encoding) ?? '')
  const wide = wideEncoding(bytes)
  if (wide) return removeInvalidCharacters(decodeAs(bytes, wide) ?? '')
  // Seven-bit encodings such as ISO-2022-JP are valid UTF-8 too, so that an escape sequence asks for a closer look.
  if (isUtf8(bytes) && !bytes.includes(0x1b)) return removeInvalidCharacters(new TextDecoder().decode(bytes))
  const declaredText = declared ? decodeAs(bytes, declared) : null
  if (declaredText !== null) return removeInvalidCharacters(declaredText)
  const guessed = chardet.detect(bytes.subarray(0, sampleBytes)) ?? 'windows-1252'
  return removeInvalidCharacters(decodeAs(bytes, guessed) ?? iconv.decode(Buffer.from(bytes), 'windows-1252'))
}

/** Takes out what no database stores: NUL and halves of surrogate pairs. */
export function removeInvalidCharacters(text: string): string {
  const whole = text.isWellFormed() ? text : text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '')
  return whole.includes('\0') ? whole.replaceAll('\0', '') : whole
}

/** Makes readable lines of gathered text: single spaces, no more than one empty line, nothing around. */
export const normalizeWhitespace = (text: string): string =>
  removeInvalidCharacters(text)
    .replace(/\r\n?/g, '\n')
    .replace(/[^\S\n\t]+/g, ' ')
    .replace(/[ \t]+\n/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
