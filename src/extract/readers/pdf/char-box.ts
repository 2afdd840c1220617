/** Boxes of the characters of a PDF page, in points. */
import { type PdfiumModule, readFloats } from './pdfium-module.ts'

export interface CharBox {
  readonly left: number
  readonly right: number
  readonly bottom: number
  readonly top: number
}

/** Returns the box of the ink; null if the character has none. */
export function charBox(pdfium: PdfiumModule, textPage: number, index: number): CharBox | null {
  const pointer = pdfium._malloc(32)
  try {
    if (!pdfium._FPDFText_GetCharBox(textPage, index, pointer, pointer + 8, pointer + 16, pointer + 24)) return null
    const view = new DataView(pdfium.HEAPU8.buffer, pointer, 32)
    const [left, right, bottom, top] = [0, 8, 16, 24].map((at) => view.getFloat64(at, true)) as [number, number, number, number]
    return { left, right, bottom, top }
  } finally {
    pdfium._free(pointer)
  }
}

/** Returns the box with the height of the font and the distance to the next character; null if the character has none. */
export function looseBox(pdfium: PdfiumModule, textPage: number, index: number): CharBox | null {
  const box = readFloats(pdfium, 4, (pointer) => pdfium._FPDFText_GetLooseCharBox(textPage, index, pointer))
  if (!box) return null
  const [left, top, right, bottom] = box as [number, number, number, number]
  return top > bottom ? { left, right, bottom, top } : null
}
