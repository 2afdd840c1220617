/** Unpacks files of compress (`.Z`): LZW with codes of 9 to 16 bits, as in the Unix program (Welch 1984). */
import { createByteSink } from './byte-sink.ts'

const headerBytes = 3
const clearCode = 256
const minBits = 9

/** Returns the content up to any damage. Throws RangeError above `maxBytes`. */
export function unpackLzw(bytes: Uint8Array, maxBytes: number): Uint8Array {
  const sink = createByteSink(maxBytes)
  const options = bytes[2] ?? 0
  const maxBits = options & 0x1f
  const hasClearCode = (options & 0x80) !== 0
  if (maxBits < minBits || maxBits > 16) return sink.bytes()
  const prefixes = new Uint16Array(1 << maxBits)
  const lastBytes = new Uint8Array(1 << maxBits)
  const string = new Uint8Array(1 << maxBits)
  const firstFree = hasClearCode ? clearCode + 1 : clearCode
  let free = firstFree
  let bits = minBits
  let previous = -1
  let firstByte = 0
  /** position in bits, and that of the first code of this width */
  let at = headerBytes * 8
  let widthStart = at

  /** Changes the width of codes. Codes of one width fill whole groups of eight. */
  const changeWidth = (width: number): void => {
    const group = bits * 8
    at = widthStart + Math.ceil((at - widthStart) / group) * group
    widthStart = at
    bits = width
  }
  while (at + bits <= bytes.length * 8) {
    if (free >= 1 << bits && bits < maxBits) {
      changeWidth(bits + 1)
      continue
    }
    const index = at >> 3
    const word = bytes[index]! | ((bytes[index + 1] ?? 0) << 8) | ((bytes[index + 2] ?? 0) << 16)
    const code = (word >> (at & 7)) & ((1 << bits) - 1)
    at += bits
    if (code === clearCode && hasClearCode) {
      changeWidth(minBits)
      free = firstFree
      previous = -1
      continue
    }
    if (code > free || (code === free && previous < 0) || (previous < 0 && code > 255)) break
    // A code that is not in the table yet is the previous string and its own first byte.
    let length = 0
    if (code === free) string[length++] = firstByte
    let rest = code === free ? previous : code
    while (rest > 255) {
      string[length++] = lastBytes[rest]!
      rest = prefixes[rest]!
    }
    firstByte = rest
    string[length++] = rest
    sink.add(string.subarray(0, length).reverse())
    if (previous >= 0 && free < 1 << maxBits) {
      prefixes[free] = previous
      lastBytes[free] = firstByte
      free++
    }
    previous = code
  }
  return sink.bytes()
}
