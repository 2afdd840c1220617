/** Further passes of OCR over a page whose first one was not certain. docs/ocr.md explains when they pay. */
import sharp from 'sharp'
import type { OcrEngine, OcrQuality, OcrText, PageImage } from '../ports/ocr-engine.ts'
import { enhanceContrast } from './image/illumination.ts'
import { eraseWords, shareOfUncoveredInk } from './image/uncovered-ink.ts'
import { addMissingWords, mergeWords } from './merge-words.ts'

/** Confidence of a page below which a second opinion pays. */
const weak = 0.88
/** Share of uncovered ink from which on words are missing. */
const minUncovered = 0.12
/** Words from which on nothing is expected below them. */
const readable = 0.6

export interface PassOptions {
  readonly language: string
  readonly quality: OcrQuality
  /** Returns whether another pass fits the time limit of the page. */
  readonly hasTime: () => boolean
}

/** Returns what further passes over an upright page make of the `first` one. */
export async function addOpinions(
  engine: OcrEngine,
  page: PageImage,
  first: OcrText,
  { language, quality, hasTime }: PassOptions,
): Promise<OcrText> {
  if (quality === 'fast') return first
  let result = first
  if (((result.confidence ?? 0) < weak || quality === 'best') && hasTime()) {
    const enhanced = await blur(enhanceContrast(page, page.dpi))
    const second = await engine.recognize(enhanced, language, { layout: 'block' })
    result = evidence(second) > evidence(result) ? mergeWords(second, result) : mergeWords(result, second)
  }
  const uncovered = shareOfUncoveredInk(page, result.words)
  if ((uncovered > minUncovered || quality === 'best') && hasTime()) {
    const rest = eraseWords(
      page,
      result.words.filter(({ confidence }) => confidence >= readable),
    )
    result = addMissingWords(result, await engine.recognize(rest, language, { layout: 'sparse' }))
  }
  return result
}

/** Returns how much text a pass gives evidence of. Words of low confidence are noise and count against it. */
const evidence = ({ words }: OcrText): number => words.reduce((sum, { text, confidence }) => sum + text.length * (confidence - 0.5), 0)

/** Closes gaps of strokes, as those of thermal and dot matrix printers. */
async function blur(page: PageImage): Promise<PageImage> {
  const image = sharp(page.gray, { raw: { width: page.width, height: page.height, channels: 1 }, limitInputPixels: false })
  return { ...page, gray: await image.blur(0.8).toColourspace('b-w').raw().toBuffer() }
}
