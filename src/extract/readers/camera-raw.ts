/** Preview images in raw files of cameras that are TIFFs: CR2, NEF, DNG, ARW, PEF, SRW. */
import { findJpegFrame } from './jpeg.ts'
import { listDirectories, viewTiff } from './tiff.ts'

const tags = { strips: 273, stripSizes: 279, subDirectories: 330, jpeg: 513, jpegSize: 514 } as const
const maxDirectories = 64

/** Returns the largest JPEG image of a raw file; null if there is none. Does not search maker notes. */
export function findPreview(bytes: Uint8Array): Uint8Array | null {
  const tiff = viewTiff(bytes)
  if (!tiff) return null
  const { view, isLittle } = tiff
  const directories = listDirectories(view, isLittle)
  let best: Uint8Array | null = null
  for (let next = 0; next < Math.min(directories.length, maxDirectories); next++) {
    const values = readValues(view, directories[next]!, isLittle)
    for (const at of values.get(tags.subDirectories) ?? []) directories.push(...directoryAt(view, at, isLittle))
    for (const [offsets, sizes] of [
      [tags.jpeg, tags.jpegSize],
      [tags.strips, tags.stripSizes],
    ] as const) {
      const [[start], [size]] = [values.get(offsets) ?? [], values.get(sizes) ?? []]
      if (start === undefined || size === undefined) continue
      const image = bytes.subarray(start, start + size)
      // Cameras store their raw pixels as lossless JPEG.
      const frame = findJpegFrame(image)
      if (frame !== null && image[frame + 1]! <= 0xc2 && image.length > (best?.length ?? 0)) best = image
    }
  }
  return best
}

/** Returns the directory at an offset; empty if it is not in the file. */
function directoryAt(view: DataView, at: number, isLittle: boolean): { start: number; end: number }[] {
  if (at < 8 || at + 2 > view.byteLength) return []
  const end = at + 2 + view.getUint16(at, isLittle) * 12
  return end > view.byteLength ? [] : [{ start: at + 2, end }]
}

const bytesOf: Readonly<Record<number, number>> = { 3: 2, 4: 4, 13: 4 }

/** Reads up to `maxDirectories` numbers of each entry. */
function readValues(view: DataView, { start, end }: { start: number; end: number }, isLittle: boolean): Map<number, number[]> {
  const values = new Map<number, number[]>()
  for (let at = start; at < end; at += 12) {
    const size = bytesOf[view.getUint16(at + 2, isLittle)]
    if (size === undefined) continue
    const count = view.getUint32(at + 4, isLittle)
    const from = count * size <= 4 ? at + 8 : view.getUint32(at + 8, isLittle)
    const numbers: number[] = []
    for (let i = 0; i < Math.min(count, maxDirectories) && from + (i + 1) * size <= view.byteLength; i++)
      numbers.push(size === 2 ? view.getUint16(from + i * size, isLittle) : view.getUint32(from + i * size, isLittle))
    values.set(view.getUint16(at, isLittle), numbers)
  }
  return values
}
