/** Letters of a PDF page that are drawn twice, for a bold look or a shadow. */
import { charBox, looseBox } from './char-box.ts'
import type { PdfiumModule, Rectangle } from './pdfium-module.ts'
import { codePointsOf, type Edits } from './scripts.ts'

const letterOrDigit = /[\p{L}\p{N}]/u

/** Returns edits that remove a letter behind an equal one of another text object at almost the same place. */
export function removeOverprints(pdfium: PdfiumModule, textPage: number, text: string): Edits {
  const edits: Edits = new Map()
  const points = codePointsOf(text)
  const indexOf = (at: number): number => pdfium._FPDFText_GetCharIndexFromTextIndex(textPage, at)
  for (let at = 1; at < points.length; at++) {
    if (points[at] !== points[at - 1] || !letterOrDigit.test(points[at]!)) continue
    const [before, after] = [indexOf(at - 1), indexOf(at)]
    if (before < 0 || after < 0) continue
    // The letters of a ligature have one box. The ink of some italic letters overlaps, and the distances in some files are wrong.
    const isOverprint =
      pdfium._FPDFText_GetTextObject(textPage, before) !== pdfium._FPDFText_GetTextObject(textPage, after) &&
      [charBox, looseBox].every((box) => areOverlapping(box(pdfium, textPage, before), box(pdfium, textPage, after)))
    if (isOverprint) edits.set(after, '')
  }
  return edits
}

/** Returns whether two boxes have more than half of the smaller width and height in common. */
function areOverlapping(a: Rectangle | null, b: Rectangle | null): boolean {
  if (!a || !b) return false
  const width = Math.min(a.right, b.right) - Math.max(a.left, b.left)
  const height = Math.min(a.top, b.top) - Math.max(a.bottom, b.bottom)
  return width > 0.5 * Math.min(a.right - a.left, b.right - b.left) && height > 0.5 * Math.min(a.top - a.bottom, b.top - b.bottom)
}
