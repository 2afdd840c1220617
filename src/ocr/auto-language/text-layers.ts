/** Languages of text layers. */
import type { OutlinePage } from '../../ports/document-reader.ts'
import type { OcrSetup } from '../../ports/ocr-engine.ts'
import { tesseractCode } from './codes.ts'

/** Parts of a document that are examined, at least one of each page. A part takes a sixth of a millisecond. */
const maxParts = 60
const maxPartsPerPage = 12
/** Texts that are shorter have no certain language. */
const minLength = 24

/** Returns the pages with the languages of their text layers. */
export async function withLanguages(pages: readonly OutlinePage[], installed: OcrSetup['languages']): Promise<readonly OutlinePage[]> {
  const count = pages.filter(({ text }) => text.length >= minLength).length
  if (count === 0) return pages
  // Imported on demand: its table takes 0.2 s to load.
  const { detectLanguages } = await import('./detect.ts')
  const parts = Math.min(maxPartsPerPage, Math.ceil(maxParts / count))
  return pages.map((page) => {
    if (page.text.length < minLength) return page
    const codes = detectLanguages(page.text, parts).languages.map((language) => tesseractCode(language, installed))
    return { ...page, language: codes.join('+') || null }
  })
}
