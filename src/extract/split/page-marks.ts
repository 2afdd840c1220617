/** Marks on pages at which a file is split into documents: blank pages, separator sheets and archive serial numbers. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { prepareZXingModule, type ReaderOptions, readBarcodes } from 'zxing-wasm/reader'
import type { GrayImage } from '../../ocr/image/illumination.ts'
import { transformGray } from '../../ocr/image/transform-gray.ts'
import type { PageMark } from '../../ports/document-reader.ts'
import type { OpenedDocument } from '../opened-document.ts'

/** Texts on separator sheets, without spaces and hyphens. */
const separatorTexts = new Set(['DMSSPLIT', 'PATCHT'])
const serialNumber = /^ASN[ -]?(\d{1,9})$/i

/** Longer side of the picture in which blank pages are recognized: A4 at 100 dpi, which removes dust and keeps letters. */
const blankSide = 1170
/** Longer side above which barcodes become no easier to read. */
const barcodeSide = 2400
/** Share of the page at each edge that may have shadows and punch holes. */
const edgeShare = 0.05
/** A pixel is ink if it is darker than this share of the paper. Print that shows through from the other side is brighter. */
const inkRatio = 0.6
/** Share of ink pixels up to which a page is blank: half a dozen letters have more. */
const maxInkShare = 0.00006

/** Returns the mark of a page, counted from 1. Reads barcodes if `withBarcodes`. */
export async function markPage(
  opened: OpenedDocument,
  page: number,
  { withBarcodes }: { readonly withBarcodes: boolean },
): Promise<PageMark> {
  const picture = await opened.picture(page)
  const none = { page, isSeparator: false, serialNumber: null }
  if (picture === null) return { ...none, isBlank: false }
  // Scanners read dust as punctuation, and write it as invisible text.
  const isBlank = !/[\p{L}\p{N}]/u.test(picture.text) && isBlankPicture(await shrink(picture, blankSide))
  if (isBlank || !withBarcodes) return { ...none, isBlank }
  const texts = await readBarcodeTexts(await shrink(picture, barcodeSide))
  const digits = texts.map((text) => serialNumber.exec(text)?.[1]).find((found) => found !== undefined)
  return {
    page,
    isBlank,
    isSeparator: texts.some((text) => separatorTexts.has(text.replace(/[\s-]/g, '').toUpperCase())),
    serialNumber: digits === undefined ? null : Number(digits),
  }
}

const shrink = async (image: GrayImage, longSide: number): Promise<GrayImage> =>
  Math.max(image.width, image.height) <= longSide
    ? image
    : transformGray(image, (pixels) => pixels.resize({ width: longSide, height: longSide, fit: 'inside' }))

/** Returns whether the middle of a page has no ink. The brightness of the paper is the median, because sheets may be coloured. */
function isBlankPicture({ gray, width, height }: GrayImage): boolean {
  const [marginX, marginY] = [Math.round(width * edgeShare), Math.round(height * edgeShare)]
  const histogram = new Uint32Array(256)
  for (let y = marginY; y < height - marginY; y++)
    for (let at = y * width + marginX; at < (y + 1) * width - marginX; at++) histogram[gray[at]!]!++
  const count = (width - 2 * marginX) * (height - 2 * marginY)
  let paper = 255
  for (let above = histogram[255]!; paper > 0 && above < count / 2; above += histogram[paper]!) paper--
  let ink = 0
  for (let value = 0; value < paper * inkRatio; value++) ink += histogram[value]!
  return ink <= count * maxInkShare
}

const options: ReaderOptions = { formats: ['Code128', 'Code39', 'QRCode', 'DataMatrix'], tryHarder: true, maxNumberOfSymbols: 16 }

/** Loads the WebAssembly module from its package; the default would fetch it. */
function prepare(): void {
  const wasmBinary = readFileSync(createRequire(import.meta.url).resolve('zxing-wasm/reader/zxing_reader.wasm'))
  prepareZXingModule({ overrides: { wasmBinary: wasmBinary.buffer as ArrayBuffer } })
}
let isPrepared = false

/** Returns the texts of the barcodes in a picture, at most 16. */
async function readBarcodeTexts({ gray, width, height }: GrayImage): Promise<string[]> {
  if (!isPrepared) prepare()
  isPrepared = true
  const pixels = new Uint32Array(gray.length)
  for (let at = 0; at < gray.length; at++) pixels[at] = 0xff000000 + gray[at]! * 0x010101
  const image = { data: new Uint8ClampedArray(pixels.buffer), width, height, colorSpace: 'srgb' } as ImageData
  return (await readBarcodes(image, options)).map(({ text }) => text.trim())
}
