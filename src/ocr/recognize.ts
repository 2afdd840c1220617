/** OCR of one page: prepares its image and corrects its orientation. */
import sharp from 'sharp'
import type { ReadPage } from '../ports/document-reader.ts'
import type { OcrEngine, OcrText, PageImage } from '../ports/ocr-engine.ts'
import { apply, chain, type Homography, identity, mapBox, rotation, scaling, translation } from './homography.ts'
import { type GrayImage, invertIfDark, normalizeIllumination } from './illumination.ts'
import { lineDirection } from './words.ts'

/** Plausible length of the longer side, in inches. For other lengths, the resolution stated in the file is wrong. */
const plausibleInches = { min: 4, max: 48 }
/** Programs write 72 or 96 dpi by default. Below `belowDpi` only sheets that fit a scanner are plausible. */
const lowResolution = { belowDpi: 150, maxInches: 17 }
const a4Inches = { short: 8.27, long: 11.69 }
/** Share of a photo that the page covers. */
const pageShare = 0.8
const minDpi = 70
/** Letters are too small for Tesseract below `belowDpi`. Upscaling reduces the CER from 16 to 0.3 % at 72 dpi, from 0.8 to 0.1 % at 96. */
const upscale = { belowDpi: 110, toDpi: 150 }
/** Above `aboveDpi`, more pixels cost a fifth of the time and gain nothing, not even for six-point print. */
const downscale = { aboveDpi: 240, toDpi: 200 }
const maxPixels = 24_000_000
/** Upside-down text has a confidence of 0.2 to 0.4, upright text rarely below 0.7. */
const minConfidence = 0.6

/** Prepares gray pixels for OCR: suitable resolution, dark text on light paper, even illumination. `dpi` null: the file states none. */
export async function prepareImage({ dpi: statedDpi, ...image }: GrayImage & { dpi: number | null }): Promise<PageImage> {
  const dpi = estimateDpi(image, statedDpi)
  const targetDpi = dpi > downscale.aboveDpi ? downscale.toDpi : dpi < upscale.belowDpi ? upscale.toDpi : dpi
  const factor = Math.min(targetDpi / dpi, Math.sqrt(maxPixels / (image.width * image.height)))
  const scaled = factor === 1 ? image : await resize(image, factor)
  const scaledDpi = Math.round(dpi * factor)
  return { ...normalizeIllumination(invertIfDark(scaled), scaledDpi), dpi: scaledDpi }
}

/** Returns the stated resolution if it is plausible, else that of a photographed A4 page. */
function estimateDpi({ width, height }: GrayImage, statedDpi: number | null): number {
  const [short, long] = width < height ? [width, height] : [height, width]
  if (statedDpi !== null) {
    const maxInches = statedDpi < lowResolution.belowDpi ? lowResolution.maxInches : plausibleInches.max
    if (long >= statedDpi * plausibleInches.min && long <= statedDpi * maxInches) return statedDpi
  }
  return Math.max(minDpi, Math.round(Math.min(long / a4Inches.long, short / a4Inches.short) * pageShare))
}

async function resize({ gray, width, height }: GrayImage, factor: number): Promise<GrayImage> {
  const size = { width: Math.max(1, Math.round(width * factor)), height: Math.max(1, Math.round(height * factor)) }
  const image = sharp(gray, { raw: { width, height, channels: 1 }, limitInputPixels: false })
  const pixels = await image
    .resize({ ...size, fit: 'fill', kernel: 'cubic' })
    .toColourspace('b-w')
    .raw()
    .toBuffer()
  return { gray: pixels, ...size }
}

type RecognizedPage = Pick<ReadPage, 'text' | 'confidence' | 'words' | 'angle'>

/**
 * Recognizes a page in any orientation. `language` is one or more installed codes joined by `+`. Throws ReadFailure.
 * Tesseract turns pages that lie on their side, but half of them upside down. A low confidence costs a second pass, turned by 180 degrees.
 */
export async function recognizePage(engine: OcrEngine, page: PageImage, language: string): Promise<RecognizedPage> {
  const result = await engine.recognize(page, language, { layout: 'auto' })
  if (result.confidence === null || result.confidence >= minConfidence) return toPage(result, page, identity)
  const turned = await engine.recognize({ ...page, gray: page.gray.toReversed() }, language, { layout: 'auto' })
  if ((turned.confidence ?? 0) <= result.confidence) return toPage(result, page, identity)
  return toPage(turned, page, chain(rotation(180), translation(page.width, page.height)))
}

/** Maps boxes from the image that was recognized to fractions of the page. `toPixels` maps that image to `size`. */
function toPage({ text, confidence, words }: OcrText, size: { width: number; height: number }, toPixels: Homography): RecognizedPage {
  const toFractions = chain(toPixels, scaling(1 / size.width, 1 / size.height))
  const direction = apply(toPixels, { x: 1, y: 0 })
  const origin = apply(toPixels, { x: 0, y: 0 })
  const angle = (Math.atan2(direction.y - origin.y, direction.x - origin.x) * 180) / Math.PI + lineDirection(words)
  const pageWords = words.map(({ text: word, confidence: sure, box }) => ({ text: word, confidence: sure, box: mapBox(toFractions, box) }))
  return { text, confidence, words: pageWords, angle: normalizeAngle(angle) }
}

/** Returns an angle between -180 (exclusive) and 180 degrees, rounded to a hundredth. */
const normalizeAngle = (degrees: number): number => Math.round((degrees - 360 * Math.ceil(degrees / 360 - 0.5)) * 100) / 100 + 0
