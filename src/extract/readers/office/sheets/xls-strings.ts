/** Strings of Excel workbooks from before 2007 ([MS-XLS] 2.5.293 and 2.5.294). */
import { decodeCodePage } from '../../code-pages.ts'
import { decodeAs } from '../../decode.ts'

/** Reads a string with a length of one or two bytes. */
export type ReadString = (data: Uint8Array, at: number, lengthBytes: 1 | 2) => string

/** Reads a string of BIFF8, which has a byte of flags. */
export const wideString: ReadString = (data, at, lengthBytes) => {
  const length = (data[at] ?? 0) + (lengthBytes === 2 ? (data[at + 1] ?? 0) * 256 : 0)
  return unicodeText(data.subarray(at + lengthBytes + 1), length, data[at + lengthBytes] ?? 0)
}

/** Reads a string of BIFF5. */
export const ansiString =
  (codePage: number): ReadString =>
  (data, at, lengthBytes) => {
    const length = (data[at] ?? 0) + (lengthBytes === 2 ? (data[at + 1] ?? 0) * 256 : 0)
    return decodeCodePage(data.subarray(at + lengthBytes, at + lengthBytes + length), codePage)
  }

/** Decodes UTF-16 whose upper bytes are left out unless bit 0 of the flags is set. */
export const unicodeText = (data: Uint8Array, length: number, flags: number): string =>
  flags & 1 ? (decodeAs(data.subarray(0, length * 2), 'utf-16le') ?? '') : Buffer.from(data.subarray(0, length)).toString('latin1')

/** Reads the shared strings. If a record ends inside a string, the next one starts with a new byte of flags. */
export function readSharedStrings(blocks: readonly Uint8Array[]): string[] {
  const strings: string[] = []
  let block = 0
  let at = 8
  const bytesLeft = (): number => (blocks[block]?.length ?? 0) - at
  const ahead = (): boolean => {
    while (block < blocks.length && bytesLeft() <= 0) {
      block++
      at = 0
    }
    return block < blocks.length
  }
  const byte = (): number => (ahead() ? blocks[block]![at++]! : 0)
  const word = (): number => byte() + byte() * 256
  const skip = (count: number): void => {
    for (let left = count; left > 0 && ahead(); ) {
      const step = Math.min(left, bytesLeft())
      at += step
      left -= step
    }
  }
  while (ahead()) {
    const length = word()
    let flags = byte()
    const runs = flags & 8 ? word() : 0
    const extra = flags & 4 ? word() + word() * 65536 : 0
    let text = ''
    for (let left = length; left > 0; ) {
      if (bytesLeft() <= 0) {
        if (!ahead()) break
        flags = byte()
      }
      const width = flags & 1 ? 2 : 1
      const count = Math.min(left, Math.max(1, Math.floor(bytesLeft() / width)))
      const piece = blocks[block]?.subarray(at, at + count * width) ?? new Uint8Array()
      text += unicodeText(piece, count, flags)
      at += count * width
      left -= count
    }
    strings.push(text)
    skip(runs * 4 + extra)
  }
  return strings
}
