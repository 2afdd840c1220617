/** Files in one stream, in the format of tar (ustar): written and read in flat memory, one after the other. */
import type { Bytes } from './bytes.ts'
import { BackupDamaged } from './manifest.ts'

export interface TarEntry {
  /** '': a part that cannot be read, because its header is damaged */
  readonly path: string
  readonly size: number
  /** to be read to its end before the next entry is asked for; what is left of it is skipped */
  readonly bytes: AsyncIterable<Uint8Array>
}

const blockSize = 512
/** Two empty blocks end an archive. */
export const tarEnd = Buffer.alloc(2 * blockSize)

/** The block before a file's bytes. `path` has at most 100 bytes; `modified` in seconds since 1970. */
export function tarHeader(path: string, size: number, modified: number): Buffer {
  if (Buffer.byteLength(path) > 100) throw new Error(`too long for an archive: ${path}`)
  const header = Buffer.alloc(blockSize)
  const octal = (value: number, at: number, length: number) => header.write(value.toString(8).padStart(length - 1, '0'), at)
  header.write(path, 0)
  octal(0o600, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  // Eleven octal digits are 8 GiB; beyond, all programs of today read the number in binary.
  if (size < 8 ** 11) octal(size, 124, 12)
  else {
    header.writeUInt8(0x80, 124)
    header.writeBigUInt64BE(BigInt(size), 128)
  }
  octal(Math.floor(modified), 136, 12)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}

/** Zeros up to the next block. */
export const tarPadding = (size: number): Buffer => Buffer.alloc((blockSize - (size % blockSize)) % blockSize)

/**
 * Reads the files of an archive in their order; what is no file, such as a link, is skipped. Throws BackupDamaged where it ends too early or is
 * no archive. `skipsDamaged`: behind a damaged header it goes on at the next one that is whole.
 */
export async function* readTar(source: Bytes, { skipsDamaged = false } = {}): AsyncGenerator<TarEntry> {
  const reader = openReader(source)
  for (let isFirst = true; ; isFirst = false) {
    let block = await reader.exactly(blockSize)
    if (block.every((byte) => byte === 0)) return
    let header = parse(block)
    if (!header) {
      if (isFirst || !skipsDamaged) throw new BackupDamaged('not an archive of dms, or damaged inside')
      yield { path: '', size: 0, bytes: nothing() }
      while (!header || !isUstar(block)) {
        block = await reader.exactly(blockSize)
        header = parse(block)
      }
    }
    const { path, size, isFile } = header
    let left = size
    async function* bytes() {
      while (left > 0) {
        const chunk = await reader.some(left)
        left -= chunk.length
        yield chunk
      }
    }
    if (isFile) yield { path, size, bytes: bytes() }
    while (left > 0) left -= (await reader.some(left)).length
    await reader.exactly(tarPadding(size).length)
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

const isUstar = (header: Buffer): boolean => header.toString('latin1', 257, 262) === 'ustar'

/** What a header says; null where it is none, or damaged. */
function parse(header: Buffer): { path: string; size: number; isFile: boolean } | null {
  const text = (at: number, length: number) => header.toString('utf8', at, at + length).replace(/\0.*$/s, '')
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0)
  if (Number.parseInt(text(148, 8), 8) !== sum) return null
  const size = header[124] === 0x80 ? Number(header.readBigUInt64BE(128)) : Number.parseInt(text(124, 12), 8)
  if (!Number.isSafeInteger(size) || size < 0) return null
  const prefix = text(345, 155)
  const name = text(0, 100).replace(/^\.\//, '')
  return { path: prefix === '' ? name : `${prefix}/${name}`, size, isFile: header[156] === 0x30 || header[156] === 0 }
}

/** Takes chunks as they come and gives them out as they are wanted. */
function openReader(source: Bytes) {
  const chunks = (Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()) as AsyncIterator<Uint8Array>
  let rest: Buffer = Buffer.alloc(0)
  const fill = async () => {
    const { value, done } = await chunks.next()
    if (done) throw new BackupDamaged('the archive ends too early')
    rest = Buffer.from(value.buffer, value.byteOffset, value.length)
  }
  /** at least one byte, at most `length` */
  const some = async (length: number): Promise<Buffer> => {
    while (rest.length === 0) await fill()
    const part = rest.subarray(0, length)
    rest = rest.subarray(part.length)
    return part
  }
  return {
    some,
    async exactly(length: number): Promise<Buffer> {
      const parts: Buffer[] = []
      for (let left = length; left > 0; left -= (parts.at(-1) as Buffer).length) parts.push(await some(left))
      return Buffer.concat(parts)
    },
  }
}
