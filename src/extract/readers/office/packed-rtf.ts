/** Decompression of the RTF in messages of Outlook ([MS-OXRTFCP]). */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { viewOf } from '../../bytes.ts'

/** The initial dictionary of the format. */
const knownText =
  '{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArial' +
  'Times New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx'
const dictionaryBytes = 4096
const headerBytes = 16
const stored = 0x414c454d
const compressed = 0x75465a4c
const maxBytes = 64 * 1024 * 1024

/** Returns the RTF. Throws ReadFailure FILE_CORRUPT for data of another form. */
export function unpackRtf(bytes: Uint8Array): Uint8Array {
  const view = viewOf(bytes)
  const kind = bytes.length < headerBytes ? 0 : view.getUint32(8, true)
  if (kind === stored) return bytes.subarray(headerBytes)
  if (kind !== compressed) throw new ReadFailure('FILE_CORRUPT', 'The text of the message is damaged.')
  const dictionary = Buffer.alloc(dictionaryBytes, ' ')
  let writeAt = dictionary.write(knownText, 'latin1')
  const out = Buffer.alloc(Math.min(view.getUint32(4, true), maxBytes))
  let length = 0
  const put = (byte: number): void => {
    if (length < out.length) out[length++] = byte
    dictionary[writeAt] = byte
    writeAt = (writeAt + 1) % dictionaryBytes
  }
  for (let at = headerBytes; at < bytes.length && length < out.length; ) {
    let control = bytes[at++] ?? 0
    for (let bit = 0; bit < 8 && at < bytes.length; bit++, control >>= 1) {
      if ((control & 1) === 0) {
        put(bytes[at++] ?? 0)
        continue
      }
      // Twelve bits of offset, four of length less two. The reference to the place of writing is the end.
      const reference = ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
      at += 2
      const offset = reference >> 4
      if (offset === writeAt) return out.subarray(0, length)
      for (let i = 0; i < (reference & 0xf) + 2; i++) put(dictionary[(offset + i) % dictionaryBytes] ?? 0)
    }
  }
  return out.subarray(0, length)
}
