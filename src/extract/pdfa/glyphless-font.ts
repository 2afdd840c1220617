/**
 * Font without visible glyphs for the text behind pictures of pages, as in the PDF renderer of Tesseract (pdf.ttf): every character is the same empty
 * glyph. A ToUnicode map assigns the characters. PDF 32000-1, 9.7.4 (CIDFonts) and 9.10.3 (ToUnicode).
 */
import { type PDFRawStream, type PDFRef, PDFString } from '@cantoo/pdf-lib'
import { slicesOf } from '../../slices.ts'
import { deflated, type PdfContext } from './streams.ts'

/** Units of an em, and the advance of the glyph in them. */
const unitsPerEm = 1000
/** Advance of every character, as a share of the font size. */
export const advance = 0.5
/** Maximum entries of one section of a CMap. */
const maxSection = 100
/** Characters with codes of two bytes. Code 0 stays unused. */
const maxCharacters = 0xffff

/** Name of the font in the resources of pages. */
export const fontName = 'DmsText'

export interface GlyphlessFont {
  /**
   * Returns the codes of a text as a literal string in Latin-1, which compresses better than hexadecimal digits. Leaves out characters after the
   * first 65,535 different ones.
   */
  encode(text: string): { string: string; length: number }
  /** Writes the font with the characters that were encoded. */
  write(ref: PDFRef): void
}

/** Creates a font for one document. */
export function createGlyphlessFont(context: PdfContext): GlyphlessFont {
  const codes = new Map<string, number>()

  function codeOf(character: string): number | undefined {
    const known = codes.get(character)
    if (known !== undefined || codes.size >= maxCharacters) return known
    codes.set(character, codes.size + 1)
    return codes.size
  }

  return {
    encode(text) {
      const found = [...text].flatMap((character) => codeOf(character) ?? [])
      const bytes = found.map((code) => String.fromCharCode(code >> 8, code & 0xff)).join('')
      return { string: `(${bytes.replace(/[()\\]/g, '\\$&').replaceAll('\r', '\\r')})`, length: found.length }
    },
    write(ref) {
      const systemInfo = { Registry: PDFString.of('Adobe'), Ordering: PDFString.of('Identity'), Supplement: 0 }
      const descriptor = context.register(
        context.obj({
          Type: 'FontDescriptor',
          FontName: 'GlyphLess',
          Flags: 4,
          FontBBox: [0, 0, advance * unitsPerEm, unitsPerEm],
          ItalicAngle: 0,
          Ascent: unitsPerEm,
          Descent: 0,
          CapHeight: unitsPerEm,
          StemV: 80,
          FontFile2: context.register(deflated(context, fontProgram())),
        }),
      )
      const descendant = context.register(
        context.obj({
          Type: 'Font',
          Subtype: 'CIDFontType2',
          BaseFont: 'GlyphLess',
          CIDSystemInfo: systemInfo,
          FontDescriptor: descriptor,
          DW: advance * unitsPerEm,
          CIDToGIDMap: context.register(glyphMap(context, codes.size)),
        }),
      )
      context.assign(
        ref,
        context.obj({
          Type: 'Font',
          Subtype: 'Type0',
          BaseFont: 'GlyphLess',
          Encoding: 'Identity-H',
          DescendantFonts: [descendant],
          ToUnicode: context.register(deflated(context, Buffer.from(unicodeMap(codes)))),
        }),
      )
    },
  }
}

/** Maps every code to glyph 1. Glyph 0 is .notdef, which PDF/A forbids. */
function glyphMap(context: PdfContext, count: number): PDFRawStream {
  const map = Buffer.alloc((count + 1) * 2)
  for (let code = 1; code <= count; code++) map.writeUInt16BE(1, code * 2)
  return deflated(context, map)
}

function unicodeMap(codes: ReadonlyMap<string, number>): string {
  const entries = Array.from(codes, ([character, code]) => {
    const utf16 = Buffer.from(character, 'utf16le').swap16().toString('hex')
    return `<${code.toString(16).padStart(4, '0')}> <${utf16}>`
  })
  const sections = [...slicesOf(entries, maxSection)].map((section) => `${section.length} beginbfchar\n${section.join('\n')}\nendbfchar`)
  return `/CIDInit /ProcSet findresource begin
12 dict begin
begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def
/CMapType 2 def
1 begincodespacerange
<0000> <FFFF>
endcodespacerange
${sections.join('\n')}
endcmap
CMapName currentdict /CMap defineresource pop
end
end
`
}

/** Returns a TrueType font of two empty glyphs. The OpenType specification describes the tables. */
function fontProgram(): Buffer {
  const width = advance * unitsPerEm
  const int16 = (...values: number[]): Buffer => Buffer.from(Int16Array.from(values).buffer).swap16()
  const int32 = (...values: number[]): Buffer => Buffer.from(Int32Array.from(values).buffer).swap32()
  const tables: Record<string, Buffer> = {
    // One subtable of format 4, with the segment that ends every such subtable: no character is mapped.
    cmap: int16(0, 1, 3, 1, 0, 12, 4, 24, 0, 2, 2, 0, 0, -1, 0, -1, 1, 0),
    glyf: Buffer.alloc(4),
    head: Buffer.concat([
      int32(0x00010000, 0x00010000, 0, 0x5f0f3cf5),
      int16(0, unitsPerEm),
      int32(0, 0, 0, 0),
      int16(0, 0, width, unitsPerEm, 0, 8, 2, 1, 0),
    ]),
    hhea: Buffer.concat([int32(0x00010000), int16(unitsPerEm, 0, 0, width, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)]),
    hmtx: int16(width, 0, 0),
    loca: int32(0, 0, 0),
    maxp: Buffer.concat([int32(0x00010000), int16(2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)]),
    post: Buffer.concat([int32(0x00030000, 0), int16(0, 0), int32(0, 0, 0, 0, 0)]),
  }
  return assembleFont(tables)
}

/** Offset of the checksum of the whole font in the table `head`, and the number that it is subtracted from. */
const adjustmentOffset = 8
const adjustmentBase = 0xb1b0afba

function assembleFont(tables: Record<string, Buffer>): Buffer {
  const names = Object.keys(tables).sort()
  const directory = Buffer.alloc(12 + names.length * 16)
  const log = Math.floor(Math.log2(names.length))
  directory.writeUInt32BE(0x00010000, 0)
  for (const [i, value] of [names.length, 2 ** log * 16, log, (names.length - 2 ** log) * 16].entries())
    directory.writeUInt16BE(value, 4 + i * 2)
  let offset = directory.length
  let headOffset = 0
  const bodies = names.map((name, i) => {
    const table = tables[name]!
    const at = 12 + i * 16
    directory.write(name.padEnd(4), at, 'latin1')
    for (const [nth, value] of [checksum(table), offset, table.length].entries()) directory.writeUInt32BE(value, at + 4 + nth * 4)
    if (name === 'head') headOffset = offset
    const padded = Buffer.concat([table, Buffer.alloc(-table.length & 3)])
    offset += padded.length
    return padded
  })
  const font = Buffer.concat([directory, ...bodies])
  font.writeUInt32BE((adjustmentBase - checksum(font)) >>> 0, headOffset + adjustmentOffset)
  return font
}

/** Sum of the 32-bit words, modulo 2 ** 32. */
function checksum(bytes: Buffer): number {
  const padded = Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)])
  let sum = 0
  for (let at = 0; at < padded.length; at += 4) sum = (sum + padded.readUInt32BE(at)) >>> 0
  return sum
}
