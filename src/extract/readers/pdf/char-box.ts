/** Boxes of the characters of a PDF page, in points. */
import { type PdfiumModule, type Rectangle, readFloats, readStruct } from './pdfium-module.ts'

/** Returns the box of the ink; null if the character has none. */
export function charBox(pdfium: PdfiumModule, textPage: number, index: number): Rectangle | null {
  const view = readStruct(pdfium, 32, (at) => pdfium._FPDFText_GetCharBox(textPage, index, at, at + 8, at + 16, at + 24))
  if (!view) return null
  const [left, right, bottom, top] = [0, 8, 16, 24].map((at) => view.getFloat64(at, true)) as [number, number, number, number]
  return { left, right, bottom, top }
}

/** Returns the box with the height of the font and the distance to the next character; null if the character has none. */
export function looseBox(pdfium: PdfiumModule, textPage: number, index: number): Rectangle | null {
  const box = readFloats(pdfium, 4, (pointer) => pdfium._FPDFText_GetLooseCharBox(textPage, index, pointer))
  if (!box) return null
  const [left, top, right, bottom] = box as [number, number, number, number]
  return top > bottom ? { left, right, bottom, top } : null
}
