/** Text, objects and images of PDF pages, by PDFium. */
import { PDFiumModule } from '@hyzyla/pdfium'
import { ReadFailure, type WordRow } from '../../../ports/document-reader.ts'
import { addNotes, readNotes } from './annotations.ts'
import { type AttachedFile, findAttachments, readAttachments, readMetadata, readXfaForm } from './document-parts.ts'
import { hideTexts, hideTextsBeside, readPageJpeg, readScanDpi, type Survey, surveyPage } from './page-objects.ts'
import { type PageText, readPageText } from './page-text.ts'
import { readPageWords } from './page-words.ts'
import type { PdfMetadata } from './pdf-metadata.ts'
import type { PdfiumModule } from './pdfium-module.ts'

/** Pixel formats with their number and render flags (annotations; gray or RGB byte order) in PDFium. */
const formats = { gray: { id: 1, channels: 1, flags: 0x01 | 0x08 }, rgba: { id: 4, channels: 4, flags: 0x01 | 0x10 } } as const
const passwordError = 4
const flattenForDisplay = 0
/** Size of the largest FPDF_FORMFILLINFO, and the version that is set. No callback is set. */
const formInfoBytes = 512
const formInfoVersion = 2

export interface PdfPage {
  /** size in points, after rotation */
  readonly width: number
  readonly height: number
  /** Leaves text objects out of text() and words(); see hideTexts(). */
  hideTexts(isHidden: readonly boolean[]): void
  /** Returns the text with that of annotations. */
  text(): PageText
  /** Returns the words of the text layer with their boxes. */
  words(): WordRow[]
  survey(): Survey
  /** Returns the JPEG that fills the whole page, null if the page is anything else. */
  jpeg(): Uint8Array<ArrayBuffer> | null
  /** Returns the resolution of a page that consists of one image, in dpi; null for other pages. */
  scanDpi(): number | null
  /** Renders the page on white in exactly this size, in pixels, row by row. */
  render(width: number, height: number, format: keyof typeof formats): Uint8Array<ArrayBuffer>
  close(): void
}

export interface PdfiumDocument {
  readonly pageCount: number
  metadata(): PdfMetadata
  /** Returns the attached files of the document and of the pages whose text was read. */
  attachments(): AttachedFile[]
  /** Returns the labels and values of an XFA form, '' without one. */
  formText(): string
  /** Returns the size of the memory that PDFium has taken. */
  heapBytes(): number
  /** Opens a page, counted from 0. */
  page(index: number): PdfPage
  close(): void
}

export type OpenPdfium = (bytes: Uint8Array) => PdfiumDocument

/** Loads PDFium. After an internal error an instance is unusable and must be replaced. */
export async function loadPdfium(): Promise<OpenPdfium> {
  const pdfium = (await PDFiumModule({})) as unknown as PdfiumModule
  pdfium._FPDF_InitLibrary()
  return (bytes) => openDocument(pdfium, bytes)
}

function openDocument(pdfium: PdfiumModule, bytes: Uint8Array): PdfiumDocument {
  const memory = pdfium._malloc(bytes.length)
  if (!memory) throw new ReadFailure('FILE_TOO_COMPLEX')
  pdfium.HEAPU8.set(bytes, memory)
  const document = pdfium._FPDF_LoadMemDocument(memory, bytes.length, 0)
  if (!document) {
    const isLocked = pdfium._FPDF_GetLastError() === passwordError
    pdfium._free(memory)
    throw new ReadFailure(isLocked ? 'FILE_ENCRYPTED' : 'FILE_CORRUPT')
  }
  const files: AttachedFile[] = []
  const pagesWithFilesRead = new Set<number>()
  let form: { handle: number; info: number } | undefined
  /** a second view of the bytes, in which annotations become part of the pages */
  let flattened = 0

  function openForm(): number {
    if (pdfium._FPDF_GetFormType(document) === 0) return 0
    if (!form) {
      const info = pdfium._malloc(formInfoBytes)
      pdfium.HEAPU8.fill(0, info, info + formInfoBytes)
      new DataView(pdfium.HEAPU8.buffer).setInt32(info, formInfoVersion, true)
      form = { info, handle: pdfium._FPDFDOC_InitFormFillEnvironment(document, info) }
    }
    return form.handle
  }

  function loadPage(from: number, index: number): number {
    const page = pdfium._FPDF_LoadPage(from, index)
    if (!page) throw new ReadFailure('FILE_CORRUPT', `Page ${index + 1} is damaged.`)
    hideTextsBeside(pdfium, page)
    return page
  }

  function readFlattened(index: number, isHidden: readonly boolean[]): PageText {
    flattened ||= pdfium._FPDF_LoadMemDocument(memory, bytes.length, 0)
    const original = loadPage(flattened, index)
    pdfium._FPDFPage_Flatten(original, flattenForDisplay)
    pdfium._FPDF_ClosePage(original)
    const page = loadPage(flattened, index)
    hideTexts(pdfium, page, isHidden, { isFlattened: true })
    const text = readPageText(pdfium, page)
    pdfium._FPDF_ClosePage(page)
    return text
  }

  function readText(page: number, index: number, isHidden: readonly boolean[]): PageText {
    const plain = readPageText(pdfium, page)
    if (pdfium._FPDFPage_GetAnnotCount(page) < 1) return plain
    const attach = (handle: number): void => {
      if (!pagesWithFilesRead.has(index)) readAttachments(pdfium, [handle], files)
    }
    const { texts, isDrawn } = readNotes(pdfium, page, { form: openForm, attach })
    pagesWithFilesRead.add(index)
    const whole = isDrawn ? readFlattened(index, isHidden) : plain
    // Flattening damages pages that inherit their fonts.
    const shown = isContinued(plain.text, whole.text) ? whole : plain
    return { ...shown, text: addNotes(shown.text, texts) }
  }

  function openPage(index: number): PdfPage {
    const page = loadPage(document, index)
    let isHidden: readonly boolean[] = []
    return {
      width: pdfium._FPDF_GetPageWidthF(page),
      height: pdfium._FPDF_GetPageHeightF(page),
      hideTexts(found) {
        if (hideTexts(pdfium, page, found)) isHidden = found
      },
      text: () => readText(page, index, isHidden),
      words: () => readPageWords(pdfium, page),
      survey: () => surveyPage(pdfium, page),
      jpeg: () => readPageJpeg(pdfium, page, bytes),
      scanDpi: () => readScanDpi(pdfium, page, bytes),
      render: (width, height, format) => renderPage(pdfium, page, width, height, formats[format]),
      close: () => pdfium._FPDF_ClosePage(page),
    }
  }

  return {
    pageCount: pdfium._FPDF_GetPageCount(document),
    metadata: () => readMetadata(pdfium, document),
    attachments() {
      const all: AttachedFile[] = []
      readAttachments(pdfium, findAttachments(pdfium, document), all)
      return [...all, ...files]
    },
    formText: () => readXfaForm(pdfium, document),
    heapBytes: () => pdfium.HEAPU8.length,
    page: openPage,
    close() {
      if (form?.handle) pdfium._FPDFDOC_ExitFormFillEnvironment(form.handle)
      if (form) pdfium._free(form.info)
      if (flattened) pdfium._FPDF_CloseDocument(flattened)
      pdfium._FPDF_CloseDocument(document)
      pdfium._free(memory)
    },
  }
}

/** Returns whether a text begins with most of another one. */
function isContinued(beginning: string, whole: string): boolean {
  const squeeze = (text: string): string => text.replace(/\s+/g, '')
  const expected = squeeze(beginning)
  return squeeze(whole).startsWith(expected.slice(0, Math.ceil(expected.length / 2)))
}

function renderPage(
  pdfium: PdfiumModule,
  page: number,
  width: number,
  height: number,
  format: (typeof formats)[keyof typeof formats],
): Uint8Array<ArrayBuffer> {
  const bitmap = pdfium._FPDFBitmap_CreateEx(width, height, format.id, 0, 0)
  if (!bitmap) throw new ReadFailure('FILE_TOO_COMPLEX')
  try {
    pdfium._FPDFBitmap_FillRect(bitmap, 0, 0, width, height, 0xffffffff)
    pdfium._FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0, format.flags)
    const start = pdfium._FPDFBitmap_GetBuffer(bitmap)
    const stride = pdfium._FPDFBitmap_GetStride(bitmap)
    const rowBytes = width * format.channels
    const pixels = new Uint8Array(rowBytes * height)
    for (let y = 0; y < height; y++) pixels.set(pdfium.HEAPU8.subarray(start + y * stride, start + y * stride + rowBytes), y * rowBytes)
    return pixels
  } finally {
    pdfium._FPDFBitmap_Destroy(bitmap)
  }
}
