/**
 * Reads tar archives (ustar) as streams with constant memory. A library is not used because tar-stream cannot resume after a damaged header
 * (`restore --skip-damaged`).
 */
import { blockSize, tarPadding } from '../http/tar-writer.ts'
import type { Bytes } from './byte-streams.ts'
import { BackupDamaged } from './manifest.ts'

export interface TarEntry {
  /** '' for a part that follows a damaged header */
  readonly path: string
  readonly size: number
  /** Read to the end before the next entry is requested. Unread bytes are skipped. */
  readonly bytes: AsyncIterable<Uint8Array>
}

/**
 * Yields the regular files of an archive in order. Skips other entries, such as links. Throws BackupDamaged for a truncated stream or a damaged
 * header. With `skipsDamaged`, yields an entry with an empty path for a damaged header and resumes at the next intact one.
 */
export async function* readTar(source: Bytes, { skipsDamaged = false } = {}): AsyncGenerator<TarEntry> {
  const reader = createBlockReader(source)
  for (let isFirst = true; ; isFirst = false) {
    let block = await reader.readExactly(blockSize)
    if (block.every((byte) => byte === 0)) return
    let header = parseHeader(block)
    if (!header) {
      if (isFirst || !skipsDamaged) throw new BackupDamaged('not an archive of dms, or damaged inside')
      yield { path: '', size: 0, bytes: emptyStream() }
      while (!header || !isUstar(block)) {
        block = await reader.readExactly(blockSize)
        header = parseHeader(block)
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
    await reader.readExactly(tarPadding(size).length)
  }
}

async function* emptyStream(): AsyncGenerator<Uint8Array> {}

const isUstar = (header: Buffer): boolean => header.toString('latin1', 257, 262) === 'ustar'

/** Parses a header block. Returns null for a wrong checksum or size. */
function parseHeader(header: Buffer): { path: string; size: number; isFile: boolean } | null {
  const text = (at: number, length: number) => header.toString('utf8', at, at + length).replace(/\0.*$/s, '')
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0)
  if (Number.parseInt(text(148, 8), 8) !== sum) return null
  const size = header[124] === 0x80 ? Number(header.readBigUInt64BE(128)) : Number.parseInt(text(124, 12), 8)
  if (!Number.isSafeInteger(size) || size < 0) return null
  const prefix = text(345, 155)
  const name = text(0, 100).replace(/^\.\//, '')
  return { path: prefix === '' ? name : `${prefix}/${name}`, size, isFile: header[156] === 0x30 || header[156] === 0 }
}

/** Returns a reader that cuts incoming chunks into the requested sizes. */
function createBlockReader(source: Bytes) {
  const chunks = (Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()) as AsyncIterator<Uint8Array>
  let rest: Buffer = Buffer.alloc(0)
  const fill = async () => {
    const { value, done } = await chunks.next()
    if (done) throw new BackupDamaged('the archive ends too early')
    rest = Buffer.from(value.buffer, value.byteOffset, value.length)
  }
  /** Returns at least one byte and at most `length`. */
  const readUpTo = async (length: number): Promise<Buffer> => {
    while (rest.length === 0) await fill()
    const part = rest.subarray(0, length)
    rest = rest.subarray(part.length)
    return part
  }
  return {
    some: readUpTo,
    async readExactly(length: number): Promise<Buffer> {
      const parts: Buffer[] = []
      for (let left = length; left > 0; left -= (parts.at(-1) as Buffer).length) parts.push(await readUpTo(left))
      return Buffer.concat(parts)
    },
  }
}
