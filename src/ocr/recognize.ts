import type { OcrEngine, OcrText, PageImage } from '../ports.ts'

/** Reads one page whichever way up it lies. `language` is one or more installed codes joined by `+`. Throws ReadFailure. */
export async function recognizePage(engine: OcrEngine, page: PageImage, language: string): Promise<OcrText> {
  return engine.recognize(page, language)
}
