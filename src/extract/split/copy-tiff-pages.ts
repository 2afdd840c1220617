/** Copies pages of a TIFF into a new TIFF without decoding them. */
import { ReadFailure } from '../../ports/document-reader.ts'
import { viewOf } from '../bytes.ts'
import { listDirectories, viewTiff } from '../readers/tiff.ts'

/** Bytes of a value by its type, from 1. */
const typeSizes = [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8]
const longType = 4
/** Offsets of pixel data, with the tag of their lengths. */
const lengthTags = new Map([
  [273, 279],
  [324, 325],
])
/** Offset of JPEG data in the old form. */
const unsupportedTags = new Set([513])
/** Smaller copies of the page (SubIFDs), EXIF, GPS and interoperability: directories that a page does without. */
const droppedTags = new Set([330, 34665, 34853, 40965])

interface Entry {
  tag: number
  type: number
  count: number
  value: Uint8Array
  /** offset of the value in the original; undefined in the entry itself */
  from?: number
}

/** Returns a TIFF with these pages, counted from 1. Throws ReadFailure FILE_CORRUPT, FILE_TOO_COMPLEX for BigTIFF and old JPEG. */
export function copyTiffPages(bytes: Uint8Array, pages: readonly number[]): Uint8Array {
  const tiff = viewTiff(bytes)
  if (!tiff) throw new ReadFailure('FILE_TOO_COMPLEX', 'A BigTIFF cannot be split.')
  const { view, isLittle } = tiff
  const directories = listDirectories(view, isLittle)
  const chunks: Uint8Array[] = []
  let length = 0
  const append = (chunk: Uint8Array): number => {
    const at = length
    const padding = chunk.length % 2
    chunks.push(chunk, new Uint8Array(padding))
    length += chunk.length + padding
    // Data can overlap. Copies may then become larger than the file.
    if (length > bytes.length + 1_000_000) throw new ReadFailure('FILE_TOO_COMPLEX', 'The data of the TIFF overlap.')
    return at
  }
  const copies = new Map<string, number>()
  /** Copies bytes of the original once: pages can share data, such as a colour profile. Returns the new offset. */
  const copy = (start: number, size: number): number => {
    const key = `${start} ${size}`
    const at = copies.get(key) ?? append(bytes.subarray(start, start + size))
    copies.set(key, at)
    return at
  }
  const header = bytes.slice(0, 8)
  append(header)
  let link = { in: header, at: 4 }
  for (const page of pages) {
    const source = directories[page - 1]
    if (!source) throw new ReadFailure('FILE_CORRUPT', 'A page of the TIFF is missing.')
    const directory = writeDirectory(readEntries(view, source, isLittle), { bytes, isLittle, append, copy })
    new DataView(link.in.buffer).setUint32(link.at, append(directory), isLittle)
    link = { in: directory, at: directory.length - 4 }
  }
  return Buffer.concat(chunks)
}

function readEntries(view: DataView, { start, end }: { start: number; end: number }, isLittle: boolean): Entry[] {
  const entries: Entry[] = []
  for (let at = start; at < end; at += 12) {
    const [tag, type, count] = [view.getUint16(at, isLittle), view.getUint16(at + 2, isLittle), view.getUint32(at + 4, isLittle)]
    if (unsupportedTags.has(tag)) throw new ReadFailure('FILE_TOO_COMPLEX', `The TIFF has the tag ${tag}, which cannot be copied.`)
    const size = count * (typeSizes[type] ?? 0)
    if (droppedTags.has(tag) || size === 0) continue
    const from = size <= 4 ? at + 8 : view.getUint32(at + 8, isLittle)
    if (from + size > view.byteLength) throw new ReadFailure('FILE_CORRUPT')
    entries.push({ tag, type, count, value: new Uint8Array(view.buffer, view.byteOffset + from, size), ...(size > 4 && { from }) })
  }
  return entries
}

interface Target {
  bytes: Uint8Array
  isLittle: boolean
  /** Appends to the new file and returns the offset. */
  append(chunk: Uint8Array): number
  /** Copies bytes of the original and returns the new offset. */
  copy(start: number, size: number): number
}

/** Appends the values and the pixel data of a directory. Returns the directory with 0 as the link to the next one. */
function writeDirectory(entries: readonly Entry[], { bytes, isLittle, append, copy }: Target): Uint8Array<ArrayBuffer> {
  const directory = new Uint8Array(2 + entries.length * 12 + 4)
  const view = new DataView(directory.buffer)
  view.setUint16(0, entries.length, isLittle)
  const byTag = new Map(entries.map((entry) => [entry.tag, entry]))
  for (const [index, entry] of entries.entries()) {
    const lengths = byTag.get(lengthTags.get(entry.tag) ?? -1)
    const { tag, type, count, value, from }: Entry = lengths ? copyData(entry, lengths) : entry
    const at = 2 + index * 12
    view.setUint16(at, tag, isLittle)
    view.setUint16(at + 2, type, isLittle)
    view.setUint32(at + 4, count, isLittle)
    if (value.length <= 4) directory.set(value, at + 8)
    else view.setUint32(at + 8, from === undefined ? append(value) : copy(from, value.length), isLittle)
  }
  return directory

  /** Copies the data that the entry points to. Returns the entry with the new offsets. */
  function copyData(entry: Entry, lengths: Entry): Entry {
    const [offsets, sizes] = [readNumbers(entry, isLittle), readNumbers(lengths, isLittle)]
    const value = new Uint8Array(offsets.length * 4)
    for (const [index, offset] of offsets.entries()) {
      const size = sizes[index] ?? 0
      if (offset + size > bytes.length) throw new ReadFailure('FILE_CORRUPT')
      new DataView(value.buffer).setUint32(index * 4, copy(offset, size), isLittle)
    }
    return { tag: entry.tag, type: longType, count: entry.count, value }
  }
}

function readNumbers({ type, count, value }: Entry, isLittle: boolean): number[] {
  const view = viewOf(value)
  if (type !== 3 && type !== longType) throw new ReadFailure('FILE_CORRUPT')
  return Array.from({ length: count }, (_, i) => (type === 3 ? view.getUint16(i * 2, isLittle) : view.getUint32(i * 4, isLittle)))
}
