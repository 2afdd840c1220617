/** Readers of office documents from before 2007 and of Outlook messages. */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { typeByExtension } from '../../mime-types.ts'
import { type ByteSource, type OpenedDocument, openTextOnly } from '../../opened-document.ts'
import { createTextSink, decodeAs, normalizeWhitespace } from '../decode.ts'
import { mailDate } from '../mail.ts'
import { readDoc } from './doc.ts'
import { type Ole, openOle } from './ole.ts'
import { readXls } from './xls.ts'

/** Detects the type of a compound file by its streams. Returns null for an unknown type. Throws ReadFailure. */
export function detectOleType(bytes: Uint8Array): string | null {
  const names = new Set(openOle(bytes).names.map((name) => name.toLowerCase()))
  const has = (...streams: string[]): boolean => streams.some((name) => names.has(name.toLowerCase()))
  if (has('EncryptedPackage')) throw new ReadFailure('FILE_ENCRYPTED')
  if (has('WordDocument')) return typeByExtension.doc!
  if (has('Workbook', 'Book')) return typeByExtension.xls!
  if (has('PowerPoint Document')) return typeByExtension.ppt!
  return has('__properties_version1.0') ? typeByExtension.msg! : null
}

export const openDoc = (source: ByteSource): OpenedDocument => openWithSummary(source, readDoc)
export const openXls = (source: ByteSource): OpenedDocument => openWithSummary(source, readXls)
export const openPpt = (source: ByteSource): OpenedDocument => openWithSummary(source, readPpt)
export const openMsg = (source: ByteSource): OpenedDocument => openTextOnly(async () => readMsg(openOle(source.read())))

const openWithSummary = (source: ByteSource, readText: (ole: Ole) => string): OpenedDocument =>
  openTextOnly(async () => {
    const ole = openOle(source.read())
    return { text: readText(ole), metadata: readSummary(ole) }
  })

/** Reads the time of creation from the property set of the file ([MS-OLEPS]). */
function readSummary(ole: Ole): Record<string, unknown> {
  const bytes = ole.stream('\x05SummaryInformation')
  if (!bytes || bytes.length < 56) return {}
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const section = view.getUint32(44, true)
  const count = section + 8 <= bytes.length ? view.getUint32(section + 4, true) : 0
  for (let entry = section + 8; entry < section + 8 + count * 8 && entry + 8 <= bytes.length; entry += 8) {
    const value = section + view.getUint32(entry + 4, true)
    if (view.getUint32(entry, true) === createTimeProperty && value + 12 <= bytes.length) return { created: readFileTime(view, value + 4) }
  }
  return {}
}
const createTimeProperty = 12

/** Converts a FILETIME, 100 ns since 1601, to an ISO time. */
function readFileTime(view: DataView, at: number): string | undefined {
  const ms = Number(view.getBigUint64(at, true) / 10_000n) - 11_644_473_600_000
  return Number.isFinite(new Date(ms).getTime()) && ms > 0 ? new Date(ms).toISOString() : undefined
}

/** Reads the text atoms. A record has a type and a size; containers (version 15) contain records. */
function readPpt(ole: Ole): string {
  const bytes = ole.stream('PowerPoint Document')
  if (!bytes) throw new ReadFailure('FILE_CORRUPT', 'The presentation has no slides.')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const sink = createTextSink()
  for (let at = 0; at + 8 <= bytes.length; ) {
    const isContainer = (view.getUint16(at, true) & 0xf) === 0xf
    const kind = view.getUint16(at + 2, true)
    const size = view.getUint32(at + 4, true)
    const data = bytes.subarray(at + 8, at + 8 + size)
    if (kind === 4000) sink.add(`${decodeAs(data, 'utf-16le')}\n`)
    if (kind === 4008) sink.add(`${decodeAs(data, 'windows-1252')}\n`)
    at += 8 + (isContainer ? 0 : size)
  }
  // \v is a line break in a paragraph, \r its end.
  return normalizeWhitespace(sink.text().replace(/[\v\r]/g, '\n'))
}

/** Property numbers of an Outlook message. Streams end in 001F for UTF-16, 001E for 8 bits. */
const properties = { subject: '0037', from: '0C1A', to: '0E04', cc: '0E03', body: '1000', headers: '007D' } as const

/** Tags of the times at which a message was sent and delivered. */
const messageTimes = [0x00390040, 0x0e060040]

/** Returns the time of a message from its properties of fixed size ([MS-OXMSG] 2.4). */
function readMessageTime(ole: Ole): string | undefined {
  const bytes = ole.stream('__properties_version1.0') ?? new Uint8Array()
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const times = new Map<number, string | undefined>()
  for (let at = 32; at + 16 <= bytes.length; at += 16)
    if (messageTimes.includes(view.getUint32(at, true))) times.set(view.getUint32(at, true), readFileTime(view, at + 8))
  return messageTimes.map((tag) => times.get(tag)).find((time) => time !== undefined)
}

function readMsg(ole: Ole): { text: string; metadata: Record<string, unknown>; date: string | undefined } {
  const property = (number: string, folder = ''): string => {
    const wide = ole.stream(`${folder}__substg1.0_${number}001F`)
    const narrow = ole.stream(`${folder}__substg1.0_${number}001E`)
    return normalizeWhitespace((wide && decodeAs(wide, 'utf-16le')) ?? (narrow && decodeAs(narrow, 'windows-1252')) ?? '')
  }
  const metadata: Record<string, unknown> = { created: readMessageTime(ole) }
  const subject = property(properties.subject)
  if (subject) Object.assign(metadata, { title: subject, subject })
  for (const key of ['from', 'to', 'cc'] as const) {
    const value = property(properties[key])
    if (value) metadata[key] = value
  }
  const folders = new Set(ole.names.map((name) => /^__attach_version1\.0_[^/]*\//.exec(name)?.[0]).filter((folder) => folder !== undefined))
  const attachments = [...folders].map((folder) => property('3707', folder) || property('3704', folder))
  return {
    text: [subject, metadata.from, metadata.to, metadata.cc, '', property(properties.body), ...attachments].filter(Boolean).join('\n'),
    metadata,
    date: mailDate(/^date:(.*)$/im.exec(property(properties.headers))?.[1] ?? ''),
  }
}
