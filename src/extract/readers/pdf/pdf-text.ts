/** The text that a PDF carries, by PDF.js. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import './rendering-globals.ts'
import { getDocument, InvalidPDFException, PasswordException, type PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { normalizeWhitespace } from '../decode.ts'
import { parsePdfDate } from '../iso-date.ts'

const maxAttachments = 100

/** One page: its text, untouched, and its size in points as the reader sees it. */
export interface PdfText {
  readonly text: string
  readonly width: number
  readonly height: number
}

export interface PdfTexts {
  readonly pageCount: number
  metadata(): Promise<Record<string, unknown>>
  /** Text of one page, counted from 1, with what was typed into forms and notes. */
  page(number: number): Promise<PdfText>
  /** Files inside the file. */
  attachments(): Promise<{ filename: string; bytes: Uint8Array }[]>
  close(): Promise<void>
}

/** Opens a PDF for its text; `bytes` is given away. Throws ReadFailure FILE_ENCRYPTED, FILE_CORRUPT. */
export async function openTexts(bytes: Uint8Array): Promise<PdfTexts> {
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
    metadata: () => metadataOf(document),
    page: (number) => textOf(document, number),
    attachments: () => attachmentsOf(document),
    close: () => loading.destroy(),
  }
}

async function textOf(document: PDFDocumentProxy, number: number): Promise<PdfText> {
  const page = await document.getPage(number)
  const { width, height } = page.getViewport({ scale: 1 })
  try {
    const content = await page.getTextContent()
    const text = content.items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : '')).join('')
    return { text: [text, ...(await typedInto(page))].join('\n'), width, height }
  } finally {
    page.cleanup()
  }
}

type Page = Awaited<ReturnType<PDFDocumentProxy['getPage']>>

/** Values of form fields and texts of notes, which are not part of the page's own text. */
async function typedInto(page: Page): Promise<string[]> {
  const annotations = await page.getAnnotations().catch(() => [])
  return annotations.flatMap(({ fieldValue, fieldType, contentsObj }) => {
    const value =
      fieldType === 'Btn'
        ? ''
        : [fieldValue]
            .flat()
            .filter((part) => typeof part === 'string')
            .join(' ')
    return [value, typeof contentsObj?.str === 'string' ? contentsObj.str : ''].filter((part) => part !== '')
  })
}

const infoKeys = {
  Title: 'title',
  Author: 'author',
  Subject: 'subject',
  Keywords: 'keywords',
  Creator: 'creator',
  Producer: 'producer',
} as const

async function metadataOf(document: PDFDocumentProxy): Promise<Record<string, unknown>> {
  const { info } = (await document.getMetadata().catch(() => ({ info: {} }))) as { info: Record<string, unknown> }
  const found: Record<string, unknown> = {}
  for (const [key, name] of Object.entries(infoKeys)) {
    const value = info[key]
    if (typeof value === 'string' && normalizeWhitespace(value) !== '') found[name] = normalizeWhitespace(value)
  }
  for (const [key, name] of [
    ['CreationDate', 'created'],
    ['ModDate', 'modified'],
  ] as const) {
    const date = parsePdfDate(info[key])
    if (date) found[name] = date
  }
  return { ...found, page_count: document.numPages }
}

async function attachmentsOf(document: PDFDocumentProxy): Promise<{ filename: string; bytes: Uint8Array }[]> {
  const files: { filename: string; bytes: Uint8Array }[] = []
  const listed = await document.getAttachments().catch(() => null)
  for (const [id, { filename }] of [...(listed ?? [])].slice(0, maxAttachments)) {
    const content: unknown = await document.getAttachmentContent(id).catch(() => null)
    if (content instanceof Uint8Array) files.push({ filename, bytes: content })
  }
  return files
}
