/** Charsets of mail that are missing or wrong: text that declares another charset than that of its bytes. */
import { isUtf8 } from 'node:buffer'
import { latin1 } from '../../bytes.ts'
import { decodeAs, guessEncoding } from '../decode.ts'

/** Charset that keeps each byte from 0x80 as a private character of its own (WHATWG Encoding Standard, 14.5). */
const rawCharset = 'x-user-defined'
const firstRaw = 0xf780
/** Parts of lines that may be in this charset. */
const rawText = /[^\n\x80-\uf77f\uf800-\uffff]+/g
const hasRaw = (text: string): boolean => /[\uf780-\uf7ff]/.test(text)
const lineEnd = Buffer.from('\n')
/** Charsets that programs write for any text. */
const unreliable = /^(?:utf-?8|us-ascii|ascii|ansi|(?:x-)?unknown(?:-8bit)?|iso-?8859-1(?:5)?|latin-?1|(?:windows-|cp-?)1252)$/i
/** A byte from 0x80 to 0xbf in windows-1252 or ISO-8859-15. */
const continuation = '[\\u0080-\\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]'
/** Text in UTF-8 that was read as windows-1252: `Ã¼` for `ü`, `â€œ` for `“`. */
const misreadUtf8 = new RegExp(`[\\u00c2-\\u00df]${continuation}|[\\u00e0-\\u00f4]${continuation}{2}`)

/** Returns whether a body was probably read in another charset than that of its bytes. */
export const isMisread = (body: string): boolean => body.includes('\ufffd') || misreadUtf8.test(body)

/** Returns the message, marked so that texts with a missing or unreliable charset stay raw bytes, for decodeRaw(). Returns null without such texts. */
export function withRawTexts(message: Uint8Array): Uint8Array | null {
  const source = latin1(message)
  if (!/^content-type:/im.test(source)) return Buffer.from(`Content-Type: text/plain; charset=${rawCharset}\r\n${source}`, 'latin1')
  const marked = source.replace(/^content-type:[ \t]*text\/(?:plain|html)[^\n]*(?:\n[ \t][^\n]*)*/gim, (header) => {
    const [parameter = '', charset = ''] = /;\s*charset\s*=\s*"?([\w.:-]*)"?/i.exec(header) ?? []
    if (parameter === '') return header.replace(/text\/(?:plain|html)/i, (type) => `${type}; charset=${rawCharset}`)
    return unreliable.test(charset) ? header.replace(parameter, `; charset=${rawCharset}`) : header
  })
  return marked === source ? null : Buffer.from(marked, 'latin1')
}

/** Encoded words of headers with white space between them (RFC 2047). */
const encodedWords = /=\?[^?\s]+\?[QB]\?[^?]*\?=(?:\s+=\?[^?\s]+\?[QB]\?[^?]*\?=)*/gi
const encodedWord = /=\?([^?\s*]+)[^?\s]*\?([QB])\?([^?]*)\?=/gi
const latin = /8859|latin|1252/i

/** Corrects encoded words of headers that state a wrong charset: returns them in UTF-8. */
export const fixEncodedWords = (headers: string): string =>
  headers.replace(encodedWords, (run) => {
    const words = [...run.matchAll(encodedWord)] as unknown as [word: string, charset: string, encoding: string, text: string][]
    if (!words.every(([, charset]) => unreliable.test(charset))) return run
    // A character may be divided between words.
    const bytes = Buffer.concat(words.map(([, , encoding, text]) => (/b/i.test(encoding) ? Buffer.from(text, 'base64') : decodeQ(text))))
    const isDeclared = isUtf8(bytes)
      ? bytes.every((byte) => byte < 0x80) || words.every(([, charset]) => /^utf/i.test(charset))
      : words.every(([, charset]) => latin.test(charset))
    if (isDeclared) return run
    const text = decodeAs(bytes, isUtf8(bytes) ? 'utf-8' : guess(bytes)) ?? ''
    return `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`
  })

/** Decodes an encoded word in the encoding Q. */
const decodeQ = (text: string): Buffer =>
  Buffer.from(
    text.replaceAll('_', ' ').replace(/=([0-9a-f]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))),
    'latin1',
  )

/** Decodes the raw bytes in a text: lines in UTF-8, and all others by the declared encoding or by a guess. */
export function decodeRaw(text: string, declared?: string): string {
  const others: Uint8Array[] = []
  const decoded = text.replace(rawText, (raw) => {
    if (!hasRaw(raw)) return raw
    const bytes = toBytes(raw)
    if (isUtf8(bytes)) return bytes.toString()
    others.push(bytes, lineEnd)
    return raw
  })
  if (others.length === 0) return decoded
  const bytes = Buffer.concat(others)
  // Decoded at once, because a message may have a million lines.
  const lines = (decodeAs(bytes, declared && !unreliable.test(declared) ? declared : guess(bytes)) ?? '').split('\n')
  let next = 0
  return decoded.replace(rawText, (raw) => (hasRaw(raw) ? (lines[next++] ?? raw) : raw))
}

/** Guesses the encoding of lines that are not UTF-8. Damaged UTF-8 has more characters beyond ASCII than invalid bytes. */
function guess(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes)
  const errors = text.match(/\ufffd/g)?.length ?? 0
  return (text.match(/[^\0-\x7f]/gu)?.length ?? 0) > 2 * errors ? 'utf-8' : guessEncoding(bytes)
}

/** Returns the bytes of a text in the charset `x-user-defined`. */
function toBytes(raw: string): Buffer {
  const bytes = Buffer.alloc(raw.length)
  for (let i = 0; i < raw.length; i++) {
    const code = raw.charCodeAt(i)
    bytes[i] = code >= firstRaw ? code - firstRaw + 0x80 : code
  }
  return bytes
}
