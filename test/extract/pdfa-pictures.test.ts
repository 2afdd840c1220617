/** PDF/A of pictures. `npm run test:pdfa` validates them with veraPDF. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PDFDict, PDFDocument, PDFName, PDFRawStream } from '@cantoo/pdf-lib'
import { getDocument } from 'pdfjs-dist/legacy/build/pdf.mjs'
import sharp, { type Sharp } from 'sharp'
import { afterAll, describe, expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { fileSource } from '../../src/extract/opened-document.ts'
import { loadPdfium } from '../../src/extract/readers/pdf/pdfium.ts'
import type { PageText, RenditionInfo } from '../../src/ports/document-reader.ts'

const folder = await mkdtemp(join(tmpdir(), 'dms-pdfa-'))
afterAll(() => rm(folder, { recursive: true, force: true }))

const info: RenditionInfo = {
  ...{ title: 'Invoice <1> & more', author: 'Ada', created: '2024-02-03T04:05:06.789Z', modified: '2024-03-04T05:06:07Z' },
  ...{ language: 'de', producer: 'dms 0', sha256: 'ab'.repeat(32) },
}
const limits = { maxPages: 10, maxPixels: 10_000_000, dpi: 200 }
const tools = { limits, pdfium: loadPdfium, dropPdfium: () => {} }

async function convert(name: string, bytes: Uint8Array, texts: readonly PageText[] = []): Promise<Uint8Array> {
  const path = join(folder, name)
  await writeFile(path, bytes)
  const opened = await openFile(fileSource(path), tools as never)
  return opened.pdfa!(new Map(texts.map((text) => [text.page, text])), info)
}

/** A picture of 40 × 20 pixels at 144 dpi: red above left, green above right, blue below left, white below right. */
const colours = [0xff0000, 0x00ff00, 0x0000ff, 0xffffff].map((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255])
function quadrants(): Sharp {
  const pixels = Buffer.alloc(40 * 20 * 3)
  for (let at = 0; at < 800; at++) pixels.set(colours[(at % 40 < 20 ? 0 : 1) + (at < 400 ? 0 : 2)]!, at * 3)
  return sharp(pixels, { raw: { width: 40, height: 20, channels: 3 } })
}

const imagesOf = async (pdf: Uint8Array): Promise<PDFRawStream[]> =>
  (await PDFDocument.load(pdf, { updateMetadata: false })).context
    .enumerateIndirectObjects()
    .map(([, object]) => object)
    .filter(
      (object): object is PDFRawStream => object instanceof PDFRawStream && object.dict.get(PDFName.of('Subtype')) === PDFName.of('Image'),
    )

async function render(pdf: Uint8Array, width: number, height: number) {
  const page = (await loadPdfium())(pdf).page(0)
  const pixels = page.render(width, height, 'rgba')
  const at = (x: number, y: number): number[] => [...pixels.subarray((y * width + x) * 4, (y * width + x) * 4 + 3)]
  return { page, corners: [at(2, 2), at(width - 3, 2), at(2, height - 3), at(width - 3, height - 3)] }
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'a JPEG passes through unchanged, with EXIF orientation %i applied by the page',
  async (orientation) => {
    const jpeg = await quadrants().jpeg({ quality: 100, chromaSubsampling: '4:4:4' }).withMetadata({ orientation, density: 144 }).toBuffer()
    const pdf = await convert(`o${orientation}.jpg`, jpeg)
    const [image] = await imagesOf(pdf)
    expect(Buffer.from(image!.contents).equals(jpeg)).toBe(true)
    const upright = await sharp(jpeg, { autoOrient: true }).raw().toBuffer({ resolveWithObject: true })
    const { width, height } = upright.info
    const { page, corners } = await render(pdf, width, height)
    expect([page.width, page.height]).toEqual([width / 2, height / 2])
    const colourAt = (x: number, y: number) => [...upright.data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)]
    const expected = [colourAt(2, 2), colourAt(width - 3, 2), colourAt(2, height - 3), colourAt(width - 3, height - 3)]
    const differences = corners.flat().map((value, i) => Math.abs(value - expected.flat()[i]!))
    expect(Math.max(...differences)).toBeLessThan(30)
  },
)

const stripes = (): Sharp =>
  sharp(Buffer.from(Array.from({ length: 64 * 64 }, (_, i) => ((i >> 3) % 2) * 255)), {
    raw: { width: 64, height: 64, channels: 1 },
  }).toColourspace('b-w')

describe('encodings', () => {
  test.each([
    ['a PNG', () => quadrants().png().toBuffer(), 'a.png', '/FlateDecode'],
    ['a PNG with a palette', () => quadrants().png({ palette: true }).toBuffer(), 'p.png', '/FlateDecode'],
    ['a PNG with alpha', () => quadrants().ensureAlpha(0.5).png().toBuffer(), 'alpha.png', '/FlateDecode'],
    ['a bilevel TIFF', () => stripes().tiff({ compression: 'ccittfax4', bitdepth: 1 }).toBuffer(), 'g4.tif', '/JBIG2Decode'],
    ['a colour TIFF', () => quadrants().tiff({ compression: 'lzw' }).toBuffer(), 'lzw.tif', '/FlateDecode'],
    ['a CMYK JPEG', () => quadrants().toColourspace('cmyk').jpeg().toBuffer(), 'cmyk.jpg', '/DCTDecode'],
    ['a WebP', () => quadrants().webp().toBuffer(), 'a.webp', '/DCTDecode'],
  ])('%s looks the same, without loss where it had none', async (_, make, name, filter) => {
    const bytes = await make()
    const pdf = await convert(name, bytes)
    const [image] = await imagesOf(pdf)
    expect(String(image!.dict.get(PDFName.of('Filter')))).toBe(filter)
    const { data, info } = await sharp(bytes)
      .flatten({ background: '#ffffff' })
      .toColourspace('srgb')
      .raw()
      .toBuffer({ resolveWithObject: true })
    const { corners } = await render(pdf, info.width, info.height)
    const pixel = (x: number, y: number) =>
      [0, 1, 2].map((c) => data[(y * info.width + x) * info.channels + Math.min(c, info.channels - 1)]!)
    const [right, bottom] = [info.width - 3, info.height - 3]
    const expected = [pixel(2, 2), pixel(right, 2), pixel(2, bottom), pixel(right, bottom)]
    const differences = corners.flat().map((value, i) => Math.abs(value - expected.flat()[i]!))
    expect(Math.max(...differences)).toBeLessThan(filter === '/DCTDecode' ? 90 : 3)
  })
})

test.each([1, 7, 203, 1024])('a bilevel page of %i pixels in width is the same in each pixel', async (width) => {
  const height = 157
  // Noise, lines, equal rows and empty rows.
  const isBlack = (x: number, y: number): boolean =>
    y < 50 ? Math.imul((x + 1) * 7919, (y + 3) * 104_729) % 7 === 0 : y < 100 ? x % 9 === y % 4 : y < 140 && x % 5 === 0
  const pixels = Buffer.from(Array.from({ length: width * height }, (_, at) => (isBlack(at % width, Math.floor(at / width)) ? 0 : 255)))
  const picture = sharp(pixels, { raw: { width, height, channels: 1 } }).toColourspace('b-w')
  const pdf = await convert(`w${width}.tif`, await picture.tiff({ compression: 'ccittfax4', bitdepth: 1 }).toBuffer())
  const rendered = (await loadPdfium())(pdf).page(0).render(width, height, 'rgba')
  expect(Buffer.from(pixels.map((_, at) => rendered[at * 4]!)).equals(pixels)).toBe(true)
})

test('a TIFF whose resolution has no unit is as large as one without a resolution', async () => {
  const tiff = await stripes().tiff({ compression: 'ccittfax4', bitdepth: 1, resolutionUnit: 'inch', xres: 12, yres: 12 }).toBuffer()
  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.length)
  const isLittle = tiff[0] === 0x49
  const directory = view.getUint32(4, isLittle)
  const entries = Array.from({ length: view.getUint16(directory, isLittle) }, (_, i) => directory + 2 + i * 12)
  // Tag ResolutionUnit: 1 is none.
  view.setUint16(entries.find((at) => view.getUint16(at, isLittle) === 296)! + 8, 1, isLittle)
  const page = (await PDFDocument.load(await convert('fax.tif', tiff))).getPage(0)
  expect([page.getWidth(), page.getHeight()]).toEqual([64, 64])
})

const words: PageText = {
  ...{ page: 1, angle: 0 },
  words: [
    ['Привет', 90, 1000, 1000, 2000, 500],
    ['world', 80, 3500, 1000, 2000, 500],
    ['שלום', 80, 6000, 3000, 1000, 500],
    ['𝒳\u0007y', 80, 1000, 5000, 1000, 500],
  ],
}

test('words are text at their places, in any script', async () => {
  const pdf = await convert(
    'w.png',
    await sharp({ create: { width: 1000, height: 1000, channels: 3, background: 'white' } })
      .png()
      .toBuffer(),
    [words],
  )
  const page = await (await getDocument({ data: pdf.slice(), verbosity: 0 }).promise).getPage(1)
  const { items } = await page.getTextContent()
  const [, , width, height] = page.view as [number, number, number, number]
  const found = items.filter((item) => 'str' in item && item.str.trim() !== '') as { str: string; transform: number[]; width: number }[]
  expect(
    found
      .map(({ str }) => str)
      .join(' ')
      .replace(/\s+/g, ' '),
  ).toContain('Привет world שלום 𝒳y')
  expect(found[0]!.transform[4]! / width).toBeCloseTo(0.1, 2)
  expect(1 - found[0]!.transform[5]! / height).toBeCloseTo(0.15, 2)
})

test('lines of a skewed page are turned by its angle', async () => {
  const pdf = await convert('s.png', await quadrants().png().toBuffer(), [{ ...words, angle: 30 }])
  const page = await (await getDocument({ data: pdf.slice(), verbosity: 0 }).promise).getPage(1)
  const { items } = await page.getTextContent()
  const [a, b] = (items[0] as { transform: number[] }).transform as [number, number]
  // Clockwise: downwards, where the y axis of PDF points up.
  expect((Math.atan2(b, a) * 180) / Math.PI).toBeCloseTo(-30, 1)
})

test('metadata: XMP and document information agree, and equal input gives equal bytes', async () => {
  const png = await quadrants().png().toBuffer()
  const pdf = await convert('m.png', png, [words])
  expect(Buffer.from(await convert('m.png', png, [words])).equals(pdf)).toBe(true)
  const { context, catalog } = await PDFDocument.load(pdf, { updateMetadata: false })
  const xmp = Buffer.from((catalog.lookup(PDFName.of('Metadata')) as PDFRawStream).contents).toString()
  expect(xmp).toContain('<pdfaid:part>2</pdfaid:part><pdfaid:conformance>U</pdfaid:conformance>')
  expect(xmp).toContain('Invoice &lt;1&gt; &amp; more')
  expect(xmp).toContain('<xmp:CreateDate>2024-02-03T04:05:06Z</xmp:CreateDate>')
  const document = await PDFDocument.load(pdf, { updateMetadata: false })
  expect([document.getTitle(), document.getAuthor(), document.getCreationDate()?.toISOString()]).toEqual([
    info.title,
    'Ada',
    '2024-02-03T04:05:06.000Z',
  ])
  expect(String(context.trailerInfo.ID)).toContain('abab')
  expect(catalog.lookup(PDFName.of('OutputIntents'))).toBeDefined()
  expect(context.lookup(context.trailerInfo.Info, PDFDict)).toBeDefined()
})

test('every page of a TIFF is a page; more pixels than allowed fail FILE_TOO_COMPLEX', async () => {
  const raw = { width: 40, height: 60, channels: 3, pageHeight: 20 } as const
  const tiff = await sharp(Buffer.alloc(40 * 60 * 3, 99), { raw })
    .tiff({ compression: 'lzw' })
    .toBuffer()
  expect((await PDFDocument.load(await convert('t.tif', tiff))).getPageCount()).toBe(3)
  const large = await sharp({ create: { width: 4000, height: 4000, channels: 3, background: 'red' } })
    .png()
    .toBuffer()
  await expect(convert('large.png', large)).rejects.toMatchObject({ code: 'FILE_TOO_COMPLEX' })
})
