/** Glyphs of an embedded TrueType font: their number, widths and codes. The OpenType specification describes the tables. */
import { viewOf } from '../bytes.ts'

export interface TrueType {
  readonly glyphCount: number
  /** Returns the advance of a glyph in thousandths of an em. */
  width(glyph: number): number
  /** Character maps by platform and encoding, such as `3,1`. */
  readonly maps: ReadonlyMap<string, (code: number) => number>
}

/** Reads a font program. Throws if tables are missing or damaged. */
export function readTrueType(bytes: Uint8Array): TrueType {
  const view = viewOf(bytes)
  const tables = new Map<string, number>()
  for (let i = 0; i < view.getUint16(4); i++) {
    const at = 12 + i * 16
    tables.set(Buffer.from(bytes.subarray(at, at + 4)).toString('latin1'), view.getUint32(at + 8))
  }
  const offset = (name: string): number => {
    const at = tables.get(name)
    if (at === undefined) throw new Error(`the font has no table ${name}`)
    return at
  }
  offset('glyf')
  offset('loca')
  const unitsPerEm = view.getUint16(offset('head') + 18)
  const glyphCount = view.getUint16(offset('maxp') + 4)
  const metricCount = view.getUint16(offset('hhea') + 34)
  const hmtx = offset('hmtx')
  if (metricCount === 0 || unitsPerEm === 0) throw new Error('the font has no widths')
  const cmap = tables.get('cmap')
  const maps = new Map<string, (code: number) => number>()
  for (let i = 0; cmap !== undefined && i < view.getUint16(cmap + 2); i++) {
    const at = cmap + 4 + i * 8
    const start = cmap + view.getUint32(at + 4)
    maps.set(`${view.getUint16(at)},${view.getUint16(at + 2)}`, (code) => glyphOf(view, start, code))
  }
  return {
    glyphCount,
    maps,
    width: (glyph) => (view.getUint16(hmtx + Math.min(glyph, metricCount - 1) * 4) * 1000) / unitsPerEm,
  }
}

/** Returns the glyph of a code in a subtable of format 0, 4, 6 or 12; 0 in any other. */
function glyphOf(view: DataView, start: number, code: number): number {
  const format = view.getUint16(start)
  if (format === 0) return code < 256 ? view.getUint8(start + 6 + code) : 0
  if (format === 6) {
    const first = view.getUint16(start + 6)
    return code >= first && code < first + view.getUint16(start + 8) ? view.getUint16(start + 10 + (code - first) * 2) : 0
  }
  if (format === 12) {
    for (let group = 0; group < view.getUint32(start + 12); group++) {
      const at = start + 16 + group * 12
      const first = view.getUint32(at)
      if (code >= first && code <= view.getUint32(at + 4)) return view.getUint32(at + 8) + code - first
    }
    return 0
  }
  return format === 4 ? glyphOfSegment(view, start, code) : 0
}

function glyphOfSegment(view: DataView, start: number, code: number): number {
  const size = view.getUint16(start + 6)
  for (let at = 0; at < size; at += 2) {
    if (code > view.getUint16(start + 14 + at)) continue
    const first = view.getUint16(start + 16 + size + at)
    if (code < first) return 0
    const delta = view.getUint16(start + 16 + size * 2 + at)
    const place = start + 16 + size * 3 + at
    const range = view.getUint16(place)
    if (range === 0) return (code + delta) & 0xffff
    const glyph = view.getUint16(place + range + (code - first) * 2)
    return glyph === 0 ? 0 : (glyph + delta) & 0xffff
  }
  return 0
}
