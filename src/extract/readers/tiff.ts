/** Directories of a TIFF. Structure and tags: TIFF Revision 6.0. */
import type { Box } from '../opened-document.ts'

const tags = { width: 256, height: 257, orientation: 274 } as const
/** Lowest orientation that swaps width and height. */
const firstSwapped = 5

/** Returns a view of a TIFF and its byte order. Returns null for a BigTIFF. */
export function viewTiff(bytes: Uint8Array): { view: DataView; isLittle: boolean } | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const isLittle = bytes[0] === 0x49
  return bytes.length < 8 || view.getUint16(2, isLittle) !== 42 ? null : { view, isLittle }
}

/** Returns the start and end of the entries of each page's directory. Stops at a truncated directory. */
export function listDirectories(view: DataView, isLittle: boolean): { start: number; end: number }[] {
  const directories = new Map<number, { start: number; end: number }>()
  for (let at = view.getUint32(4, isLittle); at > 0 && at + 2 <= view.byteLength && !directories.has(at); ) {
    const end = at + 2 + view.getUint16(at, isLittle) * 12
    if (end + 4 > view.byteLength) break
    directories.set(at, { start: at + 2, end })
    at = view.getUint32(end, isLittle)
  }
  return [...directories.values()]
}

/**
 * Reads the sizes of at most `limit` TIFF pages, after rotation, from their directories. Returns null for a BigTIFF.
 * libvips walks through all directories for each page.
 */
export function readTiffPages(bytes: Uint8Array, limit: number): { count: number; sizes: Box[] } | null {
  const tiff = viewTiff(bytes)
  if (!tiff) return null
  const directories = listDirectories(tiff.view, tiff.isLittle)
  const sizes = directories.slice(0, limit).map(({ start, end }) => readTiffSize(tiff.view, start, end, tiff.isLittle))
  return { count: directories.length, sizes }
}

function readTiffSize(view: DataView, start: number, end: number, isLittle: boolean): Box {
  const values = new Map<number, number>()
  for (let at = start; at < end; at += 12) {
    const isShort = view.getUint16(at + 2, isLittle) === 3
    values.set(view.getUint16(at, isLittle), isShort ? view.getUint16(at + 8, isLittle) : view.getUint32(at + 8, isLittle))
  }
  const width = values.get(tags.width) ?? 0
  const height = values.get(tags.height) ?? 0
  return (values.get(tags.orientation) ?? 1) >= firstSwapped ? { width: height, height: width } : { width, height }
}
