/** Reader of mail: headers, body and attachments, which are read like other files. */
import PostalMime, { type Address, type Attachment, addressParser, type Email } from 'postal-mime'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { latin1 } from '../../bytes.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { byteOrderMark, decode, isUtf8, wideEncoding } from '../decode.ts'
import { readHtml } from '../html.ts'
import { decodeRaw, fixEncodedWords, isMisread, withRawTexts } from './charsets.ts'
import { takeUuencoded } from './uuencode.ts'

const maxAttachments = 100
const maxMessages = 10_000
const maxHeaderBytes = 256 * 1024

/** Opens a message with its attachments. */
export const openMail = (source: ByteSource, tools: PartTools): OpenedDocument => openMessages(source, tools, (bytes) => [bytes])

/** Opens an mbox: its messages with their attachments. */
export const openMbox = (source: ByteSource, tools: PartTools): OpenedDocument => openMessages(source, tools, splitMbox)

const openMessages = (source: ByteSource, tools: PartTools, split: (bytes: Uint8Array) => Uint8Array[]): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    let first: Email | undefined
    for (const message of split(toUtf8(source.read()))) {
      if (collector.isFull) break
      const parsed = withoutStyles(await parseMessage(decodeHeaders(message)))
      const { text, files } = takeUuencoded(parsed.text ?? '')
      const email = { ...parsed, text }
      first ??= email
      collector.addText(`${messageText(email)}\n\n`)
      const parts = [...email.attachments.map(toSource), ...files.map(({ filename, bytes }) => bytesSource(bytes, filename))]
      for (const part of parts.slice(0, maxAttachments)) await collector.addPart(part)
    }
    return { metadata: first ? metadataOf(first) : {}, date: first && dateOf(first) }
  })

/** Converts messages in UTF-16 or UTF-32, and those with a byte order mark, to UTF-8. */
const toUtf8 = (stored: Uint8Array): Uint8Array => ((byteOrderMark(stored) ?? wideEncoding(stored)) ? Buffer.from(decode(stored)) : stored)

const parse = (message: Uint8Array): Promise<Email> => PostalMime.parse(message, { rfc822Attachments: true }).catch(throwReadFailure)

/** Parses a message. Texts that were read in another charset than that of their bytes are read in the one that fits. */
async function parseMessage(message: Uint8Array): Promise<Email> {
  const email = await parse(message)
  const raw = isMisread(bodyOf(email)) ? withRawTexts(message) : null
  if (raw === null) return email
  const { text, html } = await parse(raw)
  const declared = /<meta[^>]{1,200}charset=["']?([\w-]+)/i.exec(html ?? '')?.[1]
  return { ...email, ...(text && { text: decodeRaw(text, declared) }), ...(html && { html: decodeRaw(html, declared) }) }
}

/** Leaves out the style sheets of a saved web page, which the page refers to. */
const withoutStyles = (email: Email): Email => ({
  ...email,
  attachments: email.attachments.filter(({ mimeType, disposition }) => mimeType !== 'text/css' || disposition === 'attachment'),
})

const bodyOf = ({ text = '', html = '' }: Email): string => `${text}\n${html}`

/** Returns the message with headers in UTF-8. Old programs wrote them in the charset of the body, or encoded words with a wrong charset. */
function decodeHeaders(message: Uint8Array): Uint8Array {
  const head = /\r?\n\r?\n/.exec(latin1(message.subarray(0, maxHeaderBytes)))
  const headers = message.subarray(0, head?.index ?? 0)
  const declared = isUtf8(headers) ? null : /charset\s*=\s*"?(?!utf-?8)([\w-]+)/i.exec(latin1(headers))?.[1]
  const text = declared === null ? Buffer.from(headers).toString() : decode(headers, declared)
  const fixed = fixEncodedWords(text)
  return declared === null && fixed === text ? message : Buffer.concat([Buffer.from(fixed), message.subarray(headers.length)])
}

function throwReadFailure(problem: unknown): never {
  const message = problem instanceof Error ? problem.message : String(problem)
  throw new ReadFailure(/exceeded/.test(message) ? 'FILE_TOO_COMPLEX' : 'FILE_CORRUPT', `The message cannot be read: ${message}`)
}

const separatorStart = 'From '
/** Separator of messages: an address and a date (RFC 4155, appendix A). */
const datedSeparator = /^From \S+ .*\d:\d\d.*\d{4}/

/**
 * Splits an mbox at its `From ` lines; only at those with a date if the first one has a date, because some programs do not quote such lines of a body.
 * Leaves out messages beyond `maxMessages`.
 */
function splitMbox(bytes: Uint8Array): Uint8Array[] {
  const box = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const lineAt = (at: number): string => box.subarray(at, at + 200).toString('latin1')
  const isDated = datedSeparator.test(lineAt(0))
  const starts: number[] = []
  for (let at = 0; at >= 0 && starts.length <= maxMessages; ) {
    if (isDated ? datedSeparator.test(lineAt(at)) : lineAt(at).startsWith(separatorStart)) starts.push(at)
    const next = box.indexOf(`\n${separatorStart}`, at)
    at = next < 0 ? -1 : next + 1
  }
  return starts.slice(0, maxMessages).map((start, i) => box.subarray(box.indexOf('\n', start) + 1, starts[i + 1]))
}

const toSource = ({ content, filename, mimeType }: Attachment): ByteSource => {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content instanceof ArrayBuffer ? new Uint8Array(content) : content
  const [file] = /^begin [0-7]/.test(latin1(bytes.subarray(0, 7))) ? takeUuencoded(latin1(bytes)).files : []
  return bytesSource(file?.bytes ?? bytes, filename ?? file?.filename ?? (mimeType === 'message/rfc822' ? 'message.eml' : ''))
}

/** Returns all authors. The parser keeps the first one only. */
const authorsOf = ({ headers }: Email): Address[] => headers.flatMap(({ key, value }) => (key === 'from' ? addressParser(value) : []))

const addressText = (addresses: readonly Address[] = []): string =>
  addresses
    .flatMap((address) => address.group ?? [address])
    .map(({ name, address }) => (name && address ? `${name} <${address}>` : name || address || ''))
    .join(', ')

function messageText(email: Email): string {
  const headers = [
    ['Subject', email.subject ?? ''],
    ['From', addressText(authorsOf(email))],
    ['To', addressText(email.to)],
    ['Cc', addressText(email.cc)],
    ['Bcc', addressText(email.bcc)],
    ['Date', email.date ?? ''],
  ].flatMap(([name, value]) => (value ? [`${name}: ${value}`] : []))
  const html = email.html ? readHtml(email.html).text : ''
  const plain = email.text?.trim() ? email.text : ''
  const bodies = plain === '' ? [html] : repeats(html, plain) ? [plain] : [plain, '', html]
  return [...headers, '', ...bodies].join('\n')
}

/** Returns whether another body has at least 90 % of the words of a body. A plain body may only ask for another mail program. */
function repeats(body: string, other: string): boolean {
  const words = body.match(/[\p{L}\p{N}]+/gu) ?? []
  const known = new Set(other.match(/[\p{L}\p{N}]+/gu))
  return words.filter((word) => known.has(word)).length >= words.length * 0.9
}

/** Returns the date of the header in its own time zone; else in UTC. */
function dateOf({ headers, date }: Email): string | undefined {
  return mailDate(headers.find(({ key }) => key === 'date')?.value ?? '') ?? date
}

/** Returns the day of a Date header (RFC 5322) in its own time zone as YYYY-MM-DD. */
export function mailDate(header: string): string | undefined {
  const [, day = '', name = '', year] = /(\d{1,2})\s+([a-z]{3})[a-z]*\s+(\d{4})/i.exec(header) ?? []
  const month = months.indexOf(name.toLowerCase()) + 1
  return year && month > 0 ? `${year}-${String(month).padStart(2, '0')}-${day.padStart(2, '0')}` : undefined
}
const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

function metadataOf(email: Email): Record<string, unknown> {
  const from = addressText(authorsOf(email))
  const metadata = {
    title: email.subject,
    subject: email.subject,
    author: from,
    from,
    to: addressText(email.to),
    cc: addressText(email.cc),
    created: email.date,
    message_id: email.messageId,
    attachment_count: email.attachments.length || undefined,
  }
  return Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined && value !== ''))
}
