/** Detection of MIME types: by magic numbers, else as text, else by the name of the file. */
import { tryParseJson } from '../json.ts'
import { latin1 } from './bytes.ts'
import { detectBinaryType, detectByStart, isPdf, isPdfBehindJunk } from './magic-numbers.ts'
import { typeByName, unknownType } from './mime-types.ts'
import { byteOrderMark, decodeAs, isUtf8, wideEncoding } from './readers/decode.ts'

/** Number of first bytes that detectType() needs. */
export const headBytes = 4100

/**
 * Detects the type by at most `headBytes` first bytes. `size` is the size of the whole file, if known.
 * Cheap and safe for hostile bytes. The reader process detects containers more precisely.
 */
export async function detectType(head: Uint8Array, filename: string, size?: number): Promise<string> {
  const typeFromName = typeByName(filename)
  if (head.length === 0) return typeFromName
  const start = latin1(head)
  if (isPdf(start)) return pdfType
  if (start.startsWith('{\\rtf')) return 'application/rtf'
  const certain = detectByStart(start)
  if (certain === 'image/tiff' && isCameraRaw(typeFromName)) return typeFromName
  if (certain) return certain
  if (typeFromName === pdfType && /%PDF| obj\s/.test(start.slice(0, 1024))) return pdfType
  const isHead = size === undefined ? head.length >= headBytes : size > head.length
  const text = decodeHead(head, isHead)
  if (text !== null) {
    const type = detectTextType(text, typeFromName, !isHead)
    return type === 'text/plain' && !typeFromName.startsWith('text/') && isPdfBehindJunk(start, { isText: true }) ? pdfType : type
  }
  // Archives first: an uncompressed member may be a PDF.
  const binary = await detectBinaryType(head, start, typeFromName)
  if (binary) return binary
  if (isPdfBehindJunk(start, { isText: false })) return pdfType
  const wide = decodeWide(head)
  if (wide !== null) return detectTextType(wide, typeFromName, !isHead)
  return typeFromName.startsWith('text/') ? unknownType : typeFromName
}

const pdfType = 'application/pdf'

/** Raw files of most cameras are TIFFs, and are told apart by their names only. */
const isCameraRaw = (mimeType: string): boolean => /^image\/x-(canon|nikon|adobe|sony|pentax|samsung)-/.test(mimeType)

/** Decodes the head by its byte order mark, as UTF-8, or with one byte per character. Returns null if no encoding gives text. */
function decodeHead(head: Uint8Array, isHead: boolean): string | null {
  const mark = byteOrderMark(head)
  if (mark && mark.encoding !== 'utf-8') return wideTextIfReadable(decodeAs(head.subarray(mark.length), mark.encoding) ?? '')
  if (head.includes(0)) return null
  if (isUtf8(head, { isHead })) return textIfReadable(new TextDecoder().decode(head), 0.05)
  return textIfReadable(Buffer.from(head).toString('latin1'), 0.005)
}

/** Decodes UTF-16 and UTF-32 without a byte order mark. Returns null for anything else. */
function decodeWide(head: Uint8Array): string | null {
  const encoding = wideEncoding(head)
  const text = encoding && decodeAs(head, encoding)
  return text ? wideTextIfReadable(text) : null
}

/** Returns UTF-16 text; null for binary data. In binary data, one in seven characters is unassigned, private or half of a surrogate pair. */
const wideTextIfReadable = (text: string): string | null =>
  (text.match(/[\p{Cn}\p{Co}\p{Cs}]/gu)?.length ?? 0) <= text.length * 0.05 ? textIfReadable(text, 0.05) : null

function textIfReadable(text: string, tolerance: number): string | null {
  let unusual = 0
  for (let i = 0; i < text.length; i++) if (isUnusualCharacter(text.charCodeAt(i))) unusual++
  return unusual <= text.length * tolerance ? text : null
}

/**
 * Returns whether the code point does not occur in text: noncharacters, and control characters except bell, backspace, tab, line end, page end, the end of
 * files of DOS, and escape.
 */
const isUnusualCharacter = (code: number): boolean =>
  (code < 0x20 && (code < 7 || code > 13) && code !== 0x1a && code !== 0x1b) || code === 0x7f || code >= 0xfffe

const mailHeader = /^(from|to|cc|subject|date|received|message-id|mime-version|return-path|delivered-to|reply-to|sender):/i
/** Headers that only the transport of mail writes. */
const transportHeader = /^(received|message-id|mime-version|return-path|delivered-to):/i
const anyHeader = /^([!-9;-~]+:|[ \t]+\S)/

/**
 * Returns whether the text starts with header lines, at least two of them common in mail. In a file that is named as text, such as a memo or a saved
 * message, one of the lines must also be a header that only the delivery of mail adds.
 */
function isMail(text: string, byName: string): boolean {
  const lines = text
    .replace(/^From .*\r?\n/, '')
    .trimStart()
    .split(/\r?\n/)
  let mailHeaders = 0
  let isTransported = !byName.startsWith('text/')
  for (const line of lines) {
    if (line === '' || !anyHeader.test(line)) break
    if (mailHeader.test(line)) mailHeaders++
    isTransported ||= transportHeader.test(line)
  }
  return mailHeaders >= 2 && isTransported
}

const multipartHeader =
  /^(?:(?:mime-version|x-[\w-]+|content-[\w-]+):[^\n]*\n){0,5}?content-type:[ \t]*multipart\/[^\n]*(?:\n[ \t][^\n]*){0,20}/i

/** Returns whether the text starts with the header of MIME parts: web archives and signed messages have no other headers. */
function isMultipart(start: string): boolean {
  const header = multipartHeader.exec(start)?.[0] ?? ''
  return /boundary=/i.test(header)
}

function detectTextType(text: string, byName: string, isWhole: boolean): string {
  const start = text.trimStart()
  if (start.startsWith('{\\rtf')) return 'application/rtf'
  if (isMultipart(start)) return 'message/rfc822'
  if (isMail(text, byName)) return /^From /.test(text) ? 'application/mbox' : 'message/rfc822'
  if (start.startsWith('<')) {
    const markup = detectMarkupType(start, byName)
    if (markup) return markup
  }
  if (start.startsWith('BEGIN:VCALENDAR')) return 'text/calendar'
  if (start.startsWith('BEGIN:VCARD')) return 'text/vcard'
  if (start.startsWith('%!PS')) return 'application/postscript'
  if (/^[[{]/.test(start) && (isWhole ? isJson(start) : byName === 'application/json')) return 'application/json'
  return byName !== 'application/json' && isTextual(byName) ? byName : 'text/plain'
}

function detectMarkupType(start: string, byName: string): string | null {
  const prologue = /^(\s*(<\?[^>]*>|<!--[\s\S]*?-->|<!doctype[^>[]*(\[[^\]]*\])?[^>]*>))*\s*/i.exec(start)?.[0] ?? ''
  const root = start.slice(prologue.length, prologue.length + 200)
  if (/^<(\w+:)?svg[\s>]/i.test(root)) return 'image/svg+xml'
  if (/<!doctype\s+html/i.test(prologue) || /^<html[\s>]/i.test(root)) return /^<\?xml/i.test(start) ? 'application/xhtml+xml' : 'text/html'
  if (/^<\?xml/i.test(start)) return 'application/xml'
  if (byName === 'text/html' || byName === 'application/xml' || byName === 'application/xhtml+xml' || byName === 'image/svg+xml')
    return byName
  // Web applications export tables as HTML that is named as a workbook or a document.
  return !isTextual(byName) && htmlElement.test(root) ? 'text/html' : null
}

const htmlElement = /^<(table|meta|style|head|body|div|center|title|font|p|h[1-6])[\s>]/i

/** Returns whether a text file gets this type by its extension. */
const isTextual = (type: string): boolean =>
  (type.startsWith('text/') && type !== 'text/html') ||
  type === 'application/yaml' ||
  type === 'application/x-ndjson' ||
  type === 'message/rfc822'

const isJson = (text: string): boolean => tryParseJson(text) !== undefined
