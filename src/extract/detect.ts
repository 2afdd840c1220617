/** Detection of MIME types: by the first bytes of a file, else by its name. */
import { fileTypeFromBuffer } from 'file-type'
import { extensionOf, typeByExtension, unknownType } from './mime-types.ts'
import { byteOrderMark, decodeAs, isUtf8, wideEncoding } from './readers/decode.ts'

/** Number of first bytes that detectType() needs. */
export const headBytes = 4100

/**
 * Detects the type by at most `headBytes` first bytes. `size` is the size of the whole file, if known.
 * Cheap and safe for hostile bytes. The reader process detects containers more precisely.
 */
export async function detectType(head: Uint8Array, filename: string, size?: number): Promise<string> {
  const extension = extensionOf(filename)
  const typeFromName = typeByExtension[extension] ?? unknownType
  if (head.length === 0) return typeFromName
  const start = ascii(head.subarray(0, 1024))
  if (start.startsWith('%PDF')) return 'application/pdf'
  if (start.startsWith('{\\rtf')) return 'application/rtf'
  const isNamedPdf = typeFromName === 'application/pdf'
  if (isNamedPdf && (start.includes('%PDF') || / obj\s/.test(start))) return typeFromName
  const text = decodeHead(head, size === undefined ? head.length >= headBytes : size > head.length)
  if (text !== null) return detectTextType(text, typeFromName, size === undefined ? head.length < headBytes : size <= head.length)
  if (start.includes('%PDF-')) return 'application/pdf'
  if (start.startsWith('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1')) return oleTypes.has(typeFromName) ? typeFromName : 'application/x-cfb'
  if (start.startsWith('PK\x03\x04') || start.startsWith('PK\x05\x06')) return detectZipType(ascii(head), typeFromName)
  if (start.startsWith('II*\0') || start.startsWith('MM\0*') || start.startsWith('II+\0') || start.startsWith('MM\0+')) return 'image/tiff'
  const detected = await fileTypeFromBuffer(head).catch(() => undefined)
  return detected?.mime ?? (typeFromName.startsWith('text/') ? unknownType : typeFromName)
}

const oleTypes = new Set(['doc', 'xls', 'ppt', 'msg'].map((extension) => typeByExtension[extension]))

const ascii = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')

/** Decodes the head. Returns null if it is not text in any encoding. */
function decodeHead(head: Uint8Array, isHead: boolean): string | null {
  const mark = byteOrderMark(head)
  const encoding = mark?.encoding ?? wideEncoding(head)
  if (encoding) return textIfReadable(decodeAs(head.subarray(mark?.length ?? 0), encoding) ?? '', 0.05)
  if (head.includes(0)) return null
  if (isUtf8(head, isHead)) return textIfReadable(new TextDecoder().decode(head), 0.05)
  return textIfReadable(ascii(head), 0.005)
}

function textIfReadable(text: string, tolerance: number): string | null {
  let odd = 0
  for (let i = 0; i < text.length; i++) if (isUnusualCharacter(text.charCodeAt(i))) odd++
  return odd <= text.length * tolerance ? text : null
}

/** Returns whether the code point does not occur in text: noncharacters, and control characters except tab, line end, page end and escape. */
const isUnusualCharacter = (code: number): boolean =>
  (code < 0x20 && (code < 9 || code > 13) && code !== 0x1b) || code === 0x7f || code >= 0xfffe

const mailHeader = /^(from|to|cc|subject|date|received|message-id|mime-version|return-path|delivered-to|reply-to|sender):/i
const anyHeader = /^([!-9;-~]+:|[ \t]+\S)/

/** Returns whether the text starts with header lines, at least two of them common in mail. */
function isMail(text: string): boolean {
  const lines = text
    .replace(/^From .*\r?\n/, '')
    .trimStart()
    .split(/\r?\n/)
  let mailHeaders = 0
  for (const line of lines) {
    if (line === '' || !anyHeader.test(line)) break
    if (mailHeader.test(line)) mailHeaders++
  }
  return mailHeaders >= 2
}

function detectTextType(text: string, byName: string, isWhole: boolean): string {
  const start = text.trimStart()
  if (start.startsWith('{\\rtf')) return 'application/rtf'
  if (isMail(text)) return /^From /.test(text) ? 'application/mbox' : 'message/rfc822'
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
  return byName === 'text/html' || byName === 'application/xml' || byName === 'application/xhtml+xml' || byName === 'image/svg+xml'
    ? byName
    : null
}

/** Returns whether a text file gets this type by its extension. */
const isTextual = (type: string): boolean =>
  (type.startsWith('text/') && type !== 'text/html') ||
  type === 'application/yaml' ||
  type === 'application/x-ndjson' ||
  type === 'message/rfc822'

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Detects office documents and books among ZIP files by their first entries, else by name. */
function detectZipType(head: string, byName: string): string {
  const entries = listZipEntries(head)
  const declared = entries[0]?.name === 'mimetype' ? /^application\/[\w.+-]+/.exec(entries[0].start)?.[0] : undefined
  if (declared) return declared
  if (/officedocument|opendocument|macroenabled|epub/.test(byName)) return byName
  const names = entries.map((entry) => entry.name)
  for (const [folder, extension] of openXml) if (names.some((name) => name.startsWith(folder))) return typeByExtension[extension]!
  return 'application/zip'
}

const openXml = [
  ['word/', 'docx'],
  ['xl/', 'xlsx'],
  ['ppt/', 'pptx'],
] as const

/** Lists the entries that begin in the head, with the beginning of their data. */
function listZipEntries(head: string): { name: string; start: string }[] {
  const entries = []
  for (let at = head.indexOf('PK\x03\x04'); at >= 0; at = head.indexOf('PK\x03\x04', at + 4)) {
    const nameLength = head.charCodeAt(at + 26) + 256 * head.charCodeAt(at + 27)
    const data = at + 30 + nameLength + head.charCodeAt(at + 28) + 256 * head.charCodeAt(at + 29)
    const size = head.charCodeAt(at + 18) + 256 * head.charCodeAt(at + 19)
    entries.push({ name: head.slice(at + 30, at + 30 + nameLength), start: head.slice(data, data + (size || 100)) })
  }
  return entries
}
