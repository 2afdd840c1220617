/** Reader of mail: headers, body and attachments, which are read like other files. */
import PostalMime, { type Address, type Attachment, type Email } from 'postal-mime'
import { ReadFailure } from '../../ports/document-reader.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../opened-document.ts'
import { openWithParts, type PartTools } from '../parts.ts'
import { byteOrderMark, decode, wideEncoding } from './decode.ts'
import { readHtml } from './html.ts'

const maxAttachments = 100
const maxMessages = 10_000

/** Opens a message or an mbox with its attachments. */
export const openMail = (source: ByteSource, isMbox: boolean, tools: PartTools): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    const emails = await parseEmails(source.read(), isMbox)
    for (const email of emails) {
      if (collector.isFull) break
      collector.addText(`${messageText(email)}\n\n`)
      for (const attachment of email.attachments.slice(0, maxAttachments)) await collector.addPart(toSource(attachment))
    }
    const [first] = emails
    return { metadata: first ? metadataOf(first) : {}, date: first && dateOf(first) }
  })

async function parseEmails(stored: Uint8Array, isMbox: boolean): Promise<Email[]> {
  const emails: Email[] = []
  const isWide = byteOrderMark(stored) ?? wideEncoding(stored)
  const bytes = isWide ? Buffer.from(decode(stored)) : stored
  for (const message of isMbox ? splitMbox(bytes) : [bytes])
    emails.push(await PostalMime.parse(message, { rfc822Attachments: true }).catch(throwReadFailure))
  return emails
}

function throwReadFailure(problem: unknown): never {
  const message = problem instanceof Error ? problem.message : String(problem)
  throw new ReadFailure(/exceeded/.test(message) ? 'FILE_TOO_COMPLEX' : 'FILE_CORRUPT', `The message cannot be read: ${message}`)
}

/** Splits an mbox at its `From ` lines. */
function splitMbox(bytes: Uint8Array): Uint8Array[] {
  const box = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const starts: number[] = []
  for (let at = 0; at >= 0 && starts.length < maxMessages; ) {
    if (box.subarray(at, at + 5).toString('latin1') === 'From ') starts.push(at)
    const next = box.indexOf('\nFrom ', at)
    at = next < 0 ? -1 : next + 1
  }
  return starts.map((start, i) => box.subarray(box.indexOf('\n', start) + 1, starts[i + 1]))
}

const toSource = ({ content, filename, mimeType }: Attachment): ByteSource => {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content instanceof ArrayBuffer ? new Uint8Array(content) : content
  return bytesSource(bytes, filename ?? (mimeType === 'message/rfc822' ? 'message.eml' : ''))
}

const addressText = (addresses: readonly Address[] = []): string =>
  addresses
    .flatMap((address) => address.group ?? [address])
    .map(({ name, address }) => (name && address ? `${name} <${address}>` : name || address || ''))
    .join(', ')

function messageText(email: Email): string {
  const headers = [
    ['Subject', email.subject ?? ''],
    ['From', addressText(email.from && [email.from])],
    ['To', addressText(email.to)],
    ['Cc', addressText(email.cc)],
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
  const from = addressText(email.from && [email.from])
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
