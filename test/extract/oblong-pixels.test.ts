/** Faxes, whose pixels are higher than wide: a TIFF of 204 × 98 dpi has half of the rows of a picture with square pixels. */
import { PDFDocument } from '@cantoo/pdf-lib'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { readTools } from '../support/read-bytes.ts'

const mmPerInch = 25.4
const [width, height] = [408, 588]
const letter = sharp({ create: { width: 40, height: 40, channels: 3, background: '#000000' } }).png()

/** Returns a fax of 2 × 6 inches with a square of 0.2 inches. */
async function fax(yDpi: number, orientation?: number): Promise<Buffer> {
  const page = sharp({ create: { width, height: (height * 204) / 98, channels: 3, background: '#ffffff' } })
  const drawn = await page
    .composite([{ input: await letter.toBuffer(), left: 100, top: 100 }])
    .png()
    .toBuffer()
  return sharp(drawn)
    .resize({ width, height: Math.round((height * yDpi) / 98), fit: 'fill' })
    .withMetadata(orientation ? { orientation } : {})
    .tiff({ xres: 204 / mmPerInch, yres: yDpi / mmPerInch })
    .toBuffer()
}

const open = async (bytes: Uint8Array) => openFile(bytesSource(bytes, 'fax.tif'), readTools)

test.each([98, 391])('a fax of 204 × %i dpi is read and shown with square pixels', async (yDpi) => {
  const opened = await open(await fax(yDpi))
  const size = { width, height: 1224 }
  expect((await opened.contents()).pages).toMatchObject([{ page: 1, needsOcr: true, ...size }])
  const picture = (await opened.picture(1))!
  expect(picture).toMatchObject({ ...size, dpi: 204, page: size })
  const dark = Array.from(picture.gray, (value, at) => (value < 128 ? at : -1)).filter((at) => at >= 0)
  const rows = new Set(dark.map((at) => Math.floor(at / width)))
  expect(rows.size).toBeGreaterThan(36)
  expect(rows.size).toBeLessThan(44)
  const small = await sharp((await opened.thumbnail({ width: 200, height: 300 }, 'image/webp'))!).metadata()
  expect([small.width, small.height]).toEqual([100, 300])
  const info = { title: 'fax', author: null, created: '2024-02-03T04:05:06Z', modified: '2024-02-03T04:05:06Z', language: null }
  const pdf = await opened.pdfa!(new Map(), { ...info, producer: 'dms', sha256: 'ab'.repeat(32) })
  expect((await PDFDocument.load(pdf)).getPage(0).getSize()).toEqual({ width: 144, height: 432 })
})

test('a fax that lies on its side is turned first', async () => {
  expect((await open(await fax(98, 6)).then((opened) => opened.picture(1)))!).toMatchObject({ width: 1224, height: width })
})

test('resolutions that no fax has are errors', async () => {
  expect((await (await open(await fax(20))).contents()).pages).toMatchObject([{ width, height: 120 }])
})
