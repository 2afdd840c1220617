/** Sizes of the pages of a TIFF, by its directories: asking libvips costs a walk through all of them for each. */
import type { Box } from '../opened-document.ts'

const tags = { width: 256, height: 257, orientation: 274 } as const
const firstTurned = 5

/** Sizes of the first pages as they are seen, at most `most`; null for a file that is not a plain TIFF. */
export function readTiffPages(bytes: Uint8Array, most: number): { count: number; sizes: Box[] } | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const isLittle = bytes[0] === 0x49
  if (bytes.length < 8 || view.getUint16(2, isLittle) !== 42) return null
  const seen = new Set<number>()
  const sizes: Box[] = []
  for (let at = view.getUint32(4, isLittle); at > 0 && at + 2 <= bytes.length && !seen.has(at); ) {
    seen.add(at)
    const entries = view.getUint16(at, isLittle)
    const end = at + 2 + entries * 12
    if (end + 4 > bytes.length) break
    if (sizes.length < most) sizes.push(sizeOf(view, at + 2, end, isLittle))
    at = view.getUint32(end, isLittle)
  }
  return { count: seen.size, sizes }
}

function sizeOf(view: DataView, start: number, end: number, isLittle: boolean): Box {
  const found = new Map<number, number>()
  for (let at = start; at < end; at += 12) {
    const isShort = view.getUint16(at + 2, isLittle) === 3
    found.set(view.getUint16(at, isLittle), isShort ? view.getUint16(at + 8, isLittle) : view.getUint32(at + 8, isLittle))
  }
  const width = found.get(tags.width) ?? 0
  const height = found.get(tags.height) ?? 0
  return (found.get(tags.orientation) ?? 1) >= firstTurned ? { width: height, height: width } : { width, height }
}
