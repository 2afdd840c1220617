/** Decoder of Windows bitmaps, which libvips does not support. */
import { ReadFailure } from '../../ports/document-reader.ts'
import { viewOf } from '../bytes.ts'

const corruptFailure = (): ReadFailure => new ReadFailure('FILE_CORRUPT', 'The bitmap is damaged.')

interface Header {
  start: number
  width: number
  height: number
  isTopDown: boolean
  bits: number
  compression: number
  palette: Uint8Array
  paletteStep: number
  masks: readonly number[]
}

/** Decodes to RGB rows from the top: 1 to 32 bits per pixel, bit fields, or 8-bit run-length encoding. Missing rows stay white. */
export function decodeBmp(bytes: Uint8Array, maxPixels: number): { pixels: Uint8Array; width: number; height: number } {
  const header = readHeader(bytes)
  const { width, height } = header
  if (width * height > maxPixels) throw new ReadFailure('FILE_TOO_COMPLEX', `The picture has ${width} × ${height} pixels.`)
  const pixels = new Uint8Array(width * height * 3).fill(255)
  const rows =
    header.compression === 1
      ? { bits: 8, data: decodeRunLengths(bytes.subarray(header.start), width, height) }
      : { bits: header.bits, data: bytes.subarray(header.start) }
  const stride = header.compression === 1 ? width : Math.ceil((width * rows.bits) / 32) * 4
  for (let row = 0; row < height; row++) {
    if ((row + 1) * stride > rows.data.length) break
    const y = header.isTopDown ? row : height - 1 - row
    decodeRow(rows.data.subarray(row * stride, (row + 1) * stride), pixels.subarray(y * width * 3, (y + 1) * width * 3), header)
  }
  return { pixels, width, height }
}

function readHeader(bytes: Uint8Array): Header {
  const view = viewOf(bytes)
  if (bytes.length < 26) throw corruptFailure()
  const size = view.getUint32(14, true)
  const isCoreHeader = size === 12
  if (!isCoreHeader && (size < 40 || bytes.length < 54)) throw corruptFailure()
  const width = isCoreHeader ? view.getUint16(18, true) : view.getInt32(18, true)
  const signedHeight = isCoreHeader ? view.getInt16(20, true) : view.getInt32(22, true)
  const bits = view.getUint16(isCoreHeader ? 24 : 28, true)
  const compression = isCoreHeader ? 0 : view.getUint32(30, true)
  if (
    width < 1 ||
    signedHeight === 0 ||
    ![1, 4, 8, 16, 24, 32].includes(bits) ||
    ![0, 1, 3].includes(compression) ||
    (compression === 1 && bits !== 8)
  )
    throw corruptFailure()
  const masks =
    compression === 3 && bytes.length >= 66
      ? [54, 58, 62].map((at) => view.getUint32(at, true))
      : bits === 16
        ? [0x7c00, 0x3e0, 0x1f]
        : [0xff0000, 0xff00, 0xff]
  return {
    start: view.getUint32(10, true),
    width,
    height: Math.abs(signedHeight),
    isTopDown: signedHeight < 0,
    bits,
    compression,
    palette: bytes.subarray(14 + size),
    paletteStep: isCoreHeader ? 3 : 4,
    masks,
  }
}

function decodeRow(row: Uint8Array, out: Uint8Array, { width, bits, palette, paletteStep, masks }: Header): void {
  for (let x = 0; x < width; x++) {
    if (bits <= 8) {
      const index = (row[(x * bits) >> 3]! >> (8 - bits - ((x * bits) & 7))) & ((1 << bits) - 1)
      for (let c = 0; c < 3; c++) out[x * 3 + c] = palette[index * paletteStep + 2 - c] ?? 0
    } else if (bits === 24) {
      for (let c = 0; c < 3; c++) out[x * 3 + c] = row[x * 3 + 2 - c]!
    } else {
      const at = (x * bits) >> 3
      const value =
        bits === 16 ? row[at]! | (row[at + 1]! << 8) : (row[at]! | (row[at + 1]! << 8) | (row[at + 2]! << 16) | (row[at + 3]! << 24)) >>> 0
      for (let c = 0; c < 3; c++) out[x * 3 + c] = extractField(value, masks[c]!)
    }
  }
}

function extractField(value: number, mask: number): number {
  if (mask === 0) return 0
  const shift = 31 - Math.clz32(mask & -mask)
  const max = mask >>> shift
  return Math.round((((value & mask) >>> shift) * 255) / max)
}

/** Decodes RLE8: pairs of count and value. Count 0 escapes to line ends, jumps and literal runs. */
function decodeRunLengths(data: Uint8Array, width: number, height: number): Uint8Array {
  const out = new Uint8Array(width * height)
  let x = 0
  let y = 0
  const put = (value: number): void => {
    if (x < width && y < height) out[y * width + x] = value
    x++
  }
  for (let at = 0; at + 1 < data.length; ) {
    const count = data[at]!
    const value = data[at + 1]!
    at += 2
    if (count > 0) for (let i = 0; i < count; i++) put(value)
    else if (value === 0) [x, y] = [0, y + 1]
    else if (value === 1) break
    else if (value === 2) {
      x += data[at] ?? 0
      y += data[at + 1] ?? 0
      at += 2
    } else {
      for (let i = 0; i < value; i++) put(data[at + i] ?? 0)
      at += value + (value & 1)
    }
  }
  return out
}
