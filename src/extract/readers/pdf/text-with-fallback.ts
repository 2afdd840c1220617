/** Texts of the pages of a PDF by PDFium, or by PDF.js if PDFium fails or finds glyphs without characters. */
import type { ReadFailure, WordRow } from '../../../ports/document-reader.ts'
import type { ByteSource } from '../../opened-document.ts'
import type { AttachedFile } from './document-parts.ts'
import { hasLayers } from './layers.ts'
import { maxSymbols, type PageText } from './page-text.ts'
import type { PdfMetadata } from './pdf-metadata.ts'
import type { PdfiumDocument, PdfPage } from './pdfium.ts'
import type { PdfText, PdfTextDocument } from './pdfjs.ts'

const maxBlankPages = 5

export interface PdfiumCalls {
  withPdfium<T>(work: (document: PdfiumDocument) => T): Promise<T>
  onPage<T>(number: number, work: (page: PdfPage) => T): Promise<T>
}

export interface PageTexts {
  /** Throws ReadFailure FILE_ENCRYPTED, FILE_CORRUPT. */
  pageCount(): Promise<number>
  /** Returns the text of a page, counted from 1; null if it is damaged. */
  page(number: number): Promise<PdfText | null>
  /** Returns the words of a page, counted from 1. */
  words(number: number): Promise<WordRow[]>
  metadata(): Promise<PdfMetadata>
  attachments(): Promise<AttachedFile[]>
  /** Returns the labels and values of an XFA form, '' without one. */
  formText(): Promise<string>
  close(): void
}

/** Reads texts with PDFium, and with PDF.js those of pages that PDFium cannot read. close() closes PDF.js only. */
export function openPageTexts(source: ByteSource, { withPdfium, onPage }: PdfiumCalls): PageTexts {
  let fallback: Promise<PdfTextDocument> | undefined
  let isReadable = true
  let areLayersPossible: boolean | undefined
  /** Number of blank pages in a row since the first page; null after the first page with content. */
  let blankPages: number | null = 0

  /** Calls `work` with a page without the texts on hidden layers. PDFium reads these too, and does not tell them apart. */
  async function onShown<T>(number: number, work: (page: PdfPage) => T): Promise<T> {
    areLayersPossible ??= hasLayers(source.read())
    const document = areLayersPossible ? await openFallback().catch(() => null) : null
    const isHidden = await document?.hiddenTexts(number).catch(() => null)
    return onPage(number, (page) => {
      if (isHidden) page.hideTexts(isHidden)
      return work(page)
    })
  }

  /** Returns the text by PDFium. Returns null if PDFium cannot read the page, and for blank pages at the beginning, which PDFium may have misread. */
  async function readOwn(number: number): Promise<(PdfText & PageText) | null> {
    if (!isReadable) return null
    const own = await onShown(number, (page) => {
      const text = page.text()
      const isBlank = blankPages !== null && text.text.trim() === '' && page.survey().imageShare === 0
      return { ...text, isBlank, width: page.width, height: page.height }
    }).catch(() => null)
    if (own?.isBlank && blankPages !== null && blankPages++ < maxBlankPages) return null
    if (own && !own.isBlank) blankPages = null
    return own
  }

  /** Loads PDF.js on demand, because it takes as long to load as everything else together. */
  const openFallback = (): Promise<PdfTextDocument> => {
    fallback ??= import('./pdfjs.ts').then(({ openPdfText }) => openPdfText(source.read()))
    return fallback
  }

  return {
    async pageCount() {
      const count = await withPdfium((document) => document.pageCount).catch((problem: ReadFailure) => {
        if (problem.code === 'FILE_CORRUPT' || problem.code === 'READ_CRASHED') return 0
        throw problem
      })
      isReadable = count > 0
      return isReadable ? count : (await openFallback()).pageCount
    },

    async page(number) {
      const own = await readOwn(number)
      if (own?.unmapped.size === 0) return own
      const other = await openFallback()
        .then((document) => document.page(number))
        .catch(() => null)
      if (!own) return other
      if (!other || countLetters(other.text) < 0.9 * countLetters(own.text)) return own
      if (isResolved(own, other.text)) return { ...own, text: other.text, isMapped: true }
      return own.isMapped ? own : { ...own, text: other.text }
    },

    words: (number) => onShown(number, (page) => page.words()),

    async metadata() {
      if (!isReadable) return (await openFallback()).metadata()
      const own = await withPdfium((document) => document.metadata())
      if (own.date || source.size > maxXmpFileBytes || !hasXmpDate(source.read())) return own
      return openFallback()
        .then((document) => document.metadata())
        .then(({ metadata: { created }, date }) => (date ? { metadata: { ...own.metadata, created }, date } : own))
        .catch(() => own)
    },
    attachments: async () => (isReadable ? withPdfium((document) => document.attachments()) : (await openFallback()).attachments()),
    formText: async () => (isReadable ? withPdfium((document) => document.formText()) : ''),

    close() {
      fallback?.then((document) => document.close()).catch(() => {})
      fallback = undefined
    },
  }
}

/** Maximum size of a file that PDF.js opens for its date. It holds the whole file in memory. */
const maxXmpFileBytes = 32 << 20

/** Returns whether the file seems to have a creation time in XMP, which PDFium does not read. It may belong to an embedded picture. */
const hasXmpDate = (bytes: Uint8Array): boolean => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes('xmp:CreateDate')

const countLetters = (text: string): number => text.match(/[\p{L}\p{N}]/gu)?.length ?? 0

/**
 * Returns whether another text has characters for the glyphs without characters. If not, it contains the codes of these glyphs as letters among the
 * real ones. Codes of only a few punctuation marks are of a font with an ordinary encoding and unusual names.
 */
function isResolved({ text, isMapped, unmapped }: PageText, other: string): boolean {
  const count = (where: string, letter: string): number => where.split(letter).length - 1
  const isFewMarks = isMapped && unmapped.size <= maxSymbols
  return [...unmapped].every(([code, times]) => {
    const added = count(other, code) - count(text, code) + (isMapped ? 0 : times)
    return added < 0.2 * times || (isFewMarks && added === times && /^[\p{P}\p{S}]$/u.test(code))
  })
}
