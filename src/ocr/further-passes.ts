/** Further passes of OCR over a page whose first one was not certain. docs/ocr.md explains when they pay. */
import type { OcrEngine, OcrQuality, OcrText, PageImage, WordBox } from '../ports/ocr-engine.ts'
import { enhanceContrast } from './image/illumination.ts'
import { transformGray } from './image/transform-gray.ts'
import { eraseWords, shareOfUncoveredInk } from './image/uncovered-ink.ts'
import { addMissingWords, mergePasses } from './merge-words.ts'
import { joinWords } from './words.ts'

/** Confidence of a page below which further passes pay. Clean pages have 0.95. */
const weak = 0.92
/** Scale of the enlarged pass. */
const enlargement = 1.5
/** Maximum pixels of an enlarged page. Larger pages are not enlarged. */
const maxEnlargedPixels = 24_000_000
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
  const isUncertain = ({ confidence }: OcrText): boolean => quality === 'best' || (confidence ?? 0) < weak
  let result = first
  if (isUncertain(result) && hasTime()) {
    const enhanced = await blur(enhanceContrast(page, page.dpi))
    const block = await engine.recognize(enhanced, language, { layout: 'block' })
    const [base, ...others] = evidence(block) > evidence(first) ? [block, first] : [first, block]
    result = mergePasses(base, others)
    for (const recognize of furtherReadings(engine, page, language)) {
      if (!isUncertain(result) || !hasTime()) break
      others.push(await recognize())
      result = mergePasses(base, others)
    }
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

/** Returns the passes that take part in the vote after the block pass, in their order. */
function furtherReadings(engine: OcrEngine, page: PageImage, language: string): readonly (() => Promise<OcrText>)[] {
  const canEnlarge = page.width * page.height * enlargement ** 2 <= maxEnlargedPixels
  return [
    ...(canEnlarge ? [() => recognizeEnlarged(engine, page, language)] : []),
    ...(engine.hasSecondModel(language) ? [() => engine.recognize(page, language, { layout: 'auto', model: 'second' })] : []),
  ]
}

/** Rates a pass by the text that it found. Words of low confidence are noise and count against it. */
const evidence = ({ words }: OcrText): number => words.reduce((sum, { text, confidence }) => sum + text.length * (confidence - 0.5), 0)

/** Closes gaps in strokes of thermal and dot matrix printers. */
const blur = async (page: PageImage): Promise<PageImage> => ({ ...page, ...(await transformGray(page, (pixels) => pixels.blur(0.8))) })

/** Recognizes an enlarged page, where Tesseract confuses other letters. Boxes are in pixels of `page`. */
async function recognizeEnlarged(engine: OcrEngine, page: PageImage, language: string): Promise<OcrText> {
  const size = { width: Math.round(page.width * enlargement), height: Math.round(page.height * enlargement) }
  const enlarged = await transformGray(page, (pixels) => pixels.resize({ ...size, fit: 'fill', kernel: 'cubic' }))
  const { words } = await engine.recognize({ ...enlarged, dpi: Math.round(page.dpi * enlargement) }, language, { layout: 'auto' })
  return joinWords(words.map((word) => ({ ...word, box: reduceBox(word.box) })))
}

const reduceBox = (box: WordBox): WordBox => ({
  left: Math.round(box.left / enlargement),
  top: Math.round(box.top / enlargement),
  width: Math.max(1, Math.round(box.width / enlargement)),
  height: Math.max(1, Math.round(box.height / enlargement)),
})
