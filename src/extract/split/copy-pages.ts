/** Copies pages of a PDF into a new PDF. */
import { PDFDocument } from '@cantoo/pdf-lib'
import { ReadFailure } from '../../ports/document-reader.ts'

/** Returns a PDF with these pages, counted from 1. Equal input gives equal bytes. Throws ReadFailure FILE_CORRUPT. */
export async function copyPages(bytes: Uint8Array, pages: readonly number[]): Promise<Uint8Array> {
  const original = await PDFDocument.load(bytes, { updateMetadata: false, throwOnInvalidObject: false })
  const part = await PDFDocument.create({ updateMetadata: false })
  const indices = pages.map((page) => page - 1)
  if (indices.some((index) => index < 0 || index >= original.getPageCount()))
    throw new ReadFailure('FILE_CORRUPT', 'A page of the PDF is missing.')
  for (const page of await part.copyPages(original, indices)) part.addPage(page)
  return part.save({ addDefaultPage: false, updateFieldAppearances: false })
}
