/** Frames of JPEGs (ITU-T T.81, B.2.2). */
import { viewOf } from '../bytes.ts'

/** Returns the position of the first frame header; null if a file is no JPEG, or has none before its pixels. */
export function findJpegFrame(bytes: Uint8Array): number | null {
  const view = viewOf(bytes)
  if (bytes.length < 4 || view.getUint16(0) !== 0xffd8) return null
  for (let at = 2; at + 10 <= bytes.length && bytes[at] === 0xff; ) {
    const marker = bytes[at + 1]!
    if (marker === 0xda) return null
    if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc) return at
    // A marker may have fill bytes before it.
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2)
  }
  return null
}
