/** Unpacks LZ4 frames (LZ4 Frame Format 1.6.4 and LZ4 Block Format). Checksums are not verified. */

import { viewOf } from '../../bytes.ts'
import { createByteSink } from './byte-sink.ts'

const frameMagic = 0x184d2204
/** The last hexadecimal digit of a skippable frame's magic number varies. */
const skippableMagic = 0x184d2a50
const storedBlock = 0x80000000
const minMatch = 4

/** Returns the content of all frames up to any damage. Throws RangeError above `maxBytes`. */
export function unpackLz4(bytes: Uint8Array, maxBytes: number): Uint8Array {
  const sink = createByteSink(maxBytes)
  const view = viewOf(bytes)
  let at = 0
  while (at + 8 <= bytes.length) {
    const magic = view.getUint32(at, true)
    if ((magic & 0xfffffff0) >>> 0 === skippableMagic) {
      at += 8 + view.getUint32(at + 4, true)
      continue
    }
    if (magic !== frameMagic) break
    const flags = bytes[at + 4]!
    const hasSize = (flags & 8) !== 0
    const hasDictionary = (flags & 1) !== 0
    const hasBlockChecksum = (flags & 16) !== 0
    const hasChecksum = (flags & 4) !== 0
    at += 7 + (hasSize ? 8 : 0) + (hasDictionary ? 4 : 0)
    for (;;) {
      if (at + 4 > bytes.length) return sink.bytes()
      const header = view.getUint32(at, true)
      at += 4
      if (header === 0) break
      const end = at + (header & ~storedBlock)
      const block = bytes.subarray(at, end)
      if (header & storedBlock) sink.add(block)
      else if (!unpackBlock(block, sink)) return sink.bytes()
      if (end > bytes.length) return sink.bytes()
      at = end + (hasBlockChecksum ? 4 : 0)
    }
    if (hasChecksum) at += 4
  }
  return sink.bytes()
}

/** Returns false if the block is damaged or cut. */
function unpackBlock(block: Uint8Array, sink: ReturnType<typeof createByteSink>): boolean {
  let at = 0
  /** Reads the rest of a length of 15: bytes up to the first that is not 255. */
  const readLength = (start: number): number => {
    let length = start
    if (start < 15) return length
    for (let more = 255; more === 255 && at < block.length; ) {
      more = block[at++]!
      length += more
    }
    return length
  }
  while (at < block.length) {
    const token = block[at++]!
    const literals = readLength(token >> 4)
    sink.add(block.subarray(at, at + literals))
    at += literals
    if (at >= block.length) return at === block.length
    const distance = block[at]! + 256 * (block[at + 1] ?? 0)
    at += 2
    if (!sink.repeat(distance, readLength(token & 15) + minMatch)) return false
  }
  return true
}
