/** Words in the text layer of a PDF page, with their boxes. */
import type { WordRow } from '../../../ports/document-reader.ts'
import { type PdfiumModule, type Rectangle, readFloats, readStruct } from './pdfium-module.ts'

/** Maximum number of characters that are read. */
const maxCharacters = 100_000
/** Boxes are in 1/10000 of the width and height of the displayed page. */
const boxUnits = 10_000
/** PDFium's code for the hyphen of a word that is divided at a line end. */
const lineEndHyphen = 2
/**
 * Characters of scripts without spaces are words of their own. The middle dot, the Ukrainian apostrophe, and a tilde or a dot below letters also belong
 * to other scripts.
 */
const spaceless =
  /(?!\u00b7|\u02bc|[\u0300-\u036f])[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u

/** Returns the words of a page in the order of its text. Words outside of the displayed page are omitted. */
export function readPageWords(pdfium: PdfiumModule, page: number): WordRow[] {
  const textPage = pdfium._FPDFText_LoadPage(page)
  if (!textPage) return []
  try {
    const words: WordRow[] = []
    let text = ''
    let bounds: Rectangle | null = null
    const endWord = (): void => {
      const box = bounds && toBox(pdfium, page, bounds)
      if (box) words.push([text, 100, ...box])
      text = ''
      bounds = null
    }
    const count = Math.min(pdfium._FPDFText_CountChars(textPage), maxCharacters)
    for (let i = 0; i < count; i++) {
      const code = pdfium._FPDFText_GetUnicode(textPage, i)
      const letter = code === lineEndHyphen ? '-' : String.fromCodePoint(code <= 0x10ffff ? code : 0xfffd)
      const isAlone = spaceless.test(letter)
      if (isAlone || /\s/.test(letter)) endWord()
      if (/[\s\0]/.test(letter)) continue
      text += letter
      const rectangle = readFloats(pdfium, 4, (pointer) => pdfium._FPDFText_GetLooseCharBox(textPage, i, pointer))
      if (rectangle) bounds = union(bounds, rectangle)
      if (isAlone || code === lineEndHyphen) endWord()
    }
    endWord()
    return words
  } finally {
    pdfium._FPDFText_ClosePage(textPage)
  }
}

function union(one: Rectangle | null, [left, top, right, bottom]: number[]): Rectangle {
  const other = { left: left!, top: top!, right: right!, bottom: bottom! }
  if (!one) return other
  return {
    left: Math.min(one.left, other.left),
    top: Math.max(one.top, other.top),
    right: Math.max(one.right, other.right),
    bottom: Math.min(one.bottom, other.bottom),
  }
}

/** Returns left, top, width and height on the displayed page, which may be cropped and turned; null outside of it. */
function toBox(pdfium: PdfiumModule, page: number, { left, top, right, bottom }: Rectangle): [number, number, number, number] | null {
  const [x1, y1] = toDisplayed(pdfium, page, left, top)
  const [x2, y2] = toDisplayed(pdfium, page, right, bottom)
  const [from, to] = [clamp(Math.min(x1, x2)), clamp(Math.max(x1, x2))]
  const [above, below] = [clamp(Math.min(y1, y2)), clamp(Math.max(y1, y2))]
  return to > from && below > above ? [from, above, to - from, below - above] : null
}

const clamp = (part: number): number => Math.min(boxUnits, Math.max(0, part))

function toDisplayed(pdfium: PdfiumModule, page: number, x: number, y: number): [number, number] {
  const view = readStruct(pdfium, 8, (at) => pdfium._FPDF_PageToDevice(page, 0, 0, boxUnits, boxUnits, 0, x, y, at, at + 4))
  return view ? [view.getInt32(0, true), view.getInt32(4, true)] : [0, 0]
}
