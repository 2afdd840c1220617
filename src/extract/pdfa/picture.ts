/** Pictures as image objects of a PDF. JPEG and PNG data pass through unchanged, black and white becomes JBIG2. */
import { crc32 } from 'node:zlib'
import { PDFHexString, PDFName, PDFRawStream, type PDFRef } from '@cantoo/pdf-lib'
import sharp, { type Metadata, type Sharp } from 'sharp'
import { viewOf } from '../bytes.ts'
import { findJpegFrame } from '../readers/jpeg.ts'
import { encodeJbig2 } from './jbig2.ts'
import { deflated, type PdfContext, type PdfDictionary } from './streams.ts'

/** Quality of JPEGs made from pictures that are compressed with loss already. */
const jpegQuality = 88

export interface EmbeddedPicture {
  readonly image: PDFRef
  /** EXIF orientation that the page applies, 1 to 8. */
  readonly orientation: number
  /** size in pixels before the orientation */
  readonly width: number
  readonly height: number
}

/** Adds a picture. `open` returns the page of the file with its pixels turned upright. */
export async function embedPicture(
  context: PdfContext,
  bytes: Uint8Array,
  metadata: Metadata,
  open: () => Sharp,
): Promise<EmbeddedPicture> {
  const orientation = metadata.orientation ?? 1
  if (metadata.format === 'jpeg') {
    const frame = readJpegFrame(bytes)
    if (frame) {
      const space = colourSpace(context, frame.components, metadata.icc)
      if (space !== null) return { ...embedJpeg(context, bytes, frame, space), orientation }
    }
  }
  if (metadata.format === 'png' && orientation === 1) {
    const png = readPng(bytes)
    if (png && png.bitDepth === 1 && png.colourType === 0) return embedBilevel(context, open(), png.data.length)
    if (png) return { ...embedPng(context, png, metadata.icc), orientation }
  }
  if (metadata.bitsPerSample === 1 && metadata.space === 'b-w') return embedBilevel(context, open())
  return embedPixels(context, open(), metadata)
}

/** Adds pixels: as JPEG if their file was compressed with loss, else without loss. */
export async function embedPixels(
  context: PdfContext,
  image: Sharp,
  { format }: Partial<Pick<Metadata, 'format'>>,
): Promise<EmbeddedPicture> {
  const flat = image.flatten({ background: '#ffffff' }).toColourspace('srgb')
  const isLossy = ['jpeg', 'webp', 'heif', 'jp2', 'jxl'].includes(format ?? '')
  if (isLossy) {
    const jpeg = new Uint8Array(await flat.jpeg({ quality: jpegQuality }).toBuffer())
    const frame = readJpegFrame(jpeg)
    if (frame) return { ...embedJpeg(context, jpeg, frame, frame.components === 1 ? 'DeviceGray' : 'DeviceRGB'), orientation: 1 }
  }
  const png = readPng(new Uint8Array(await flat.png({ compressionLevel: 6, adaptiveFiltering: true }).toBuffer()))
  if (!png) throw new Error('the picture cannot be written as PNG')
  return { ...embedPng(context, png, undefined), orientation: 1 }
}

/** Adds a black and white picture as JBIG2. */
async function embedBilevel(context: PdfContext, image: Sharp, maxBytes = Number.POSITIVE_INFINITY): Promise<EmbeddedPicture> {
  const { data, info } = await image
    .flatten({ background: '#ffffff' })
    .toColourspace('b-w')
    .threshold(128)
    .raw()
    .toBuffer({ resolveWithObject: true })
  const { width, height, channels } = info
  const coded = encodeJbig2(data, width, height)
  if (coded.length > maxBytes) {
    const raw = { width, height, channels }
    return embedPixels(context, sharp(data, { raw, limitInputPixels: false }).toColourspace('b-w'), {})
  }
  const stream = context.stream(coded, { ...imageDictionary(width, height, 1), ColorSpace: 'DeviceGray', Filter: 'JBIG2Decode' })
  return { image: context.register(stream), orientation: 1, width, height }
}

const imageDictionary = (width: number, height: number, bits: number) =>
  ({ Type: 'XObject', Subtype: 'Image', Width: width, Height: height, BitsPerComponent: bits }) as const

interface JpegFrame {
  readonly width: number
  readonly height: number
  readonly components: number
}

/** Returns the frame header of a JPEG that PDF allows: baseline, extended or progressive Huffman, 8 bits; null for any other. */
function readJpegFrame(bytes: Uint8Array): JpegFrame | null {
  const at = findJpegFrame(bytes)
  if (at === null || bytes[at + 1]! > 0xc2 || bytes[at + 4] !== 8) return null
  const view = viewOf(bytes)
  const [height, width, components] = [view.getUint16(at + 5), view.getUint16(at + 7), bytes[at + 9]!]
  return width > 0 && height > 0 ? { width, height, components } : null
}

/** Returns the colour space of pictures with `components`; null if PDF/A does not allow it. */
function colourSpace(context: PdfContext, components: number, icc: Uint8Array | undefined): PdfDictionary[string] | null {
  const profile = icc && isUsableProfile(icc, components) ? context.register(deflated(context, icc, { N: components })) : null
  if (profile) return context.obj(['ICCBased', profile])
  return components === 1 ? 'DeviceGray' : components === 3 ? 'DeviceRGB' : null
}

/** Whether ICCBased colour spaces of PDF 1.7 may have this profile. Returns false for sRGB, which the output intent has already. */
function isUsableProfile(icc: Uint8Array, components: number): boolean {
  if (icc.length < 132) return false
  const text = (from: number, to: number): string => Buffer.from(icc.subarray(from, to)).toString('latin1')
  const space = { 1: 'GRAY', 3: 'RGB ', 4: 'CMYK' }[components]
  const isSrgb = text(0, icc.length).includes('sRGB') || Buffer.from(icc).includes(Buffer.from('sRGB', 'utf16le').swap16())
  const size = new DataView(icc.buffer, icc.byteOffset).getUint32(0)
  return (
    !isSrgb && text(36, 40) === 'acsp' && text(16, 20) === space && icc[8]! <= 4 && size === icc.length && usableClasses.has(text(12, 16))
  )
}

const usableClasses = new Set(['scnr', 'mntr', 'prtr', 'spac'])

function embedJpeg(context: PdfContext, bytes: Uint8Array, { width, height, components }: JpegFrame, space: PdfDictionary[string]) {
  // Programs of Adobe store CMYK inverted; all others followed.
  const inverted = components === 4 ? { Decode: [1, 0, 1, 0, 1, 0, 1, 0] } : {}
  const dictionary = { ...imageDictionary(width, height, 8), ColorSpace: space, ...inverted, Filter: 'DCTDecode' }
  return { image: context.register(context.stream(bytes, dictionary)), width, height }
}

interface Png {
  readonly width: number
  readonly height: number
  readonly bitDepth: number
  readonly colourType: number
  readonly palette: Uint8Array | null
  readonly data: Uint8Array<ArrayBuffer>
}

/** Reads a PNG whose data can be copied into a PDF. Returns null for interlaced, transparent or damaged images. */
function readPng(bytes: Uint8Array): Png | null {
  const view = viewOf(bytes)
  let header: Omit<Png, 'palette' | 'data'> | null = null
  let palette: Uint8Array | null = null
  const parts: Uint8Array[] = []
  for (let at = 8; at + 12 <= bytes.length; ) {
    const size = view.getUint32(at)
    if (at + 12 + size > bytes.length) return null
    const type = Buffer.from(bytes.subarray(at + 4, at + 8)).toString('latin1')
    const body = bytes.subarray(at + 8, at + 8 + size)
    if (crc32(bytes.subarray(at + 4, at + 8 + size)) !== view.getUint32(at + 8 + size)) return null
    if (type === 'IHDR') {
      const [bitDepth, colourType, , , interlace] = body.subarray(8, 13) as unknown as [number, number, number, number, number]
      if (interlace !== 0 || colourType > 3) return null
      header = { width: view.getUint32(at + 8), height: view.getUint32(at + 12), bitDepth, colourType }
    }
    if (type === 'tRNS') return null
    if (type === 'PLTE') palette = body
    if (type === 'IDAT') parts.push(body)
    if (type === 'IEND') break
    at += 12 + size
  }
  return header && parts.length > 0 ? { ...header, palette, data: new Uint8Array(Buffer.concat(parts)) } : null
}

function embedPng(context: PdfContext, { width, height, bitDepth, colourType, palette, data }: Png, icc: Uint8Array | undefined) {
  const components = colourType === 2 ? 3 : 1
  const space =
    colourType === 3
      ? context.obj([
          'Indexed',
          'DeviceRGB',
          Math.floor((palette?.length ?? 3) / 3) - 1,
          PDFHexString.of(Buffer.from(palette ?? []).toString('hex')),
        ])
      : colourSpace(context, components, icc)
  const dictionary = context.obj({
    ...imageDictionary(width, height, bitDepth),
    Filter: 'FlateDecode',
    DecodeParms: { Predictor: 15, Colors: components, BitsPerComponent: bitDepth, Columns: width },
  })
  dictionary.set(PDFName.of('ColorSpace'), typeof space === 'string' ? PDFName.of(space) : (space as never))
  return { image: context.register(PDFRawStream.of(dictionary, data)), width, height }
}
