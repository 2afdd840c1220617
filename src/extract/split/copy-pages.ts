/** Copies pages of a PDF into a new PDF. */
import { PDFDocument, PDFName, PDFObjectCopier, PDFPage } from '@cantoo/pdf-lib'
import { ReadFailure } from '../../ports/document-reader.ts'

/**
 * Returns a PDF with these pages, counted from 1. Equal input gives equal bytes. A PDF that opens without a password becomes one without encryption.
 * Throws ReadFailure FILE_CORRUPT.
 */
export async function copyPages(bytes: Uint8Array, pages: readonly number[]): Promise<Uint8Array> {
  const original = await PDFDocument.load(bytes, { updateMetadata: false, throwOnInvalidObject: false, password: '' })
  const part = await PDFDocument.create({ updateMetadata: false })
  const allPages = original.getPages()
  const copied = new Set(pages.map((page) => allPages[page - 1]))
  if (copied.has(undefined)) throw new ReadFailure('FILE_CORRUPT', 'A page of the PDF is missing.')
  // Links and form fields refer to other pages, which would be copied with them.
  for (const page of allPages) if (!copied.has(page)) original.context.delete(page.ref)
  const copier = PDFObjectCopier.for(original.context, part.context)
  for (const page of copied) {
    const node = copier.copy(page!.node)
    part.addPage(PDFPage.of(node, part.context.register(node), part))
  }
  // Without the layers of the document, those that are switched off would be shown.
  const layers = original.catalog.get(PDFName.of('OCProperties'))
  if (layers) part.catalog.set(PDFName.of('OCProperties'), copier.copy(layers))
  return part.save({ addDefaultPage: false, updateFieldAppearances: false })
}
