/** Parts of PDFs that are split. */
import { PDFDict, PDFDocument, PDFName, PDFString } from '@cantoo/pdf-lib'
import { expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { copyPages } from '../../src/extract/split/copy-pages.ts'
import { textPdf } from '../support/data/page-image.ts'
import { readBytes, readTools } from '../support/read-bytes.ts'

const pages = [['first page'], ['second page'], ['third page']]
const load = (): Promise<PDFDocument> => PDFDocument.load(textPdf(pages))

test('a part has no pages of other parts to which its links and form fields refer', async () => {
  const document = await load()
  const [first, second, third] = document.getPages()
  for (const page of [first!, second!, third!])
    for (const { ref } of [first!, third!]) {
      const link = { Type: 'Annot', Subtype: 'Link', Rect: [0, 0, 9, 9], P: page.ref, Dest: [ref, 'Fit'] }
      page.node.addAnnot(document.context.register(document.context.obj(link as never)))
    }
  const field = document.getForm().createTextField('name')
  for (const page of [second!, third!]) field.addToPage(page, { x: 10, y: 10 })
  const part = await PDFDocument.load(await copyPages(await document.save(), [2]), { updateMetadata: false })
  const dictionaries = part.context.enumerateIndirectObjects().map(([, object]) => String(object))
  expect(dictionaries.filter((text) => /\/Type \/Page\b/.test(text) && !text.includes('/Parent'))).toHaveLength(1)
  expect((await readBytes(await part.save(), 'a.pdf')).text).toBe('second page')
})

test('a part has the values of the fields on its pages, also of those without an appearance, and no other fields', async () => {
  const document = await load()
  const form = document.getForm()
  const [, second, third] = document.getPages()
  for (const [name, page] of [
    ['person.name', second!],
    ['person.city', third!],
    ['total', third!],
  ] as const) {
    const field = form.createTextField(name)
    field.setText(`value of ${name}`)
    field.addToPage(page, { x: 50, y: 500, width: 200, height: 20 })
    for (const widget of field.acroField.getWidgets()) widget.dict.delete(PDFName.of('AP'))
  }
  form.acroForm.dict.set(PDFName.of('NeedAppearances'), document.context.obj(true))
  const bytes = await document.save({ updateFieldAppearances: false })
  const part = await copyPages(bytes, [2])
  expect((await readBytes(part, 'a.pdf')).text).toBe('second page\nvalue of person.name')
  const objects = (await PDFDocument.load(part)).context.enumerateIndirectObjects()
  const values = objects.flatMap(([, object]) => (object instanceof PDFDict && object.get(PDFName.of('V'))) || [])
  expect(values).toHaveLength(1)
})

test('a layer that is switched off stays off', async () => {
  const document = await load()
  const { context, catalog } = document
  const layer = context.register(context.obj({ Type: 'OCG', Name: PDFString.of('draft') }))
  catalog.set(PDFName.of('OCProperties'), context.obj({ OCGs: [layer], D: { OFF: [layer] } }))
  const { node } = document.getPage(1)
  const resources = node.Resources()!
  resources.set(PDFName.of('Properties'), context.obj({ Draft: layer }))
  node.set(PDFName.of('Contents'), context.register(context.stream('/OC /Draft BDC 0 g 0 0 500 500 re f EMC')))
  const grayOf = async (bytes: Uint8Array, page: number) => (await openFile(bytesSource(bytes, 'a.pdf'), readTools)).picture(page)
  const bytes = await document.save()
  const [before, after] = [await grayOf(bytes, 2), await grayOf(await copyPages(bytes, [2]), 1)]
  expect(before!.gray.every((value) => value === 255)).toBe(true)
  expect(after!.gray.every((value) => value === 255)).toBe(true)
})

test('a PDF that is encrypted without a password to open it is split', async () => {
  const document = await load()
  document.encrypt({ userPassword: '', ownerPassword: 'owner', permissions: {} })
  const bytes = await document.save()
  expect((await readBytes(await copyPages(bytes, [2]), 'a.pdf')).text).toBe('second page')
  const locked = await load()
  locked.encrypt({ userPassword: 'user', ownerPassword: 'owner', permissions: {} })
  await expect(locked.save().then((saved) => copyPages(saved, [2]))).rejects.toThrow()
})
