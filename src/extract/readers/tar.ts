/** Members of tar archives (POSIX ustar and pax, GNU). libarchive-wasm loses the letters of names beyond ASCII. */
import { decode } from './decode.ts'

const blockBytes = 512

export interface TarMember {
  readonly name: string
  readonly data: Uint8Array
}

/** Returns the files of an archive up to the first damaged header. */
export function* readTarMembers(bytes: Uint8Array): Generator<TarMember> {
  let longName = ''
  for (let at = 0; at + blockBytes <= bytes.length; ) {
    const header = Buffer.from(bytes.buffer, bytes.byteOffset + at, blockBytes)
    const size = readNumber(header.subarray(124, 136))
    if (size === null || !hasValidChecksum(header)) return
    const data = bytes.subarray(at + blockBytes, at + blockBytes + size)
    at += blockBytes + Math.ceil(size / blockBytes) * blockBytes
    const type = String.fromCharCode(header[156] ?? 0)
    if (type === 'x') longName = /(?:^|\n)\d+ path=([^\n]*)/.exec(decode(data))?.[1] ?? longName
    else if (type === 'L') longName = readText(data)
    else {
      // ustar has a prefix. In the archives of GNU tar the field has another meaning.
      const prefix = header.toString('latin1', 257, 263) === 'ustar\0' ? `${readText(header.subarray(345, 500))}/` : ''
      const name = longName || `${prefix === '/' ? '' : prefix}${readText(header.subarray(0, 100))}`
      longName = ''
      if ('0\x007'.includes(type)) yield { name, data }
    }
  }
}

/** Decodes a text up to its first zero byte. */
const readText = (field: Uint8Array): string => {
  const end = field.indexOf(0)
  return decode(end < 0 ? field : field.subarray(0, end))
}

/** Reads an octal number, or a binary number if the first bit is set. Returns null for any other text. */
function readNumber(field: Buffer): number | null {
  if (field[0] === 0x80) return Number(field.readBigUInt64BE(4))
  const digits = field.toString('latin1').replace(/[\0 ]+/g, '')
  return /^[0-7]*$/.test(digits) ? Number.parseInt(digits || '0', 8) : null
}

/** Returns whether the header states the sum of its bytes, counted with spaces in place of the sum. */
function hasValidChecksum(header: Buffer): boolean {
  let sum = 0
  for (const [i, byte] of header.entries()) sum += i >= 148 && i < 156 ? 0x20 : byte
  return sum === readNumber(header.subarray(148, 156))
}
