/** PDF/A of PDFs: scans keep their pages, other pages only if they conform. `npm run test:pdfa` validates them with veraPDF. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  degrees,
  PDFDict,
  PDFDocument,
  PDFName,
  PDFRawStream,
  PDFString,
  rgb,
  StandardFonts,
  setTextRenderingMode,
  TextRenderingMode,
} from '@cantoo/pdf-lib'
import { getDocument } from 'pdfjs-dist/legacy/build/pdf.mjs'
import sharp from 'sharp'
import { afterAll, expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { fileSource } from '../../src/extract/opened-document.ts'
import { loadPdfium } from '../../src/extract/readers/pdf/pdfium.ts'
import type { PageText, RenditionInfo } from '../../src/ports/document-reader.ts'
import { scannedPdf, textPdf } from '../support/data/page-image.ts'

const folder = await mkdtemp(join(tmpdir(), 'dms-pdfa-'))
afterAll(() => rm(folder, { recursive: true, force: true }))

const info: RenditionInfo = {
  ...{ title: 'Scan', author: null, created: '2024-02-03T04:05:06Z', modified: '2024-03-04T05:06:07Z', language: null, producer: 'dms 0' },
  sha256: 'cd'.repeat(32),
}
const limits = { maxPages: 10, maxPixels: 10_000_000, dpi: 200 }
const words: PageText = { page: 1, angle: 0, words: [['harvest', 90, 1000, 2000, 3000, 400]] }

async function convert(bytes: Uint8Array, texts: ReadonlyMap<number, PageText> = new Map([[1, words]])): Promise<Uint8Array> {
  const path = join(folder, 'a.pdf')
  await writeFile(path, bytes)
  const opened = await openFile(fileSource(path), { limits, pdfium: loadPdfium, dropPdfium: () => {} } as never)
  return opened.pdfa!(texts, info)
}

const reasonOf = (bytes: Uint8Array): Promise<string> =>
  convert(bytes).then(
    () => 'converted',
    ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
  )

const jpeg = await sharp({ create: { width: 200, height: 300, channels: 3, background: '#888888' } })
  .grayscale()
  .jpeg()
  .toBuffer()
const scan = (): Promise<PDFDocument> => PDFDocument.load(scannedPdf([{ jpeg, width: 200, height: 300, dpi: 72 }]))
const imageOf = async (pdf: Uint8Array): Promise<PDFRawStream | undefined> =>
  (await PDFDocument.load(pdf, { updateMetadata: false })).context
    .enumerateIndirectObjects()
    .map(([, object]) => object)
    .find(
      (object): object is PDFRawStream => object instanceof PDFRawStream && object.dict.get(PDFName.of('Subtype')) === PDFName.of('Image'),
    )

async function placesOf(pdf: Uint8Array): Promise<{ str: string; transform: number[] }[]> {
  const page = await (await getDocument({ data: pdf.slice(), verbosity: 0 }).promise).getPage(1)
  return (await page.getTextContent()).items.filter((item) => 'str' in item && item.str !== '') as { str: string; transform: number[] }[]
}

test('a scan keeps its image, and has its words at their places', async () => {
  const pdf = await convert(await (await scan()).save())
  expect(Buffer.from((await imageOf(pdf))!.contents).equals(jpeg)).toBe(true)
  const [word] = await placesOf(pdf)
  expect(word?.str).toBe('harvest')
  expect([word!.transform[4]! / 200, word!.transform[5]! / 300].map((part) => Number(part.toFixed(2)))).toEqual([0.1, 0.76])
})

test.each([
  [90, (x: number, y: number) => [1 - y, x]],
  [180, (x: number, y: number) => [1 - x, 1 - y]],
  [270, (x: number, y: number) => [y, 1 - x]],
])('words of a page that is turned by %i degrees lie where the page shows them', async (rotation, toPage) => {
  const document = await scan()
  document.getPage(0).setRotation(degrees(rotation))
  const [word] = await placesOf(await convert(await document.save()))
  // The baseline of the word begins at a tenth from the left and 0.76 from below.
  const [x, y] = toPage(0.1, 0.76)
  expect(word!.transform[4]! / 200).toBeCloseTo(x!, 2)
  expect(word!.transform[5]! / 300).toBeCloseTo(y!, 2)
})

test.each([
  ['larger than the page', [-50, -60, 400, 500], [0.1, 0.76]],
  ['a part of the page', [100, 0, 500, 150], [0.1 / 2 + 0.5, 0.76 / 2]],
] as const)('words of a page whose crop box is %s', async (_, [x, y, width, height], place) => {
  const document = await scan()
  document.getPage(0).setCropBox(x, y, width, height)
  const [word] = await placesOf(await convert(await document.save()))
  expect([word!.transform[4]! / 200, word!.transform[5]! / 300].map((part) => Number(part.toFixed(2)))).toEqual(place)
})

test('removes scripts, actions and foreign metadata; equal input gives equal bytes', async () => {
  const document = await scan()
  document.addJavaScript('a', 'app.alert(1)')
  document.catalog.set(PDFName.of('OpenAction'), document.context.obj({ S: 'JavaScript', JS: PDFString.of('app.alert(2)') }))
  document.setSubject('secret subject')
  const bytes = await document.save({ useObjectStreams: false })
  const pdf = await convert(bytes)
  expect(Buffer.from(await convert(bytes)).equals(pdf)).toBe(true)
  const { context, catalog } = await PDFDocument.load(pdf, { updateMetadata: false })
  const all = context
    .enumerateIndirectObjects()
    .map(([, object]) => object.toString())
    .join('\n')
  expect(all).not.toMatch(/JavaScript|app\.alert|Subject/)
  expect(catalog.has(PDFName.of('OpenAction'))).toBe(false)
})

async function cmykScan(): Promise<{ document: PDFDocument; image: PDFRawStream }> {
  const document = await scan()
  const image = document.context
    .enumerateIndirectObjects()
    .map(([, object]) => object)
    .find((object) => object instanceof PDFRawStream && object.dict.has(PDFName.of('Width'))) as PDFRawStream
  image.dict.set(PDFName.of('ColorSpace'), PDFName.of('DeviceCMYK'))
  image.updateContents(new Uint8Array(await sharp(jpeg).toColourspace('cmyk').jpeg().toBuffer()))
  return { document, image }
}

test.each([
  ['keeps its resolution', false, 200],
  ['with a mask, which may be sharper, gets 300 dpi', true, 833],
])('a scan that becomes a picture %s', async (_, hasMask, width) => {
  const { document, image } = await cmykScan()
  const { context } = document
  const mask = { Type: 'XObject', Subtype: 'Image', Width: 1, Height: 1, ColorSpace: 'DeviceGray', BitsPerComponent: 8 }
  if (hasMask) image.dict.set(PDFName.of('SMask'), context.register(context.stream(Uint8Array.of(200), mask)))
  expect(String((await imageOf(await convert(await document.save())))!.dict.get(PDFName.of('Width')))).toBe(`${width}`)
})

test('a scan in CMYK without a profile becomes a picture, with its words', async () => {
  const { document } = await cmykScan()
  const pdf = await convert(await document.save())
  expect(String((await imageOf(pdf))!.dict.get(PDFName.of('ColorSpace')))).not.toBe('/DeviceCMYK')
  expect((await placesOf(pdf))[0]?.str).toBe('harvest')
})

test('a scan that becomes a picture keeps the invisible text of another program', async () => {
  const document = await scan()
  const page = document.getPage(0)
  page.pushOperators(setTextRenderingMode(TextRenderingMode.Invisible))
  page.drawText('orchard', { x: 20, y: 200, size: 12, font: await document.embedFont(StandardFonts.Helvetica) })
  const [word] = await placesOf(await convert(await document.save(), new Map()))
  expect(word?.str).toBe('orchard')
  expect(word!.transform[4]! / 200).toBeCloseTo(0.1, 1)
})

test('a picture of a scan shows its notes and keeps its links only; attached files are refused', async () => {
  const document = await scan()
  const page = document.getPage(0)
  const annotate = (entries: Record<string, unknown>) =>
    page.node.addAnnot(document.context.register(document.context.obj({ Type: 'Annot', Rect: [10, 10, 50, 50], ...entries } as never)))
  annotate({ Subtype: 'Link', Border: [0, 0, 0], A: { S: 'URI', URI: PDFString.of('https://example.org') } })
  annotate({ Subtype: 'Text', Contents: PDFString.of('note') })
  const { node } = (await PDFDocument.load(await convert(await document.save()), { updateMetadata: false })).getPage(0)
  expect(Array.from(node.Annots()!.asArray(), (_, i) => String(node.Annots()!.lookup(i, PDFDict).get(PDFName.of('Subtype'))))).toEqual([
    '/Link',
  ])
  annotate({ Subtype: 'FileAttachment', FS: { Type: 'Filespec', F: PDFString.of('a.txt') } })
  expect(await reasonOf(await document.save())).toContain('page 1 has annotations with files')
})

test('a page without fonts and images stays as it is', async () => {
  const document = await PDFDocument.create()
  document.addPage([200, 300]).drawRectangle({ x: 10, y: 10, width: 50, height: 50, color: rgb(1, 0, 0) })
  expect(await reasonOf(await document.save())).toBe('converted')
})

test('NOT_CONVERTIBLE, with the reason', async () => {
  expect(await reasonOf(textPdf([['text']]))).toBe(
    'NOT_CONVERTIBLE: The PDF cannot be converted to PDF/A: page 1: the font Helvetica is not embedded.',
  )
  const attached = await scan()
  await attached.attach(Buffer.from('x'), 'x.txt')
  expect(await reasonOf(await attached.save())).toContain('it has attached files')
  const encrypted = await scan()
  encrypted.encrypt({ userPassword: '', ownerPassword: 'owner', permissions: {} })
  expect(await reasonOf(await encrypted.save())).toContain('it is encrypted')
  const cmyk = await scan()
  const contents = cmyk.context.obj([cmyk.context.register(cmyk.context.stream('0 0 0 1 k 0 0 10 10 re f'))])
  cmyk.getPage(0).node.set(PDFName.of('Contents'), contents)
  expect(await reasonOf(await cmyk.save())).toContain('page 1 uses CMYK colours without a profile')
  const crafted = await scan()
  crafted
    .getPage(0)
    .node.set(PDFName.of('Contents'), crafted.context.obj([crafted.context.register(crafted.context.stream('q '.repeat(100_000)))]))
  expect(await reasonOf(await crafted.save())).toContain('nested graphics states')
})
