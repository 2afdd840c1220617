import type { OcrEngine, OcrText, PageImage } from '../ports/ocr-engine.ts'

/** Upside-down text is "read" with a confidence of 0.2 to 0.4, upright text hardly ever below 0.7. */
const doubtful = 0.6

/**
 * Reads one page whichever way up it lies. `language` is one or more installed codes joined by `+`. Throws ReadFailure.
 * Tesseract itself turns pages that lie on their side, but half of them the wrong way; only a doubtful result costs a second look from the other end.
 */
export async function recognizePage(engine: OcrEngine, page: PageImage, language: string): Promise<OcrText> {
  const first = await engine.recognize(page, language)
  if (first.confidence === null || first.confidence >= doubtful) return first
  const turned = await engine.recognize({ ...page, gray: page.gray.toReversed() }, language)
  return (turned.confidence ?? 0) > first.confidence ? turned : first
}
