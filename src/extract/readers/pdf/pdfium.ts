/** PDF pages as images, by PDFium. */
import { PDFiumModule } from '@hyzyla/pdfium'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { readPageJpeg, type Survey, surveyPage } from './page-objects.ts'
import type { PdfiumModule } from './pdfium-module.ts'

/** Pixel formats with their number and render flags (annotations; gray or RGB byte order) in PDFium. */
const formats = { gray: { id: 1, channels: 1, flags: 0x01 | 0x08 }, rgba: { id: 4, channels: 4, flags: 0x01 | 0x10 } } as const
const passwordError = 4

export interface PdfPage {
  /** size in points, after rotation */
  readonly width: number
  readonly height: number
  survey(): Survey
  /** Returns the JPEG that fills the whole page, null if the page is anything else. */
  jpeg(): Uint8Array<ArrayBuffer> | null
  /** Renders the page on white in exactly this size, in pixels, row by row. */
  render(width: number, height: number, format: keyof typeof formats): Uint8Array<ArrayBuffer>
  close(): void
}

export interface PdfiumDocument {
  /** Opens a page, counted from 0. */
  page(index: number): PdfPage
  close(): void
}

export type OpenPdfium = (bytes: Uint8Array) => PdfiumDocument

/** Loads PDFium. An instance that threw an error of its own is unusable and must be replaced. */
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
  return {
    page: (index) => openPage(pdfium, document, index),
    close() {
      pdfium._FPDF_CloseDocument(document)
      pdfium._free(memory)
    },
  }
}

function openPage(pdfium: PdfiumModule, document: number, index: number): PdfPage {
  const page = pdfium._FPDF_LoadPage(document, index)
  if (!page) throw new ReadFailure('FILE_CORRUPT', `Page ${index + 1} is damaged.`)
  return {
    width: pdfium._FPDF_GetPageWidthF(page),
    height: pdfium._FPDF_GetPageHeightF(page),
    survey: () => surveyPage(pdfium, page),
    jpeg: () => readPageJpeg(pdfium, page),
    render: (width, height, format) => renderPage(pdfium, page, width, height, formats[format]),
    close: () => pdfium._FPDF_ClosePage(page),
  }
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
