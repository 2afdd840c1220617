/** Reader of winmail.dat: messages in the Transport Neutral Encapsulation Format of Outlook ([MS-OXTNEF]). */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { viewOf } from '../../bytes.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { decode, decodeAs, normalizeWhitespace } from '../decode.ts'
import { decodeHtml, readHtml } from '../html.ts'
import { unpackRtf } from '../office/packed-rtf.ts'
import { readRtf } from '../office/rtf.ts'
import { readFileTime } from '../office/summary.ts'

/** Identifiers of attributes, without their type. */
const attributes = {
  from: 0x8000,
  subject: 0x8004,
  body: 0x800c,
  data: 0x800f,
  title: 0x8010,
  start: 0x9002,
  message: 0x9003,
  attachment: 0x9005,
}
/** Identifiers of MAPI properties ([MS-OXPROPS]). */
const properties = {
  subject: 0x0037,
  body: 0x1000,
  rtf: 0x1009,
  html: 0x1013,
  data: 0x3701,
  longName: 0x3707,
  sender: 0x0c1a,
  to: 0x0e04,
  sent: 0x0039,
}
const maxProperties = 10_000
const objectType = 0x0d
/** Bytes of the interface identifier before an embedded object. */
const interfaceIdBytes = 16

interface Attachment {
  name: string
  data: Uint8Array | null
}

export const openTnef = (source: ByteSource, tools: PartTools): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    const bytes = source.read()
    const message = new Map<number, Uint8Array>()
    const texts = new Map<number, string>()
    const attachments: Attachment[] = []
    for (const { id, data } of readAttributes(bytes)) {
      const last = attachments.at(-1)
      if (id === attributes.start) attachments.push({ name: '', data: null })
      else if (id === attributes.title && last) last.name ||= decodeText(data)
      else if (id === attributes.data && last) last.data ??= data
      else if (id === attributes.message) for (const [key, value] of readProperties(data)) message.set(key, value.data)
      else if (id === attributes.attachment && last) addAttachmentProperties(last, data)
      else if (id === attributes.subject || id === attributes.body || id === attributes.from) texts.set(id, decodeText(data))
    }
    const text = (key: number): string => decodeText(message.get(key) ?? new Uint8Array())
    const subject = text(properties.subject) || texts.get(attributes.subject) || ''
    const [from, to] = [text(properties.sender), text(properties.to)]
    collector.addText([subject, from, to, '', readBody(message, texts.get(attributes.body) ?? ''), '', ''].join('\n'))
    for (const { name, data } of attachments) if (data) await collector.addPart(bytesSource(data, name))
    const metadata = { title: subject, subject, from, to, created: readSent(message), attachment_count: attachments.length || undefined }
    return { metadata: Object.fromEntries(Object.entries(metadata).filter(([, value]) => value)) }
  })

/** Returns the time of sending as an ISO time; undefined without one. */
function readSent(message: Map<number, Uint8Array>): string | undefined {
  const sent = message.get(properties.sent)
  return sent?.length === 8 ? readFileTime(viewOf(sent), 0) : undefined
}

function* readAttributes(bytes: Uint8Array): Generator<{ id: number; data: Uint8Array }> {
  const view = viewOf(bytes)
  if (bytes.length < 6 || view.getUint32(0, true) !== 0x223e9f78) throw new ReadFailure('FILE_CORRUPT')
  for (let at = 6; at + 11 <= bytes.length; ) {
    const size = view.getUint32(at + 5, true)
    yield { id: view.getUint16(at + 1, true), data: bytes.subarray(at + 9, at + 9 + size) }
    at += 9 + size + 2
  }
}

/** The first of: plain text, HTML, RTF. */
function readBody(message: Map<number, Uint8Array>, plain: string): string {
  const body = message.get(properties.body)
  if (body) return decodeText(body)
  const html = message.get(properties.html)
  if (html) return readHtml(decodeHtml(html)).text
  const rtf = message.get(properties.rtf)
  return rtf ? readRtf(unpackRtf(rtf)).text : plain
}

function addAttachmentProperties(attachment: Attachment, data: Uint8Array): void {
  const found = readProperties(data)
  const name = found.get(properties.longName)
  if (name) attachment.name = decodeText(name.data)
  const value = found.get(properties.data)
  // An embedded message is TNEF itself.
  if (value) attachment.data ??= value.type === objectType ? value.data.subarray(interfaceIdBytes) : value.data
}

/** Decodes UTF-16, which has zeros, or a text in an unknown code page. */
function decodeText(bytes: Uint8Array): string {
  const isWide = bytes.length % 2 === 0 && bytes.length > 1 && bytes.at(-1) === 0 && bytes.at(-2) === 0
  const text = isWide
    ? (decodeAs(bytes, 'utf-16le') ?? '')
    : decode(bytes.subarray(0, bytes.indexOf(0) < 0 ? bytes.length : bytes.indexOf(0)))
  return normalizeWhitespace(text)
}

/** Bytes of values of fixed size by type; the others have a length. */
const fixedBytes: Readonly<Record<number, number>> = { 2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16 }
const multipleFlag = 0x1000
const firstNamedProperty = 0x8000

/** Reads MAPI properties: the last value of each. Ends at the first that does not fit. */
function readProperties(bytes: Uint8Array): Map<number, { type: number; data: Uint8Array }> {
  const view = viewOf(bytes)
  const found = new Map<number, { type: number; data: Uint8Array }>()
  let at = 4
  const hasLeft = (count: number): boolean => at + count <= bytes.length
  const pad = (size: number): number => (size + 3) & ~3
  for (let left = Math.min(hasLeft(0) ? view.getUint32(0, true) : 0, maxProperties); left > 0 && hasLeft(8); left--) {
    const type = view.getUint16(at, true)
    const id = view.getUint16(at + 2, true)
    at += 4
    if (id >= firstNamedProperty) {
      if (!hasLeft(24)) break
      at += 24 + (view.getUint32(at + 16, true) === 1 ? pad(view.getUint32(at + 20, true)) : 0)
    }
    const baseType = type & ~multipleFlag
    const fixed = fixedBytes[baseType]
    let values = 1
    if (fixed === undefined || type !== baseType) {
      if (!hasLeft(4)) break
      values = view.getUint32(at, true)
      at += 4
    }
    for (; values > 0 && hasLeft(fixed ?? 4); values--) {
      const size = fixed ?? view.getUint32(at, true)
      if (fixed === undefined) at += 4
      if (!hasLeft(size)) return found
      found.set(id, { type: baseType, data: bytes.subarray(at, at + size) })
      at += pad(size)
    }
  }
  return found
}
