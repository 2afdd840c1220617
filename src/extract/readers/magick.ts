/** Decoder of image formats that sharp does not read, by ImageMagick in WebAssembly. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  AlphaAction,
  ColorSpace,
  ImageMagick,
  initializeImageMagick,
  MagickColors,
  MagickFormat,
  MagickImageInfo,
  MagickReadSettings,
  ResourceLimits,
} from '@imagemagick/magick-wasm'
import { ReadFailure } from '../../ports/document-reader.ts'

/** Formats by MIME type. ImageMagick never chooses by content: some of its formats are scripts. */
const magickFormats: Readonly<Record<string, string>> = {
  'image/heic': MagickFormat.Heic,
  'image/heic-sequence': MagickFormat.Heic,
  'image/heif': MagickFormat.Heic,
  'image/heif-sequence': MagickFormat.Heic,
  'image/jp2': MagickFormat.Jp2,
  'image/jpx': MagickFormat.Jp2,
  'image/jpm': MagickFormat.Jp2,
  'image/j2c': MagickFormat.J2c,
  'image/jxl': MagickFormat.Jxl,
  'image/vnd.adobe.photoshop': MagickFormat.Psd,
  'image/x-portable-anymap': MagickFormat.Pnm,
}

/** Memory for the pixels of an image, in addition to the module's own. */
const pixelMemoryBytes = 512 * 1024 * 1024

let module: Promise<void> | undefined

function load(): Promise<void> {
  const path = fileURLToPath(import.meta.resolve('@imagemagick/magick-wasm/magick.wasm'))
  module ??= initializeImageMagick(readFileSync(path)).then(() => {
    ResourceLimits.memory = BigInt(pixelMemoryBytes)
    ResourceLimits.disk = 0n
  })
  return module
}

export interface DecodedImage {
  /** three bytes per pixel, on white, upright */
  readonly pixels: Uint8Array
  readonly width: number
  readonly height: number
  readonly exif: Uint8Array | null
}

/** Decodes the first image of a file. Throws ReadFailure FILE_TOO_COMPLEX, and errors of ImageMagick. */
export async function decodeByMagick(bytes: Uint8Array, mimeType: string, maxPixels: number): Promise<DecodedImage> {
  await load()
  const settings = new MagickReadSettings({ format: magickFormats[mimeType] as MagickFormat, frameIndex: 0, frameCount: 1 })
  const { width, height } = MagickImageInfo.create(bytes, settings)
  if (width * height > maxPixels) throw new ReadFailure('FILE_TOO_COMPLEX', `The picture has ${width} × ${height} pixels.`)
  return ImageMagick.read(bytes, settings, (image) => {
    image.autoOrient()
    if (image.colorSpace !== ColorSpace.Gray) image.colorSpace = ColorSpace.sRGB
    image.backgroundColor = MagickColors.White
    image.alpha(AlphaAction.Remove)
    image.depth = 8
    // Copies: the memory of the module moves when it grows.
    const exif = image.getProfile('exif')?.data.slice() ?? null
    return image.write(MagickFormat.Rgb, (data) => ({ pixels: data.slice(), width: image.width, height: image.height, exif }))
  })
}
