/** Reader of images: one page each, several in a TIFF. */
import sharp, { type Metadata, type Sharp } from 'sharp'
import { type OutlinePage, ReadFailure } from '../../ports/document-reader.ts'
import {
  type Box,
  type ByteSource,
  type Contents,
  knownDensity,
  type Limits,
  type OpenedDocument,
  type Picture,
} from '../opened-document.ts'
import { decodeBmp } from './bmp.ts'
import { readExifTime } from './exif.ts'
import type { DecodedImage } from './magick.ts'
import { readTiffPages, type TiffPage } from './tiff.ts'

/** Minimum side of an image for OCR. */
const minSidePixels = 8

/** Converts to 8-bit gray on white, one byte per pixel. */
export async function toGray(image: Sharp): Promise<{ gray: Uint8Array; width: number; height: number }> {
  const flat = image.flatten({ background: '#ffffff' }).grayscale().toColourspace('b-w')
  const { data, info } = await flat.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true })
  return { gray: info.channels === 1 ? data : data.filter((_, i) => i % info.channels === 0), width: info.width, height: info.height }
}

/** Encodes an image inside the box, or with the size of the box if `isExact`, on white, without metadata. */
export const encodeThumbnail = async (
  image: Sharp,
  { width, height }: Box,
  type: 'image/webp' | 'image/jpeg',
  isExact = false,
): Promise<Uint8Array> => {
  const small = image
    .resize({ width, height, fit: isExact ? 'fill' : 'inside', withoutEnlargement: !isExact })
    .flatten({ background: '#ffffff' })
  return type === 'image/webp' ? small.webp({ quality: 80 }).toBuffer() : small.jpeg({ quality: 80 }).toBuffer()
}

/** Opens an image. Its methods throw ReadFailure FILE_CORRUPT, FILE_TOO_COMPLEX. */
export function openImage(source: ByteSource, mimeType: string, limits: Limits): OpenedDocument {
  let image: Promise<{ open(page?: number): Promise<Sharp>; metadata: Metadata; tiffPages?: readonly TiffPage[] | null }> | undefined

  /** Reads the header only. Pixels are decoded after their number was checked. */
  async function load() {
    const bytes = source.read()
    const raw = await decodeOther(bytes)
    if (raw) {
      const open = async (): Promise<Sharp> => sharp(raw.pixels, { raw: { width: raw.width, height: raw.height, channels: 3 } })
      return {
        open,
        metadata: { ...(await (await open()).metadata()), format: formatOf(mimeType), ...(raw.exif && { exif: Buffer.from(raw.exif) }) },
      }
    }
    const metadata = await sharp(bytes, { failOn: 'none', limitInputPixels: false }).metadata()
    const tiffPages = metadata.format === 'tiff' ? readTiffPages(bytes) : null
    const options = { failOn: 'none', limitInputPixels: limits.maxPixels, autoOrient: true } as const
    const isScaled = scaledDepths.has(metadata.depth ?? '')
    const open = async (page = 0): Promise<Sharp> => {
      const stored = (): Sharp => sharp(bytes, { ...options, page })
      const picture = isScaled ? await scaleNumbers(stored) : stored()
      const { width, height, isOblong } = tiffPages?.[page] ?? {}
      return isOblong ? picture.resize({ width, height, fit: 'fill' }) : picture
    }
    return { open, metadata, tiffPages }
  }

  /** Decodes a format that sharp does not read. Returns null for the others. */
  async function decodeOther(bytes: Uint8Array): Promise<DecodedImage | null> {
    if (mimeType === 'image/bmp') return { ...decodeBmp(bytes, limits.maxPixels), exif: null }
    // Imported on demand: the module takes 100 MB.
    return isSharpType(mimeType) ? null : (await import('./magick.ts')).decodeByMagick(bytes, mimeType, limits.maxPixels)
  }
  const getImage = () => {
    image ??= load()
    return image.catch(throwReadFailure)
  }

  function assertPixelLimit(size: Box): Box {
    if (size.width * size.height > limits.maxPixels)
      throw new ReadFailure('FILE_TOO_COMPLEX', `The picture has ${size.width} × ${size.height} pixels.`)
    return size
  }

  async function sizeOf(page: number): Promise<Box> {
    const { open, metadata, tiffPages } = await getImage()
    const tiffPage = tiffPages?.[page]
    if (tiffPage?.isOblong) return assertPixelLimit({ width: tiffPage.width, height: tiffPage.height })
    const { autoOrient, width, height } = page === 0 ? metadata : await (await open(page)).metadata()
    return assertPixelLimit({ width: autoOrient?.width ?? width, height: autoOrient?.height ?? height })
  }

  async function readSizes(): Promise<{ count: number; sizes: Box[] }> {
    const { metadata, tiffPages } = await getImage()
    if (tiffPages) {
      const sizes = tiffPages.slice(0, limits.maxPages).map(({ width, height }) => assertPixelLimit({ width, height }))
      return { count: tiffPages.length, sizes }
    }
    const sizes: Box[] = []
    const count = pageCount(metadata)
    while (sizes.length < Math.min(count, limits.maxPages)) sizes.push(await sizeOf(sizes.length).catch(throwReadFailure))
    return { count, sizes }
  }

  return {
    async contents(): Promise<Contents> {
      const { count, sizes } = await readSizes()
      const { metadata, tiffPages } = await getImage()
      const { width = null, height = null } = sizes[0] ?? {}
      const isCopy = (size: Box, i: number): boolean => tiffPages?.[i]?.isReduced === true && size.width < (width ?? 0)
      const pages = sizes.map(
        (size, i): OutlinePage => ({ page: i + 1, text: '', needsOcr: isReadable(size) && !isCopy(size, i), ...size }),
      )
      const created = readTimeTaken(metadata, source)
      const skipped = count - sizes.length
      return { metadata: { width, height, page_count: count, created, ...(skipped > 0 && { pages_without_ocr: skipped }) }, pages }
    },

    async picture(number): Promise<Picture | null> {
      const { open, metadata } = await getImage()
      if (number > pageCount(metadata)) return null
      const size = await sizeOf(number - 1).catch(throwReadFailure)
      const gray = await open(number - 1)
        .then(toGray)
        .catch(throwReadFailure)
      return { ...gray, dpi: knownDensity(metadata), text: '', isTrusted: true, page: size }
    },

    async thumbnail(box, type, number = 1) {
      const { open, metadata, tiffPages } = await getImage()
      if (number > pageCount(metadata)) return null
      const size = await sizeOf(number - 1).catch(throwReadFailure)
      const isOblong = tiffPages?.[number - 1]?.isOblong
      const inside = isOblong ? fitInside(size, box) : box
      return open(number - 1)
        .then((picture) => encodeThumbnail(picture, inside, type, isOblong))
        .catch(throwReadFailure)
    },

    async pdfa(texts, info) {
      const { open, metadata } = await getImage()
      const count = pageCount(metadata)
      for (let page = 0; page < count; page++) await sizeOf(page).catch(throwReadFailure)
      const { picturesToPdf } = await import('../pdfa/pictures-to-pdf.ts')
      return picturesToPdf({ bytes: source.read(), metadata, count, open }, texts, info).catch(throwReadFailure)
    },

    ...(mimeType === 'image/tiff' && {
      copyPages: async (pages: readonly number[]) => (await import('../split/copy-tiff-pages.ts')).copyTiffPages(source.read(), pages),
    }),

    close() {
      image = undefined
    },
  }
}

/** Numbers of a TIFF that sharp cuts off instead of scaling them: those of 32 bits and more, and those with a sign. */
const scaledDepths: ReadonlySet<string> = new Set(['float', 'double', 'uint', 'int', 'short', 'char'])

/**
 * Returns a picture with 8-bit numbers, from one whose numbers for black and white are 0 and 1, 0 and 255, or the extremes. Other operations of sharp
 * cut off the fractions before they scale.
 */
async function scaleNumbers(open: () => Sharp): Promise<Sharp> {
  const { channels } = await open().stats()
  const least = Math.min(...channels.map(({ min }) => min))
  // Maxima from 2³¹ overflow, and are then below the minima.
  const most = Math.max(...channels.map(({ min, max }) => (max < min ? 0xffffffff : max)))
  const usual = { black: 0, white: most > 1 ? 255 : 1 }
  const { black, white } = least < 0 || most > 255 ? { black: least, white: Math.max(most, least + 1) } : usual
  const factor = 255 / (white - black)
  const { data, info } = await open()
    .linear(factor, -black * factor)
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
  return sharp(data, { raw: info })
}

/** Returns the largest size inside the box with the proportions of the page, at most its own. */
function fitInside({ width, height }: Box, box: Box): Box {
  const scale = Math.min(1, box.width / width, box.height / height)
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) }
}

const sharpTypes = ['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif', 'svg+xml']
const isSharpType = (mimeType: string): boolean => sharpTypes.includes(mimeType.replace('image/', ''))

/** Returns the format of a picture that sharp does not read, by which a PDF/A compresses its pixels. */
function formatOf(mimeType: string): NonNullable<Metadata['format']> {
  if (mimeType.startsWith('image/hei')) return 'heif'
  if (/jp[2xm]$|j2c$/.test(mimeType)) return 'jp2'
  return mimeType === 'image/jxl' ? 'jxl' : 'raw'
}

const isReadable = ({ width, height }: Box): boolean => Math.min(width, height) >= minSidePixels

/** Returns the number of pages. The frames of an animation are one page. */
const pageCount = ({ format, pages = 1 }: Metadata): number => (format === 'tiff' ? pages : 1)

const readTimeTaken = ({ exif, format }: Metadata, source: ByteSource): string | undefined =>
  exif ? readExifTime(exif) : format === 'tiff' ? readExifTime(source.read()) : undefined

function throwReadFailure(problem: unknown): never {
  if (problem instanceof ReadFailure) throw problem
  const message = problem instanceof Error ? problem.message : String(problem)
  if (/pixel limit/i.test(message)) throw new ReadFailure('FILE_TOO_COMPLEX', 'The picture has more pixels than allowed.')
  throw new ReadFailure('FILE_CORRUPT', `The picture cannot be decoded: ${message.split('\n')[0]}`)
}
