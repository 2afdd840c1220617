/** Text of a PDF page, by PDFium. */
import { maxTextLength } from '../decode.ts'
import { charBox } from './char-box.ts'
import { removeOverprints } from './overprints.ts'
import { type PdfiumModule, type Rectangle, readBytes } from './pdfium-module.ts'
import { type Edits, ideograph, separateScripts } from './scripts.ts'

/** Replaces a hyphen at the end of a line in the middle of a word. joinHyphenatedWords() removes it. */
export const softLineEnd = '\ufffe'
/** Replaces a glyph without a character. */
const gap = '\ufffd'

export interface PageText {
  /** Text with `softLineEnd` and `gap`. If `isMapped` is false, it contains the codes of the glyphs instead of gaps. */
  readonly text: string
  /** false: so many glyphs have no character that the text has no meaning */
  readonly isMapped: boolean
  /**
   * Number of uses of each code that stands for a glyph without a character. The code is a glyph number of the font; the letter with the same code is
   * a coincidence.
   */
  readonly unmapped: ReadonlyMap<string, number>
}

/** Accents that TeX draws over a letter, with their combining characters. */
const accents: Readonly<Record<string, string>> = {
  '`': '\u0300',
  '´': '\u0301',
  '^': '\u0302',
  ˆ: '\u0302',
  '~': '\u0303',
  '˜': '\u0303',
  '¯': '\u0304',
  '˘': '\u0306',
  '˙': '\u0307',
  '¨': '\u0308',
  '˚': '\u030a',
  '˝': '\u030b',
  ˇ: '\u030c',
  '¸': '\u0327',
  '˛': '\u0328',
}
const accentPattern = /[`´^ˆ~˜¯˘˙¨˚˝ˇ¸˛]/
/** Maximum share of glyphs without a character in a text that means something. */
const maxGapShare = 0.1
/** Fonts of TeX and of office programs that have symbols only. */
const symbolFonts =
  /^(?:[A-Z]{6}\+)?(?:CM(?:EX|SY|BSY)|MS[AB]M|EUEX|LASY|STMARY|WASY|[TP]XSY|[TP]XEX|.*(?:Symbol|Dingbats|W[ei]bdings|Wingdings|MathematicalPi|Awesome|Icons?\b))/i
const symbol = '•'
/** Maximum height in points of a box that PDFium gives to a glyph without ink; the box has 0.01. */
const flatHeight = 0.0125
/** Maximum number of different spaces without a character on a page. */
const maxSpaces = 2
/** Maximum number of different symbols without a character on a page. */
export const maxSymbols = 2
/** Spaced text of Chinese and Japanese: at least three characters that stand alone. */
const spacedIdeographs = new RegExp('(?<!I)I(?: I){2,}(?!I)'.replaceAll('I', ideograph.source), 'gu')
/** Vowels and tone marks of Thai and Lao that never begin a word. Word maps the circle of Thai AM to a space. */
const spaceBeforeMark = /(?<=[\p{L}\p{M}]) +(?=[\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ecd])/gu
const ligatures = /[\ufb00-\ufdff\ufe70-\ufefc]/g

/** Returns the text of a page in the order of its content, right-to-left text in logical order. */
export function readPageText(pdfium: PdfiumModule, page: number): PageText {
  const textPage = pdfium._FPDFText_LoadPage(page)
  if (!textPage) return { text: '', isMapped: true, unmapped: new Map() }
  try {
    const count = Math.min(pdfium._FPDFText_CountChars(textPage), maxTextLength)
    const text = count > 0 ? getText(pdfium, textPage, count) : ''
    const gaps = findGaps(pdfium, textPage, count, text.includes(softLineEnd))
    const isMapped = gaps.count <= maxGapShare * text.replace(/\s/g, '').length
    const edits: Edits = new Map([
      ...removeOverprints(pdfium, textPage, text),
      ...separateScripts(pdfium, textPage, text, gaps.edits),
      ...[...gaps.edits].filter(([, replacement]) => isMapped || replacement === ' '),
      ...(accentPattern.test(text) ? composeAccents(pdfium, textPage, count) : []),
    ])
    const edited = edits.size > 0 ? applyEdits(pdfium, textPage, text, edits) : text
    const plain = edited
      .replaceAll('\r\n', '\n')
      // Hyphen at a line end: older versions of PDFium write this, newer ones U+FFFE.
      .replaceAll('\u0002', softLineEnd)
      .replace(ligatures, (letter) => letter.normalize('NFKC'))
      .replace(spacedIdeographs, (characters) => characters.replaceAll(' ', ''))
      .replace(spaceBeforeMark, '')
    // Few glyphs that always stand alone are bullets and symbols, not letters or digits.
    const isMissingSymbols = isMapped && gaps.codes.size <= maxSymbols && !/\S\ufffd|\ufffd\S/.test(plain)
    return { text: isMissingSymbols ? plain.replaceAll(gap, symbol) : plain, isMapped, unmapped: isMissingSymbols ? new Map() : gaps.codes }
  } finally {
    pdfium._FPDFText_ClosePage(textPage)
  }
}

function getText(pdfium: PdfiumModule, textPage: number, count: number): string {
  const buffer = pdfium._malloc((count + 1) * 2)
  if (!buffer) return ''
  try {
    const length = pdfium._FPDFText_GetText(textPage, 0, count, buffer) - 1
    return length > 0 ? new TextDecoder('utf-16le').decode(pdfium.HEAPU8.subarray(buffer, buffer + length * 2)) : ''
  } finally {
    pdfium._free(buffer)
  }
}

function fontName(pdfium: PdfiumModule, textPage: number, index: number): string {
  const bytes = readBytes(pdfium, (buffer, size) => pdfium._FPDFText_GetFontInfo(textPage, index, buffer, size, 0))
  return bytes ? Buffer.from(bytes.subarray(0, -1)).toString('latin1') : ''
}

interface Gaps {
  readonly count: number
  readonly codes: ReadonlyMap<string, number>
  readonly edits: Edits
}

/** Finds glyphs without a character. With `hasEmpty` some may be mapped to nothing, which PDFium writes as a hyphen at a line end. */
function findGaps(pdfium: PdfiumModule, textPage: number, length: number, hasEmpty: boolean): Gaps {
  const unmapped: { index: number; code: string; height: number }[] = []
  for (let index = 0; index < length; index++) {
    const isUnmapped = pdfium._FPDFText_HasUnicodeMapError(textPage, index) === 1
    if (!isUnmapped && !(hasEmpty && pdfium._FPDFText_GetUnicode(textPage, index) === 0)) continue
    const box = charBox(pdfium, textPage, index)
    const height = box && box.right > box.left ? box.top - box.bottom : 0
    unmapped.push({ index, code: String.fromCodePoint(pdfium._FPDFText_GetUnicode(textPage, index) & 0xffff), height })
  }
  const flatCodes = new Set(unmapped.filter(({ height }) => height > 0 && height <= flatHeight).map(({ code }) => code))
  // Glyphs without ink are spaces. If many are flat, PDFium cannot measure the font.
  const blankHeight = flatCodes.size <= maxSpaces ? flatHeight : 0
  const codes = new Map<string, number>()
  const edits: Edits = new Map()
  let count = 0
  for (const { index, code, height } of unmapped) {
    const isBlank = height <= blankHeight
    const isSymbol = !isBlank && symbolFonts.test(fontName(pdfium, textPage, index))
    edits.set(index, isBlank ? ' ' : isSymbol ? symbol : gap)
    if (isBlank || isSymbol) continue
    count++
    codes.set(code, (codes.get(code) ?? 0) + 1)
  }
  return { count, codes, edits }
}

/** Joins accents with the letters above or below them. In quotations and code, the same characters stand beside letters and stay. */
function composeAccents(pdfium: PdfiumModule, textPage: number, count: number): Edits {
  const edits: Edits = new Map()
  const letterAt = (i: number): string => (i >= 0 && i < count ? String.fromCodePoint(pdfium._FPDFText_GetUnicode(textPage, i)) : '')
  for (let i = 0; i < count; i++) {
    const accent = accents[letterAt(i)]
    const box = accent && charBox(pdfium, textPage, i)
    if (!accent || !box) continue
    for (const at of accentedPositions.map((offset) => i + offset)) {
      const letter = dotless[letterAt(at)] ?? letterAt(at)
      const base = /^\p{L}$/u.test(letter) ? charBox(pdfium, textPage, at) : null
      const composed = `${letter}${accent}`.normalize('NFC')
      if (!base || composed.length > 2 || !isOver(box, base)) continue
      edits.set(at, composed)
      edits.set(i, '')
      // Accents of formulas, such as x with tilde, end no word.
      const sides = composed.length > 1 || Math.abs(at - i) > maxDistanceInWord ? [at < i ? i - 1 : i + 1] : [i - 1, i + 1]
      for (const beside of sides) if (pdfium._FPDFText_IsGenerated(textPage, beside) === 1) edits.set(beside, '')
      break
    }
  }
  return edits
}

/** Possible positions of a letter relative to its accent, the nearest first. */
const accentedPositions = [1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8, -8]
/** Distance above which the accent stands before or behind the whole word. */
const maxDistanceInWord = 3

/** Returns whether the middle of an accent is between the sides of a letter, on the same line. */
function isOver(accent: Rectangle, letter: Rectangle): boolean {
  const middle = (accent.left + accent.right) / 2
  const height = letter.top - letter.bottom
  return middle >= letter.left && middle <= letter.right && accent.bottom >= letter.bottom - height && accent.top <= letter.top + height
}

const dotless: Readonly<Record<string, string>> = { ı: 'i', ȷ: 'j' }

/**
 * Applies edits. Indexes of characters and of the text differ, and PDFium counts code points. Characters that PDFium takes for control characters
 * have no index in the text, such as a space with code 3 in a font without a map. Their replacement follows the character before them.
 */
function applyEdits(pdfium: PdfiumModule, textPage: number, text: string, edits: Edits): string {
  const points = /[\ud800-\udfff]/.test(text) ? [...text] : text.split('')
  const omitted = new Map<number, number>()
  const inserted = new Map<number, string>()
  for (const [index, replacement] of edits) {
    const at = pdfium._FPDFText_GetTextIndexFromCharIndex(textPage, index)
    if (at >= 0 && at < points.length) points[at] = replacement
    if (at >= 0) continue
    const before = omitted.get(index - 1) ?? pdfium._FPDFText_GetTextIndexFromCharIndex(textPage, index - 1)
    omitted.set(index, before)
    inserted.set(before, (inserted.get(before) ?? '') + replacement)
  }
  const whole = inserted.size === 0 ? points : points.map((point, at) => point + (inserted.get(at) ?? ''))
  return whole.join('')
}

/** Returns the compounds with a hyphen in the text. */
export function findCompounds(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/(?<![\p{L}\p{N}])\p{L}+-\p{L}+/gu))
}

/** Joins words that were divided at line ends. Keeps the hyphen before capitals and digits, and in known compounds. */
export function joinHyphenatedWords(text: string, compounds: ReadonlySet<string>): string {
  if (!text.includes(softLineEnd)) return text
  return text.replace(/(\p{L}*)\ufffe\s*((\p{Ll}?)[\p{L}\p{M}]*)/gu, (_, head: string, tail: string, lowercase: string) =>
    lowercase === '' || compounds.has(`${head}-${tail}`.toLowerCase()) ? `${head}-${tail}` : head + tail,
  )
}
