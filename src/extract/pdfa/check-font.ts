/** Checks fonts of PDFs against ISO 19005-2, 6.2.11. Only TrueType programs can be checked; other fonts count as problems. */
import { decodePDFRawStream, PDFArray, PDFDict, PDFName, PDFNumber, PDFRawStream } from '@cantoo/pdf-lib'
import { readTrueType, type TrueType } from './true-type.ts'

/** Difference of widths that PDF/A allows, in thousandths of an em. */
const maxDifference = 1
const symbolicFlag = 4
/** Unicode values of WinAnsiEncoding from 0x80 to 0x9F; 0: none. */
const winAnsi = [
  ...[0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017d, 0],
  ...[0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178],
]

/** Bytes of a code of the font: 2 for composite fonts. */
export const codeSize = (font: PDFDict): 1 | 2 => (nameOf(font, 'Subtype') === 'Type0' ? 2 : 1)

/** Returns why text in this font with these codes does not conform; null if it does. Removes optional lists of glyphs, which are often wrong. */
export function checkFont(font: PDFDict, codes: ReadonlySet<number>): string | null {
  const label = nameOf(font, 'BaseFont')?.replace(/^[A-Z]{6}\+/, '') ?? 'without a name'
  try {
    const problem = nameOf(font, 'Subtype') === 'Type0' ? checkComposite(font, codes) : checkSimple(font, codes)
    return problem && `the font ${label} ${problem}`
  } catch {
    return `the font ${label} is damaged`
  }
}

function checkSimple(font: PDFDict, codes: ReadonlySet<number>): string | null {
  const descriptor = font.lookupMaybe(PDFName.of('FontDescriptor'), PDFDict)
  const program = descriptor && loadProgram(descriptor)
  if (!descriptor || !program) return unusable(descriptor)
  if (nameOf(font, 'Subtype') !== 'TrueType') return 'is not a TrueType font, which cannot be checked'
  const isSymbolic = (numberOf(descriptor, 'Flags') & symbolicFlag) !== 0
  const encoding = nameOf(font, 'Encoding')
  if (isSymbolic ? font.has(PDFName.of('Encoding')) : encoding !== 'WinAnsiEncoding') return 'has an encoding that cannot be checked'
  if (isSymbolic && program.maps.size !== 1 && !program.maps.has('3,0')) return 'has several character maps'
  const glyphOf = isSymbolic ? symbolicGlyph(program) : (code: number) => program.maps.get('3,1')?.(winAnsiUnicode(code)) ?? 0
  const unicode = readUnicodeMap(font)
  const widths = font.lookup(PDFName.of('Widths'), PDFArray)
  const first = numberOf(font, 'FirstChar')
  for (const code of codes) {
    const glyph = glyphOf(code)
    if (glyph === 0 || glyph >= program.glyphCount) return 'lacks glyphs of its text'
    const width = code - first < widths.size() ? (widths.lookup(code - first, PDFNumber).asNumber() ?? 0) : Number.NaN
    if (!(Math.abs(width - program.width(glyph)) <= maxDifference)) return 'has other widths than the PDF says'
    if (!isValidUnicode(unicode?.get(code) ?? (isSymbolic ? undefined : String.fromCharCode(winAnsiUnicode(code))))) return withoutUnicode
  }
  return null
}

const withoutUnicode = 'does not say which characters its glyphs are'

function unusable(descriptor: PDFDict | undefined): string {
  const isEmbedded = descriptor && ['FontFile', 'FontFile3'].some((name) => descriptor.has(PDFName.of(name)))
  return isEmbedded ? 'is not a TrueType font, which cannot be checked' : 'is not embedded'
}

const winAnsiUnicode = (code: number): number => (code >= 0x80 && code < 0xa0 ? (winAnsi[code - 0x80] ?? 0) : code)

function symbolicGlyph({ maps }: TrueType): (code: number) => number {
  const map = maps.get('3,0') ?? [...maps.values()][0]
  return (code) => map?.(code) || map?.(0xf000 + code) || 0
}

function checkComposite(font: PDFDict, codes: ReadonlySet<number>): string | null {
  if (!['Identity-H', 'Identity-V'].includes(nameOf(font, 'Encoding') ?? '')) return 'has an encoding that cannot be checked'
  const descendant = font.lookup(PDFName.of('DescendantFonts'), PDFArray).lookup(0, PDFDict)
  const descriptor = descendant.lookup(PDFName.of('FontDescriptor'), PDFDict)
  const program = loadProgram(descriptor)
  if (!program || nameOf(descendant, 'Subtype') !== 'CIDFontType2') return unusable(descriptor)
  const map = descendant.lookup(PDFName.of('CIDToGIDMap'))
  if (!(map instanceof PDFRawStream) && map !== PDFName.of('Identity')) return 'does not map its characters to glyphs'
  const glyphs = map instanceof PDFRawStream ? Buffer.from(decodePDFRawStream(map).decode()) : null
  const unicode = readUnicodeMap(font)
  const widths = readCidWidths(descendant)
  for (const code of codes) {
    const glyph = glyphs ? (code * 2 + 1 < glyphs.length ? glyphs.readUInt16BE(code * 2) : 0) : code
    if (glyph === 0 || glyph >= program.glyphCount) return 'lacks glyphs of its text'
    if (Math.abs((widths.get(code) ?? numberOf(descendant, 'DW', 1000)) - program.width(glyph)) > maxDifference)
      return 'has other widths than the PDF says'
    if (!isValidUnicode(unicode?.get(code))) return withoutUnicode
  }
  return null
}

function loadProgram(descriptor: PDFDict): TrueType | null {
  for (const name of ['CIDSet', 'CharSet']) descriptor.delete(PDFName.of(name))
  const stream = descriptor.lookup(PDFName.of('FontFile2'))
  return stream instanceof PDFRawStream ? readTrueType(decodePDFRawStream(stream).decode()) : null
}

/** Reads the array W: `first [w1 w2 …]` and `first last w`. */
function readCidWidths(font: PDFDict): Map<number, number> {
  const widths = new Map<number, number>()
  const list = font.lookupMaybe(PDFName.of('W'), PDFArray)
  if (!list) return widths
  for (let at = 0; at + 1 < list.size(); ) {
    const first = list.lookup(at, PDFNumber).asNumber()
    const second = list.lookup(at + 1)
    if (second instanceof PDFArray) {
      for (let i = 0; i < second.size(); i++) widths.set(first + i, second.lookup(i, PDFNumber).asNumber())
      at += 2
    } else {
      const last = Math.min((second as PDFNumber).asNumber(), 0xffff)
      for (let code = first; code <= last; code++) widths.set(code, list.lookup(at + 2, PDFNumber).asNumber())
      at += 3
    }
  }
  return widths
}

/** Reads the sections bfchar and bfrange of a ToUnicode map; null without one. */
function readUnicodeMap(font: PDFDict): Map<number, string> | null {
  const stream = font.lookup(PDFName.of('ToUnicode'))
  if (!(stream instanceof PDFRawStream)) return null
  const text = Buffer.from(decodePDFRawStream(stream).decode()).toString('latin1')
  const map = new Map<number, string>()
  const decode = (hex: string): string => Buffer.from(hex.replace(/\s/g, ''), 'hex').swap16().toString('utf16le')
  for (const [, section = ''] of text.matchAll(/beginbfchar(.*?)endbfchar/gs))
    for (const [, code = '', value = ''] of section.matchAll(/<([0-9a-f\s]+)>\s*<([0-9a-f\s]*)>/gi))
      map.set(Number.parseInt(code, 16), decode(value))
  for (const [, section = ''] of text.matchAll(/beginbfrange(.*?)endbfrange/gs)) {
    for (const [, from = '', to = '', value, list] of section.matchAll(/<([0-9a-f]+)>\s*<([0-9a-f]+)>\s*(?:<([0-9a-f]+)>|\[(.*?)\])/gis)) {
      const [first, last] = [Number.parseInt(from, 16), Math.min(Number.parseInt(to, 16), 0xffff)]
      const values = list === undefined ? null : Array.from(list.matchAll(/<([0-9a-f]+)>/gi), ([, hex = '']) => decode(hex))
      for (let code = first; code <= last; code++) {
        const start = value === undefined ? '' : decode(value)
        const shifted = start.slice(0, -1) + String.fromCharCode(start.charCodeAt(start.length - 1) + code - first)
        map.set(code, values ? (values[code - first] ?? '') : shifted)
      }
    }
  }
  return map
}

const isValidUnicode = (text: string | undefined): boolean => text !== undefined && text !== '' && !/[\0\uFEFF\uFFFE]/.test(text)

export const nameOf = (dictionary: PDFDict, key: string): string | undefined => {
  const value = dictionary.lookup(PDFName.of(key))
  return value instanceof PDFName ? value.decodeText() : undefined
}

const numberOf = (dictionary: PDFDict, key: string, missing = 0): number => {
  const value = dictionary.lookup(PDFName.of(key))
  return value instanceof PDFNumber ? value.asNumber() : missing
}
