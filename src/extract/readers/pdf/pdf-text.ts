/** Text, metadata and attachments of a PDF, by PDF.js. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { normalizeWhitespace } from '../decode.ts'

// PDF.js warns on import if these browser classes are missing. Only rendering uses them, and PDFium renders the pages.
class Unused {}
Object.assign(globalThis, { DOMMatrix: Unused, Path2D: Unused })
const { getDocument, InvalidPDFException, PasswordException } = await import('pdfjs-dist/legacy/build/pdf.mjs')

const maxAttachments = 100

/** A page: its unchanged text and its size in points, after rotation. */
export interface PdfText {
  readonly text: string
  readonly width: number
  readonly height: number
}

export interface PdfTextDocument {
  readonly pageCount: number
  /** `date`: see Outline. */
  metadata(): Promise<{ metadata: Record<string, unknown>; date: string | undefined }>
  /** Returns the text of a page, counted from 1, with the values of form fields and the texts of notes. */
  page(number: number): Promise<PdfText>
  attachments(): Promise<{ filename: string; bytes: Uint8Array }[]>
  close(): Promise<void>
}

/** Opens a PDF for its text. Takes ownership of `bytes`. Throws ReadFailure FILE_ENCRYPTED, FILE_CORRUPT. */
export async function openPdfText(bytes: Uint8Array): Promise<PdfTextDocument> {
  const library = dirname(createRequire(import.meta.url).resolve('pdfjs-dist/package.json'))
  const loading = getDocument({
    data: bytes,
    cMapUrl: join(library, 'cmaps/'),
    standardFontDataUrl: join(library, 'standard_fonts/'),
    wasmUrl: join(library, 'wasm/'),
    verbosity: 0,
    useSystemFonts: false,
    disableFontFace: true,
    enableXfa: false,
  })
  const document = await loading.promise.catch((problem: unknown) => {
    if (problem instanceof PasswordException) throw new ReadFailure('FILE_ENCRYPTED')
    throw new ReadFailure('FILE_CORRUPT', problem instanceof InvalidPDFException ? undefined : `The PDF cannot be opened: ${problem}`)
  })
  if (document.numPages < 1) throw new ReadFailure('FILE_CORRUPT', 'The PDF has no pages.')
  return {
    pageCount: document.numPages,
    metadata: () => readMetadata(document),
    page: (number) => readPageText(document, number),
    attachments: () => readAttachments(document),
    close: () => loading.destroy(),
  }
}

type Page = Awaited<ReturnType<PDFDocumentProxy['getPage']>>

async function readPageText(document: PDFDocumentProxy, number: number): Promise<PdfText> {
  const page = await document.getPage(number)
  const { width, height } = page.getViewport({ scale: 1 })
  try {
    const content = await page.getTextContent()
    const text = content.items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : '')).join('')
    return { text: [text, ...(await readAnnotations(page))].join('\n'), width, height }
  } finally {
    page.cleanup()
  }
}

/** Returns the values of form fields and the texts of notes, which are not part of the text content. */
async function readAnnotations(page: Page): Promise<string[]> {
  const annotations = await page.getAnnotations().catch(() => [])
  return annotations.flatMap(({ fieldValue, fieldType, contentsObj }) => {
    const values = fieldType === 'Btn' ? [] : [fieldValue].flat().filter((value) => typeof value === 'string')
    return [values.join(' '), typeof contentsObj?.str === 'string' ? contentsObj.str : ''].filter((text) => text !== '')
  })
}

const infoKeys = { Title: 'title', Author: 'author', Subject: 'subject', Keywords: 'keywords', Creator: 'creator', Producer: 'producer' }
const dateKeys = { CreationDate: 'created', ModDate: 'modified' }

async function readMetadata(document: PDFDocumentProxy): Promise<{ metadata: Record<string, unknown>; date: string | undefined }> {
  const { info } = (await document.getMetadata().catch(() => ({ info: {} }))) as { info: Record<string, unknown> }
  const metadata: Record<string, unknown> = {}
  for (const [key, name] of Object.entries(infoKeys)) {
    const value = typeof info[key] === 'string' ? normalizeWhitespace(info[key]) : ''
    if (value !== '') metadata[name] = value
  }
  for (const [key, name] of Object.entries(dateKeys)) {
    const date = parsePdfDate(info[key])
    if (date) metadata[name] = date
  }
  const [, year, month, day] = /^(?:D:)?(\d{4})(\d\d)(\d\d)/.exec(String(info.CreationDate ?? '')) ?? []
  return { metadata: { ...metadata, page_count: document.numPages }, date: year && `${year}-${month}-${day}` }
}

async function readAttachments(document: PDFDocumentProxy): Promise<{ filename: string; bytes: Uint8Array }[]> {
  const files: { filename: string; bytes: Uint8Array }[] = []
  const attachments = await document.getAttachments().catch(() => null)
  for (const [id, { filename }] of [...(attachments ?? [])].slice(0, maxAttachments)) {
    const content: unknown = await document.getAttachmentContent(id).catch(() => null)
    if (content instanceof Uint8Array) files.push({ filename, bytes: content })
  }
  return files
}

/** Converts `D:20240229120000+01'00'` to an ISO date. Returns null for anything else. */
export function parsePdfDate(value: unknown): string | null {
  const parts = typeof value === 'string' && /^(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-]\d\d)'?(\d\d)?)?/.exec(value)
  if (!parts) return null
  const [, year, month = '01', day = '01', hour = '00', minute = '00', second = '00', , zoneHour, zoneMinute = '00'] = parts
  const time = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}${zoneHour ? `${zoneHour}:${zoneMinute}` : 'Z'}`)
  return Number.isNaN(time.getTime()) ? null : time.toISOString()
}
