/** Superscripts, subscripts and vertical text of a PDF page. PDFium returns their characters as separate lines. */
import { looseBox } from './char-box.ts'
import type { PdfiumModule, Rectangle } from './pdfium-module.ts'

/** Edits by index of the character. */
export type Edits = Map<number, string>

/** Returns the characters of a text as PDFium counts them. */
export const codePointsOf = (text: string): ArrayLike<string> => (/[\ud800-\udfff]/.test(text) ? [...text] : text)

/** Horizontal distance in heights of the font up to which characters belong to one word, and to one line. */
const [maxWordGap, maxLineGap] = [0.035, 1]
/** Vertical distance, in the same unit, up to which characters belong to one vertical line. */
const maxStackGap = 0.35
/** Minimum length of a word before a footnote mark. Digits after shorter words are part of a unit or formula. */
const minWordLength = 4

/** Returns edits that join scripts with their words, as in CO2, and vertical text, and separate footnote marks from words. `gaps` has the glyphs without a character. */
export function separateScripts(pdfium: PdfiumModule, textPage: number, text: string, gaps: Edits): Edits {
  const edits: Edits = new Map()
  const points = codePointsOf(text)
  const cellAt = (at: number): Rectangle | null => {
    const index = pdfium._FPDFText_GetCharIndexFromTextIndex(textPage, at)
    return index < 0 || gaps.has(index) ? null : looseBox(pdfium, textPage, index)
  }
  const edit = (at: number, replacement: string): void => {
    const index = pdfium._FPDFText_GetCharIndexFromTextIndex(textPage, at)
    if (index >= 0) edits.set(index, replacement)
  }
  for (let at = 1; at + 1 < points.length; at++) {
    if (points[at] === '\r' && points[at + 1] === '\n') {
      // Private characters are parts of tall brackets.
      if (privateUse.test(points[at - 1]!) || privateUse.test(points[at + 2] ?? '')) continue
      const [before, after] = [cellAt(at - 1), cellAt(at + 2)]
      if (!before || !after) continue
      const gap = gapOnLine(before, after)
      const isVertical = gap === null && isIdeograph(points[at - 1]!) && isIdeograph(points[at + 2] ?? '') && isStacked(before, after)
      if (gap === null && !isVertical) continue
      edit(at, gap !== null && (gap > maxWordGap || isNumber(points, at)) ? ' ' : '')
      edit(at + 1, '')
    } else if (isDigit(points[at - 1]!) !== isDigit(points[at]!) && isBesideMark(points, at)) {
      const [mark, word] = isDigit(points[at]!) ? [cellAt(at), cellAt(at - 1)] : [cellAt(at - 1), cellAt(at)]
      if (mark && word && isRaised(mark, word)) edit(at, ` ${points[at]}`)
    }
  }
  return edits
}

const privateUse = /\p{Co}/u

/** A character of Chinese or Japanese. */
export const ideograph = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}]/u

const isIdeograph = (letter: string): boolean => ideograph.test(letter)

const isDigit = (letter: string): boolean => letter >= '0' && letter <= '9'

const isLetter = (letter: string | undefined): boolean => letter !== undefined && /\p{L}/u.test(letter)

/** Returns whether `count` letters begin at `from`. */
function areLetters(points: ArrayLike<string>, from: number, count: number): boolean {
  for (let i = from; i < from + count; i++) if (!isLetter(points[i])) return false
  return true
}

/** Returns whether a digit is beside a word: behind one of `minWordLength`, or before one of three letters. */
const isBesideMark = (points: ArrayLike<string>, at: number): boolean =>
  isDigit(points[at]!) ? areLetters(points, at - minWordLength, minWordLength) : areLetters(points, at, 3)

/** Returns whether a number begins behind the line break at `at`, and before it ends a word or another number. */
const isNumber = (points: ArrayLike<string>, at: number): boolean =>
  isDigit(points[at + 2] ?? '') && (isDigit(points[at - 1]!) || areLetters(points, at - minWordLength, minWordLength))

const heightOf = ({ top, bottom }: Rectangle): number => top - bottom

/** Returns the distance between characters side by side, in heights of the larger one; null for characters on different lines. */
function gapOnLine(before: Rectangle, after: Rectangle): number | null {
  const overlap = Math.min(before.top, after.top) - Math.max(before.bottom, after.bottom)
  if (overlap < 0.25 * Math.min(heightOf(before), heightOf(after))) return null
  const gap = (after.left - before.right) / Math.max(heightOf(before), heightOf(after))
  return gap > -0.15 && gap < maxLineGap ? gap : null
}

/** Returns whether a character stands directly under another one, close to it. */
function isStacked(above: Rectangle, below: Rectangle): boolean {
  const overlap = Math.min(above.right, below.right) - Math.max(above.left, below.left)
  const gap = (above.bottom - below.top) / Math.max(heightOf(above), heightOf(below))
  return overlap > 0.5 * Math.min(above.right - above.left, below.right - below.left) && gap > -0.5 && gap < maxStackGap
}

/** Returns whether a character is a superscript beside a letter of a word. */
const isRaised = (mark: Rectangle, word: Rectangle): boolean =>
  heightOf(mark) < 0.9 * heightOf(word) && mark.bottom - word.bottom > 0.1 * heightOf(word)
