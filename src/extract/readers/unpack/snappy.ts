/** Unpacks blocks of Snappy (Snappy compressed format description, 2011). */
import { createByteSink } from './byte-sink.ts'

/** Returns the content of a block up to any damage. Throws RangeError above `maxBytes`. */
export function unpackSnappy(block: Uint8Array, maxBytes: number): Uint8Array {
  const sink = createByteSink(maxBytes)
  /** Reads a little-endian number of this many bytes. */
  const readNumber = (start: number, count: number): number =>
    Array.from(block.subarray(start, start + count)).reduce((sum, byte, i) => sum + byte * 256 ** i, 0)
  // The block begins with the unpacked size, in groups of seven bits.
  let at = block.findIndex((byte) => byte < 0x80) + 1
  while (at > 0 && at < block.length) {
    const tag = block[at++]!
    const kind = tag & 3
    if (kind === 0) {
      const extra = Math.max(0, (tag >> 2) - 59)
      const length = (extra === 0 ? tag >> 2 : readNumber(at, extra)) + 1
      at += extra
      sink.add(block.subarray(at, at + length))
      at += length
      continue
    }
    const distance = kind === 1 ? ((tag >> 5) << 8) + (block[at] ?? 0) : readNumber(at, kind === 2 ? 2 : 4)
    at += kind === 1 ? 1 : kind === 2 ? 2 : 4
    if (!sink.repeat(distance, kind === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1)) break
  }
  return sink.bytes()
}
