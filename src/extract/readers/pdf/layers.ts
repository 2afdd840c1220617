/** Layers of a PDF (optional content, ISO 32000-1, 8.11). */
import { constants, inflateSync } from 'node:zlib'

const key = '/OCProperties'
const maxUnpackedBytes = 64 * 1024 * 1024

/** Returns whether a PDF may have layers. Its catalog may be in a stream of objects. PDFium has no function for it, and PDF.js takes long to load. */
export function hasLayers(bytes: Uint8Array): boolean {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (file.includes(key)) return true
  for (let at = file.indexOf('/ObjStm'); at >= 0; at = file.indexOf('/ObjStm', at + 1)) {
    const start = file.indexOf('stream', at)
    if (start >= 0 && unpack(file.subarray(start + (file[start + 6] === 0x0d ? 8 : 7))).includes(key)) return true
  }
  return false
}

/** Returns the content of a stream that is compressed by Flate; no bytes for any other. */
function unpack(stream: Uint8Array): Buffer {
  try {
    return inflateSync(stream, { maxOutputLength: maxUnpackedBytes, finishFlush: constants.Z_SYNC_FLUSH })
  } catch {
    return Buffer.alloc(0)
  }
}
