/** Pictures: one page each, several in a TIFF. */
import sharp, { type Metadata, type Sharp } from 'sharp'
import { type OutlinePage, ReadFailure } from '../../ports/document-reader.ts'
import type { Box, ByteSource, Contents, Limits, OpenedDocument, Picture } from '../opened-document.ts'
import { decodeBmp } from './bmp.ts'
import { readTiffPages } from './tiff-pages.ts'

/** Smaller than any letter that can be read. */
const minSidePixels = 8
/** Densities that formats write when nobody knew one. */
const unknownDensities = new Set([0, 1, 25, 72, 96])

/** Reduces to 8-bit gray on white, one byte a pixel. */
export async function toGray(image: Sharp): Promise<{ gray: Uint8Array; width: number; height: number }> {
  const flat = image.flatten({ background: '#ffffff' }).grayscale().toColourspace('b-w')
  const { data, info } = await flat.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true })
  return { gray: info.channels === 1 ? data : data.filter((_, i) => i % info.channels === 0), width: info.width, height: info.height }
}

/** Encodes inside the box, on white, without what the original says of itself. */
export const encodeThumbnail = async (image: Sharp, { width, height }: Box, type: 'image/webp' | 'image/jpeg'): Promise<Uint8Array> => {
  const small = image.resize({ width, height, fit: 'inside', withoutEnlargement: true }).flatten({ background: '#ffffff' })
  return type === 'image/webp' ? small.webp({ quality: 80 }).toBuffer() : small.jpeg({ quality: 80 }).toBuffer()
}

/** Opens a picture. Its methods throw ReadFailure FILE_CORRUPT, FILE_TOO_COMPLEX. */
export function openImage(source: ByteSource, mimeType: string, limits: Limits): OpenedDocument {
  let image: Promise<{ open(page?: number): Sharp; metadata: Metadata }> | undefined

  /** The header decides whether the rest is decoded at all. */
  async function load() {
    const bytes = mimeType === 'image/bmp' ? null : source.read()
    const raw = bytes ? null : decodeBmp(source.read(), limits.maxPixels)
    const open = (page = 0): Sharp =>
      raw
        ? sharp(raw.pixels, { raw: { width: raw.width, height: raw.height, channels: 3 } })
        : sharp(bytes!, { page, failOn: 'none', limitInputPixels: limits.maxPixels, autoOrient: true })
    const metadata = await (bytes ? sharp(bytes, { failOn: 'none', limitInputPixels: false }) : open()).metadata()
    return { open, metadata }
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
    const { open, metadata } = await getImage()
    const { autoOrient, width, height } = page === 0 ? metadata : await open(page).metadata()
    return assertPixelLimit({ width: autoOrient?.width ?? width, height: autoOrient?.height ?? height })
  }

  async function sizes(): Promise<{ count: number; sizes: Box[] }> {
    const { metadata } = await getImage()
    const plain = metadata.format === 'tiff' ? readTiffPages(source.read(), limits.maxPages) : null
    if (plain) return { count: plain.count, sizes: plain.sizes.map(assertPixelLimit) }
    const found: Box[] = []
    const count = pageCount(metadata)
    while (found.length < Math.min(count, limits.maxPages)) found.push(await sizeOf(found.length).catch(throwReadFailure))
    return { count, sizes: found }
  }

  return {
    async contents(): Promise<Contents> {
      const { count, sizes: found } = await sizes()
      const pages = found.map((size, i): OutlinePage => ({ page: i + 1, text: '', needsOcr: isReadable(size), ...size }))
      const { width = null, height = null } = found[0] ?? {}
      const skipped = count - found.length
      return { metadata: { width, height, page_count: count, ...(skipped > 0 && { pages_without_ocr: skipped }) }, pages }
    },

    async picture(number): Promise<Picture | null> {
      const { open, metadata } = await getImage()
      if (number > pageCount(metadata)) return null
      const size = await sizeOf(number - 1).catch(throwReadFailure)
      const gray = await toGray(open(number - 1)).catch(throwReadFailure)
      const dpi = metadata.density && !unknownDensities.has(Math.round(metadata.density)) ? Math.round(metadata.density) : null
      return { ...gray, dpi, text: '', isTrusted: true, page: size }
    },

    async thumbnail(box, type) {
      const { open } = await getImage()
      await sizeOf(0).catch(throwReadFailure)
      return encodeThumbnail(open(), box, type).catch(throwReadFailure)
    },

    close() {
      image = undefined
    },
  }
}

const isReadable = ({ width, height }: Box): boolean => Math.min(width, height) >= minSidePixels

/** Frames of an animation are one picture; pages of a TIFF are pages. */
const pageCount = ({ format, pages = 1 }: Metadata): number => (format === 'tiff' ? pages : 1)

function throwReadFailure(problem: unknown): never {
  if (problem instanceof ReadFailure) throw problem
  const message = problem instanceof Error ? problem.message : String(problem)
  if (/pixel limit/i.test(message)) throw new ReadFailure('FILE_TOO_COMPLEX', 'The picture has more pixels than allowed.')
  throw new ReadFailure('FILE_CORRUPT', `The picture cannot be decoded: ${message.split('\n')[0]}`)
}
