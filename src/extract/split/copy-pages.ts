/** Copies pages of a PDF into a new PDF. */
import { PDFArray, PDFDict, PDFDocument, PDFName, PDFObjectCopier, PDFPage } from '@cantoo/pdf-lib'
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
  const form = reduceForm(original, copied as ReadonlySet<PDFPage>)
  const copier = PDFObjectCopier.for(original.context, part.context)
  for (const page of copied) {
    const node = copier.copy(page!.node)
    part.addPage(PDFPage.of(node, part.context.register(node), part))
  }
  // Without the form, PDF readers do not show values of fields that have no appearance.
  if (form) part.catalog.set(PDFName.of('AcroForm'), copier.copy(form))
  // Without the layers of the document, those that are switched off would be shown.
  const layers = original.catalog.get(PDFName.of('OCProperties'))
  if (layers) part.catalog.set(PDFName.of('OCProperties'), copier.copy(layers))
  return part.save({ addDefaultPage: false, updateFieldAppearances: false })
}

/** Removes the fields of all pages but these from the form of a document, and the data of XFA, which has no pages. Returns null without a form. */
function reduceForm({ catalog }: PDFDocument, pages: ReadonlySet<PDFPage>): PDFDict | null {
  const form = catalog.lookup(PDFName.of('AcroForm'))
  if (!(form instanceof PDFDict)) return null
  const pageFields = fieldsOf(pages)
  for (const field of [form, ...pageFields]) {
    for (const key of ['Fields', 'Kids']) {
      const fields = field.lookup(PDFName.of(key))
      if (fields instanceof PDFArray) removeOthers(fields, pageFields)
    }
  }
  for (const key of ['XFA', 'CO', 'SigFlags']) form.delete(PDFName.of(key))
  return form
}

/** Returns the form fields of pages, with the fields above them. */
function fieldsOf(pages: ReadonlySet<PDFPage>): Set<PDFDict> {
  const fields = new Set<PDFDict>()
  for (const { node } of pages) {
    const annotations = node.lookup(PDFName.of('Annots'))
    if (!(annotations instanceof PDFArray)) continue
    for (let i = 0; i < annotations.size(); i++)
      for (let field = annotations.lookup(i); field instanceof PDFDict && !fields.has(field); field = field.lookup(PDFName.of('Parent')))
        fields.add(field)
  }
  return fields
}

function removeOthers(array: PDFArray, fields: ReadonlySet<unknown>): void {
  for (let i = array.size() - 1; i >= 0; i--) if (!fields.has(array.lookup(i))) array.remove(i)
}
