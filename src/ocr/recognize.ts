/** OCR of one page: prepares its image and corrects its orientation. */
import type { ReadPage } from '../ports/document-reader.ts'
import type { OcrEngine, OcrQuality, OcrText, PageImage } from '../ports/ocr-engine.ts'
import { addFurtherPasses } from './further-passes.ts'
import {
  chain,
  fromUnitSquare,
  type Homography,
  identity,
  mapBox,
  mapPoint,
  type Point,
  rotation,
  scaling,
  translation,
} from './homography.ts'
import { type GrayImage, invertIfDark, normalizeIllumination } from './image/illumination.ts'
import { findSheet, type Quadrilateral } from './image/perspective.ts'
import { eraseRuledLines } from './image/ruled-lines.ts'
import { findSkew } from './image/skew.ts'
import { transformGray } from './image/transform-gray.ts'
import { level, type Warped, warp } from './image/warp.ts'
import { openPassBudget, type PassBudget } from './pass-budget.ts'
import { lineDirection } from './words.ts'

/** Plausible length of the longer side, in inches. For other lengths, the resolution stated in the file is wrong. */
const plausibleInches = { min: 4, max: 48 }
/** Programs write 72 or 96 dpi by default. Below `belowDpi` only sheets that fit a scanner are plausible. */
const lowResolution = { belowDpi: 150, maxInches: 17 }
const a4Inches = { short: 8.27, long: 11.69 }
/** Share of a photo that the page covers. */
const pageShare = 0.8
const minDpi = 70
/** Below `belowDpi`, letters are too small for Tesseract. Upscaling reduces the CER from 16 to 0.3 % at 72 dpi and from 0.8 to 0.1 % at 96 dpi. */
const upscale = { belowDpi: 110, toDpi: 150 }
/** Above `aboveDpi`, more pixels cost a fifth of the time and gain nothing, not even for six-point print. */
const downscale = { aboveDpi: 240, toDpi: 200 }
const maxPixels = 24_000_000
/** Upside-down text has a confidence of 0.2 to 0.4, upright text rarely below 0.7. */
const minConfidence = 0.6

/** Page that prepareImage() has prepared. */
export interface PreparedPage extends PageImage {
  /** Scaled picture that the page was cut out of, and the map of pixels to it. Without: the page is the picture. */
  readonly picture?: { readonly width: number; readonly height: number; readonly toPicture: Homography }
}

/**
 * Prepares gray pixels for OCR: suitable resolution, dark text on light paper, even illumination, without the perspective of a photo.
 * `dpi` null: the file states none.
 */
export async function prepareImage({ dpi: statedDpi, ...image }: GrayImage & { dpi: number | null }): Promise<PreparedPage> {
  const sheet = findSheet(image)
  const dpi = sheet ? dpiOfA4(sizeOfSheet(sheet)) : estimateDpi(image, statedDpi)
  const targetDpi = dpi > downscale.aboveDpi ? downscale.toDpi : dpi < upscale.belowDpi ? upscale.toDpi : dpi
  const factor = Math.min(targetDpi / dpi, Math.sqrt(maxPixels / (image.width * image.height)))
  const scaled = factor === 1 ? image : await resize(image, factor)
  const scaledDpi = Math.round(dpi * factor)
  const flat = sheet ? flattenSheet(scaled, sheet, factor) : { ...scaled, toSource: identity }
  const { toSource, ...even } = normalizeIllumination(invertIfDark(flat), scaledDpi)
  return { ...even, dpi: scaledDpi, picture: { width: scaled.width, height: scaled.height, toPicture: toSource } }
}

/** Returns the sheet as a rectangle, without its surroundings. */
function flattenSheet(image: GrayImage, sheet: Quadrilateral, factor: number): Warped {
  const corners = sheet.map(({ x, y }) => ({ x: x * factor, y: y * factor })) as unknown as Quadrilateral
  const { width, height } = sizeOfSheet(corners)
  return warp(image, chain(scaling(1 / width, 1 / height), fromUnitSquare(corners)), { width, height })
}

/** Returns the lengths of the longer of opposite sides, in pixels. */
function sizeOfSheet([p0, p1, p2, p3]: Quadrilateral): { width: number; height: number } {
  const distance = (a: Point, b: Point): number => Math.hypot(a.x - b.x, a.y - b.y)
  return {
    width: Math.round(Math.max(distance(p0, p1), distance(p3, p2))),
    height: Math.round(Math.max(distance(p0, p3), distance(p1, p2))),
  }
}

/** Returns the stated resolution if it is plausible, else that of a photographed A4 page. */
function estimateDpi(size: { width: number; height: number }, statedDpi: number | null): number {
  const long = Math.max(size.width, size.height)
  if (statedDpi !== null) {
    const maxInches = statedDpi < lowResolution.belowDpi ? lowResolution.maxInches : plausibleInches.max
    if (long >= statedDpi * plausibleInches.min && long <= statedDpi * maxInches) return statedDpi
  }
  return dpiOfA4(size, pageShare)
}

/** Returns the resolution at which a sheet of A4 covers `share` of a picture. */
function dpiOfA4({ width, height }: { width: number; height: number }, share = 1): number {
  const [short, long] = width < height ? [width, height] : [height, width]
  return Math.max(minDpi, Math.round(Math.min(long / a4Inches.long, short / a4Inches.short) * share))
}

function resize(image: GrayImage, factor: number): Promise<GrayImage> {
  const size = { width: Math.max(1, Math.round(image.width * factor)), height: Math.max(1, Math.round(image.height * factor)) }
  return transformGray(image, (pixels) => pixels.resize({ ...size, fit: 'fill', kernel: 'cubic' }))
}

type RecognizedPage = Pick<ReadPage, 'text' | 'confidence' | 'words' | 'angle'>

export interface RecognizeOptions {
  readonly quality: OcrQuality
  /** Passes for which it has no time are left out. */
  readonly budget: PassBudget
}

/**
 * Recognizes a page in any orientation. `language` is one or more installed codes joined by `+`. Throws ReadFailure.
 * Tesseract turns pages that lie on their side, but half of them upside down. A low confidence costs a second pass, turned by 180 degrees.
 */
export async function recognizePage(
  engine: OcrEngine,
  page: PreparedPage,
  language: string,
  { quality, budget }: RecognizeOptions = { quality: 'balanced', budget: openPassBudget() },
): Promise<RecognizedPage> {
  const skew = findSkew(page)
  const straight = skew === 0 ? { ...page, toSource: identity } : { ...level(page, skew), dpi: page.dpi }
  const cleaned = eraseRuledLines(straight, page.dpi)
  const hasTime = measurePasses(budget)
  const first = await engine.recognize(cleaned, language, { layout: 'auto' })
  const options = { language, quality, hasTime }
  if (first.confidence !== null && first.confidence < minConfidence && hasTime()) {
    const upsideDown = { ...cleaned, gray: cleaned.gray.toReversed() }
    const turned = await engine.recognize(upsideDown, language, { layout: 'auto' })
    const half = chain(rotation(180), translation(straight.width, straight.height))
    if ((turned.confidence ?? 0) > first.confidence)
      return toResult(await addFurtherPasses(engine, upsideDown, turned, options), page, chain(half, straight.toSource))
  }
  return toResult(await addFurtherPasses(engine, cleaned, first, options), page, straight.toSource)
}

/** Returns a function to call before a further pass. It returns whether twice the time of the longest pass is left. */
function measurePasses(budget: PassBudget): () => boolean {
  let longestMs = 0
  let lastMs = budget.leftMs()
  return () => {
    const leftMs = budget.leftMs()
    longestMs = Math.max(longestMs, lastMs - leftMs)
    lastMs = leftMs
    return budget.hasTimeFor(longestMs * 2)
  }
}

/** Maps boxes from the image that was recognized to fractions of the picture of the page. `toPage` maps that image to `page`. */
function toResult({ text, confidence, words }: OcrText, page: PreparedPage, toPage: Homography): RecognizedPage {
  const { width, height, toPicture } = page.picture ?? { ...page, toPicture: identity }
  const map = chain(toPage, toPicture)
  const toFractions = chain(map, scaling(1 / width, 1 / height))
  const pageWords = words.map(({ text: word, confidence: sure, box }) => ({ text: word, confidence: sure, box: mapBox(toFractions, box) }))
  // The direction of a level line in the middle.
  const [from, to] = [
    mapPoint(map, { x: page.width / 2, y: page.height / 2 }),
    mapPoint(map, { x: page.width / 2 + 1, y: page.height / 2 }),
  ]
  const degrees = (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI
  return { text, confidence, words: pageWords, angle: normalizeAngle(degrees + lineDirection(words)) }
}

/** Returns an angle between -180 (exclusive) and 180 degrees, rounded to a hundredth. */
const normalizeAngle = (degrees: number): number => Math.round((degrees - 360 * Math.ceil(degrees / 360 - 0.5)) * 100) / 100 + 0
