/** Compressed RTF of Outlook messages ([MS-OXRTFCP]). */

const initialText =
  '{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx'
const headerBytes = 16
const compressed = 0x75465a4c
const dictionaryBytes = 4096
const maxBytes = 64 * 1024 * 1024

/** Returns the RTF, up to the first damage. */
export function decompressRtf(bytes: Uint8Array): Uint8Array {
  if (bytes.length < headerBytes) return new Uint8Array()
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (view.getUint32(8, true) !== compressed) return bytes.subarray(headerBytes)
  const dictionary = new Uint8Array(dictionaryBytes)
  dictionary.set(Buffer.from(initialText, 'latin1'))
  // A byte of the input becomes at most 17/2 bytes.
  const output = new Uint8Array(Math.min(view.getUint32(4, true), bytes.length * 9, maxBytes))
  let written = 0
  let end = initialText.length
  const write = (byte: number): void => {
    if (written < output.length) output[written++] = byte
    dictionary[end] = byte
    end = (end + 1) % dictionaryBytes
  }
  for (let at = headerBytes; at < bytes.length && written < output.length; ) {
    const control = bytes[at++]!
    for (let bit = 0; bit < 8 && at < bytes.length; bit++) {
      if (!(control & (1 << bit))) {
        write(bytes[at++]!)
        continue
      }
      const token = (bytes[at]! << 8) | (bytes[at + 1] ?? 0)
      at += 2
      const offset = token >> 4
      if (offset === end) return output.subarray(0, written)
      for (let i = 0; i < (token & 15) + 2; i++) write(dictionary[(offset + i) % dictionaryBytes]!)
    }
  }
  return output.subarray(0, written)
}
