/** Directories of a TIFF. Structure and tags: TIFF Revision 6.0. */

import { viewOf } from '../bytes.ts'
import type { Box } from '../opened-document.ts'

const tags = { kind: 254, width: 256, height: 257, orientation: 274, xResolution: 282, yResolution: 283 } as const
const rationalType = 5
/** Ratio of the resolutions of a page from which its pixels are not square. Faxes have 2.1 (204 × 98 dpi) or 0.5 (204 × 391 dpi); others are errors. */
const oblong = { tolerance: 0.1, min: 0.4, max: 2.5 }
/** Flag of the kind. */
const reducedFlag = 1
/** Lowest orientation that swaps width and height. */
const firstSwapped = 5

/** Returns a view of a TIFF and its byte order. Returns null for a BigTIFF. */
export function viewTiff(bytes: Uint8Array): { view: DataView; isLittle: boolean } | null {
  const view = viewOf(bytes)
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

/** A page after its rotation. */
export interface TiffPage extends Box {
  /** The pixels are not square. The size is that of square pixels with the horizontal resolution. */
  readonly isOblong: boolean
  /** The file declares the page as a smaller copy of another one. */
  readonly isReduced: boolean
}

/**
 * Reads the sizes of the TIFF pages from their directories. Returns null for a BigTIFF.
 * libvips walks through all directories for each page.
 */
export function readTiffPages(bytes: Uint8Array): TiffPage[] | null {
  const tiff = viewTiff(bytes)
  if (!tiff) return null
  return listDirectories(tiff.view, tiff.isLittle).map(({ start, end }) => readTiffPage(tiff.view, start, end, tiff.isLittle))
}

function readTiffPage(view: DataView, start: number, end: number, isLittle: boolean): TiffPage {
  const values = new Map<number, number>()
  for (let at = start; at < end; at += 12) {
    const type = view.getUint16(at + 2, isLittle)
    const value = type === 3 ? view.getUint16(at + 8, isLittle) : view.getUint32(at + 8, isLittle)
    values.set(view.getUint16(at, isLittle), type === rationalType ? readRational(view, value, isLittle) : value)
  }
  const width = values.get(tags.width) ?? 0
  const ratio = (values.get(tags.xResolution) ?? 1) / (values.get(tags.yResolution) ?? 1)
  const isOblong = Math.abs(ratio - 1) > oblong.tolerance && ratio > oblong.min && ratio < oblong.max
  const height = Math.round((values.get(tags.height) ?? 0) * (isOblong ? ratio : 1))
  const isSwapped = (values.get(tags.orientation) ?? 1) >= firstSwapped
  const isReduced = ((values.get(tags.kind) ?? 0) & reducedFlag) !== 0
  return { ...(isSwapped ? { width: height, height: width } : { width, height }), isOblong, isReduced }
}

const readRational = (view: DataView, at: number, isLittle: boolean): number =>
  at + 8 > view.byteLength ? Number.NaN : view.getUint32(at, isLittle) / view.getUint32(at + 4, isLittle)
