/** Reads files in this process, without OCR. */
import { openFile, type Tools, toReadFailure } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { loadPdfium, type OpenPdfium } from '../../src/extract/readers/pdf/pdfium.ts'

let pdfium: Promise<OpenPdfium> | undefined
export const readTools: Tools = {
  limits: { maxPages: 3, maxPixels: 4_000_000, dpi: 100 },
  pdfium: () => {
    pdfium ??= loadPdfium()
    return pdfium
  },
  dropPdfium: () => {
    pdfium = undefined
  },
}

/** Returns its type, metadata and pages, and the text of all pages. */
export async function readBytes(bytes: Uint8Array, filename: string) {
  const opened = await openFile(bytesSource(bytes, filename), readTools)
  const contents = await opened.contents()
  opened.close()
  const { mimeType, hasReader } = opened
  return { mimeType, hasReader, ...contents, text: contents.pages.map((page) => page.text).join('\n---\n') }
}

/** Returns the images of its pages that need OCR. */
export async function readImages(bytes: Uint8Array, filename: string) {
  const opened = await openFile(bytesSource(bytes, filename), readTools)
  try {
    const images = []
    for (const { page, needsOcr } of (await opened.contents()).pages) if (needsOcr) images.push(await opened.picture(page))
    return images
  } finally {
    opened.close()
  }
}

/** Returns the code of its failure, `none` without one. */
export const failureOf = (bytes: Uint8Array, filename: string): Promise<string> =>
  readBytes(bytes, filename).then(
    () => 'none',
    (problem) => toReadFailure(problem).code,
  )
