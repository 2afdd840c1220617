/** Reader of XPS and OpenXPS (ECMA-388). */
import type { ByteSource, OpenedDocument } from '../../opened-document.ts'
import { openTextOnly } from '../../opened-document.ts'
import { compareNumbered } from '../../parts.ts'
import { createTextSink, normalizeWhitespace } from '../decode.ts'
import { decodeXml, walkXml } from '../markup.ts'
import { openArchive } from '../zip.ts'

/** Share of the font size by which the text moves to another line. */
const lineShare = 0.5
/** Share of the font size between two runs that is a space. */
const spaceShare = 0.15

/** Returns whether the part is a page. */
export const isXpsPage = (name: string): boolean => /\.fpage(\/\[0\](\.last)?\.piece)?$/i.test(name)

/** Reads the runs of glyphs of each page, in their order. */
export const openXps = (source: ByteSource): OpenedDocument =>
  openTextOnly(async () => {
    const archive = openArchive(source.read())
    const pages = archive.names.filter(isXpsPage).sort(compareNumbered)
    const sink = createTextSink()
    for (const name of pages) {
      if (sink.isFull) break
      readPage(decodeXml(archive.readPart(name) ?? new Uint8Array()), (text) => sink.add(text))
      sink.add('\n\n')
    }
    return { text: normalizeWhitespace(sink.text()), metadata: {} }
  })

function readPage(xml: string, add: (text: string) => void): void {
  let last: { start: number; end: number; y: number } | undefined
  walkXml(xml, {
    open(name, { UnicodeString: text = '', OriginX = '', OriginY = '', FontRenderingEmSize = '', Indices = '', BidiLevel = '' }) {
      if (name !== 'Glyphs' || text === '') return
      const [x, y, size] = [Number(OriginX) || 0, Number(OriginY) || 0, Number(FontRenderingEmSize) || 1]
      if (last && Math.abs(y - last.y) > lineShare * size) add('\n')
      else if (last && (x - last.end > spaceShare * size || (x < last.start && !isRightToLeft(BidiLevel)))) add(' ')
      // A brace at the start escapes the others.
      const letters = text.replace(/^\{\}/, '')
      add(letters)
      last = { start: x, end: x + widthOf(letters, Indices, size), y }
    },
  })
}

/** Returns whether letters stand to the left of those before them (UAX #9: odd levels). */
const isRightToLeft = (bidiLevel: string): boolean => Number(bidiLevel) % 2 === 1

/** Returns the width of letters in font sizes from the advances of their glyphs. A glyph without an advance has half a font size. */
function widthOf(letters: string, indices: string, size: number): number {
  const advances = indices.split(';').map((entry) => Number(entry.split(',')[1] || Number.NaN))
  let width = 0
  for (let i = 0; i < letters.length; i++) width += Number.isFinite(advances[i]) ? (advances[i] ?? 0) / 100 : 0.5
  return width * size
}
