/** Reader of Outlook messages ([MS-OXMSG]). */

import { viewOf } from '../../bytes.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartCollector, type PartTools } from '../../parts.ts'
import { codePageEncoding } from '../code-pages.ts'
import { decode, decodeAs, normalizeWhitespace } from '../decode.ts'
import { readHtml } from '../html.ts'
import { mailDate } from '../mail/mail.ts'
import { type Ole, openOle } from './ole.ts'
import { unpackRtf } from './packed-rtf.ts'
import { readRtf } from './rtf.ts'
import { readFileTime } from './summary.ts'

/** Numbers of properties. Streams of text end in 001F for UTF-16, 001E for 8 bits, those of bytes in 0102. */
const properties = {
  subject: '0037',
  headers: '007D',
  from: '0C1A',
  fromAddress: '0C1F',
  fromSmtpAddress: '5D01',
  cc: '0E03',
  to: '0E04',
  body: '1000',
  rtf: '1009',
  html: '1013',
  name: '3001',
  address: '3003',
  content: '3701',
  shortFilename: '3704',
  filename: '3707',
  smtpAddress: '39FE',
} as const
/** Tags of properties of fixed size. */
const tags = { sent: 0x00390040, delivered: 0x0e060040, internetCodePage: 0x3fde0003, messageCodePage: 0x3ffd0003 } as const

const maxAttachments = 1000
const maxRecipients = 1000
const maxDepth = 5

export const openMsg = (source: ByteSource, tools: PartTools): OpenedDocument =>
  openWithParts(tools, (collector) => addMessage(collector, openOle(source.read()), 0))

/** Adds a message with its attachments. Returns its metadata. */
async function addMessage(collector: PartCollector, ole: Ole, depth: number) {
  const fixed = readFixedProperties(ole, depth === 0 ? 32 : 24)
  const codePage = fixed.codePage(tags.messageCodePage) ?? fixed.codePage(tags.internetCodePage) ?? 1252
  const text = (number: string, folder = ''): string => readText(ole, `${folder}__substg1.0_${number}`, codePage)
  const subject = text(properties.subject)
  const from = nameAndAddress(text(properties.from), text(properties.fromSmtpAddress) || text(properties.fromAddress))
  const created = fixed.time(tags.sent) ?? fixed.time(tags.delivered)
  const metadata: Record<string, unknown> = { created }
  if (subject) Object.assign(metadata, { title: subject, subject })
  for (const [key, value] of Object.entries({ from, to: text(properties.to), cc: text(properties.cc) })) if (value) metadata[key] = value
  const recipients = foldersOf(ole, '__recip_version1.0_', maxRecipients).map((folder) =>
    nameAndAddress(text(properties.name, folder), text(properties.smtpAddress, folder) || text(properties.address, folder)),
  )
  const head = [subject, from, metadata.to, metadata.cc, recipients.join(', ')]
  collector.addText(`${[...head, '', readBody(ole, codePage, fixed.codePage(tags.internetCodePage))].filter(Boolean).join('\n')}\n\n`)
  for (const folder of foldersOf(ole, '__attach_version1.0_', maxAttachments)) {
    if (collector.isFull) break
    const content = ole.stream(`${folder}__substg1.0_${properties.content}0102`)
    const name = text(properties.filename, folder) || text(properties.shortFilename, folder) || text(properties.name, folder)
    const nested = ole.storage(`${folder}__substg1.0_${properties.content}000D/`)
    if (content) await collector.addPart(bytesSource(content, name))
    else if (nested.names.includes('__properties_version1.0') && depth < maxDepth) {
      collector.addText(`${name}\n`)
      await addMessage(collector, nested, depth + 1)
    } else collector.addText(`${name}\n`)
  }
  return { metadata, date: mailDate(/^date:(.*)$/im.exec(text(properties.headers))?.[1] ?? '') }
}

function nameAndAddress(name: string, address: string): string {
  // Addresses of Exchange begin with /O=.
  if (!address || address === name || address.startsWith('/')) return name
  return name ? `${name} <${address}>` : address
}

function readText(ole: Ole, path: string, codePage: number): string {
  const wide = ole.stream(`${path}001F`)
  const narrow = wide ? null : ole.stream(`${path}001E`)
  return normalizeWhitespace((wide && decodeAs(wide, 'utf-16le')) ?? (narrow && decodeText(narrow, codePage)) ?? '')
}

/** Code pages that many programs state although they write that of their system: 1252 and UTF-8. */
const unreliableCodePages: ReadonlySet<number> = new Set([1252, 65_001])

const decodeText = (bytes: Uint8Array, codePage: number): string =>
  unreliableCodePages.has(codePage) ? decode(bytes, codePageEncoding(codePage)) : (decodeAs(bytes, codePageEncoding(codePage)) ?? '')

/** Returns the plain body, else that in HTML or RTF. */
function readBody(ole: Ole, codePage: number, internetCodePage: number | undefined): string {
  const plain = readText(ole, `__substg1.0_${properties.body}`, codePage)
  if (plain !== '') return plain
  const html = ole.stream(`__substg1.0_${properties.html}0102`)
  if (html) return readHtml(decode(html, codePageEncoding(internetCodePage ?? codePage))).text
  const htmlText = readText(ole, `__substg1.0_${properties.html}`, codePage)
  if (htmlText !== '') return readHtml(htmlText).text
  const rtf = ole.stream(`__substg1.0_${properties.rtf}0102`)
  return rtf ? readRtf(unpackRtf(rtf)).text : ''
}

/** Returns the folders whose names begin with a prefix. */
function foldersOf(ole: Ole, prefix: string, limit: number): string[] {
  const folders = new Set<string>()
  for (const name of ole.names) if (name.startsWith(prefix)) folders.add(name.slice(0, name.indexOf('/') + 1))
  return [...folders].slice(0, limit)
}

/** Reads the properties of fixed size; they follow a header of `start` bytes. */
function readFixedProperties(ole: Ole, start: number) {
  const bytes = ole.stream('__properties_version1.0') ?? new Uint8Array()
  const view = viewOf(bytes)
  const positions = new Map<number, number>()
  for (let at = start; at + 16 <= bytes.length; at += 16) positions.set(view.getUint32(at, true), at + 8)
  return {
    time(tag: number): string | undefined {
      const at = positions.get(tag)
      return at === undefined ? undefined : readFileTime(view, at)
    },
    codePage(tag: number): number | undefined {
      const at = positions.get(tag)
      return at === undefined ? undefined : view.getUint32(at, true)
    },
  }
}
