/** Reader of mail: headers, body and attachments, which are read like other files. */
import PostalMime, { type Address, type Attachment, type Email } from 'postal-mime'
import { type OutlinePage, ReadFailure } from '../../ports/document-reader.ts'
import { type ByteSource, bytesSource, type Contents, type OpenedDocument, type Picture } from '../opened-document.ts'
import { byteOrderMark, createTextSink, decode, normalizeWhitespace, wideEncoding } from './decode.ts'
import { readHtml } from './html.ts'

const maxAttachments = 100
const maxMessages = 10_000

/** Opens an attached file; null if it is nested too deeply. */
export type OpenPart = (source: ByteSource) => Promise<OpenedDocument | null>

interface AttachmentPage {
  attachment: Attachment
  page: number
}

/** Opens a message or an mbox. Pages after the first are attached images and scans that need OCR. */
export function openMail(source: ByteSource, isMbox: boolean, openPart: OpenPart): OpenedDocument {
  let read: Promise<{ contents: Contents; attachmentPages: AttachmentPage[] }> | undefined

  async function load(): Promise<{ contents: Contents; attachmentPages: AttachmentPage[] }> {
    const emails = await parseEmails(source.read(), isMbox)
    const sink = createTextSink()
    const attachmentPages: AttachmentPage[] = []
    const extra: OutlinePage[] = []
    for (const email of emails) {
      if (sink.isFull) break
      sink.add(`${messageText(email)}\n\n`)
      for (const attachment of email.attachments.slice(0, maxAttachments)) {
        const { text, pages } = await readPart(attachment, openPart)
        sink.add(`${[attachment.filename ?? '', text].filter(Boolean).join('\n')}\n\n`)
        for (const { page, width, height } of pages) {
          attachmentPages.push({ attachment, page })
          extra.push({ page: extra.length + 2, text: '', needsOcr: true, width, height })
        }
      }
    }
    const [first] = emails
    const body: OutlinePage = { page: 1, text: normalizeWhitespace(sink.text()), needsOcr: false, width: null, height: null }
    const contents = { metadata: first ? metadataOf(first) : {}, date: first && dateOf(first), pages: [body, ...extra] }
    return { contents, attachmentPages }
  }
  const loaded = () => {
    read ??= load()
    return read
  }

  return {
    contents: async () => (await loaded()).contents,
    async picture(page): Promise<Picture | null> {
      const attachmentPage = (await loaded()).attachmentPages[page - 2]
      if (!attachmentPage) return null
      const opened = await openPart(toSource(attachmentPage.attachment))
      try {
        return (await opened?.picture(attachmentPage.page)) ?? null
      } finally {
        opened?.close()
      }
    },
    thumbnail: async () => null,
    close() {
      read = undefined
    },
  }
}

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

/** Reads an attachment. Returns no text if it cannot be read. */
async function readPart(attachment: Attachment, openPart: OpenPart): Promise<{ text: string; pages: OutlinePage[] }> {
  const opened = await openPart(toSource(attachment)).catch(() => null)
  try {
    const pages = (await opened?.contents())?.pages ?? []
    return { text: pages.map((page) => page.text).join('\n'), pages: pages.filter(({ needsOcr }) => needsOcr) }
  } catch (problem) {
    if (problem instanceof ReadFailure) return { text: '', pages: [] }
    throw problem
  } finally {
    opened?.close()
  }
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
  const body = email.text?.trim() ? email.text : email.html ? readHtml(email.html).text : ''
  return [...headers, '', body].join('\n')
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
