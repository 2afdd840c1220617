/** Further passes of OCR over a page whose first one was not certain. docs/ocr.md explains when they pay. */
import type { OcrEngine, OcrQuality, OcrText, PageImage } from '../ports/ocr-engine.ts'
import { enhanceContrast } from './image/illumination.ts'
import { transformGray } from './image/transform-gray.ts'
import { eraseWords, shareOfUncoveredInk } from './image/uncovered-ink.ts'
import { addMissingWords, mergeWords } from './merge-words.ts'

/** Confidence of a page below which a second pass pays. */
const weak = 0.88
/** Share of uncovered ink above which words are probably missing. */
const minUncovered = 0.12
/** Confidence of words that are painted over before the sparse pass. */
const readable = 0.6

export interface PassOptions {
  readonly language: string
  readonly quality: OcrQuality
  /** Returns whether another pass fits the time limit of the page. */
  readonly hasTime: () => boolean
}

/** Improves the result of the `first` pass over an upright page by further passes. */
export async function addFurtherPasses(
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

/** Rates a pass by the text that it found. Words of low confidence are noise and count against it. */
const evidence = ({ words }: OcrText): number => words.reduce((sum, { text, confidence }) => sum + text.length * (confidence - 0.5), 0)

/** Closes gaps in strokes of thermal and dot matrix printers. */
const blur = async (page: PageImage): Promise<PageImage> => ({ ...page, ...(await transformGray(page, (pixels) => pixels.blur(0.8))) })
