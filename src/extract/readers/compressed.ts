/** Reader of compressed files: gzip, zstd, bzip2, xz, lz4 and compress. */
import { constants, gunzipSync, zstdDecompressSync } from 'node:zlib'
import type { ArchiveReader } from 'libarchive-wasm'
import { ReadFailure } from '../../ports/document-reader.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../opened-document.ts'
import type { PartTools } from '../parts.ts'
import { maxMemberBytes, openOtherArchive, openTar } from './archive.ts'
import { unpackLz4 } from './unpack/lz4.ts'
import { unpackLzw } from './unpack/lzw.ts'

const tarMagicOffset = 257
/** Extensions of compressed files with their replacements in the name of the content. */
const extensions: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/\.svgz$/i, '.svg'],
  [/\.(gz|gzip|zst|bz2|xz|lz4|z)$/i, ''],
]

/** Opens a gzip or zstd file: the archive in it, else its single file with pages and thumbnail. */
export const openGzip = (source: ByteSource, tools: PartTools) => openUnpacked(source, gunzip(source.read()), tools)

export const openZstd = (source: ByteSource, tools: PartTools) => openUnpacked(source, unzstd(source.read()), tools)

/** Opens a file of lz4 or compress (`.Z`) like openGzip(). Returns null if nothing can be unpacked. */
export async function openLz4OrCompress(source: ByteSource, tools: PartTools, mimeType: string): Promise<OpenedDocument | null> {
  const unpack = mimeType === 'application/x-lz4' ? unpackLz4 : unpackLzw
  const bytes = withFailures(() => unpack(source.read(), maxMemberBytes))
  return bytes.length === 0 ? null : openUnpacked(source, bytes, tools)
}

/** Opens a bzip2 or xz file like openGzip(). Returns null if nothing can be unpacked. */
export async function openBzip2OrXz(source: ByteSource, tools: PartTools, mimeType: string): Promise<OpenedDocument | null> {
  const bytes = source.read()
  const format = formats[mimeType === 'application/x-xz' ? 'xz' : 'bzip2']
  const start = await unpackStreams(bytes, format, { onlyStart: true })
  if (start.length === 0) return null
  // Only tar archives: libarchive takes many texts for archives of other formats.
  if (isTar(start)) return openOtherArchive(source, tools)
  return openUnpacked(source, await unpackStreams(bytes, format), tools)
}

async function openUnpacked({ filename }: ByteSource, bytes: Uint8Array, tools: PartTools): Promise<OpenedDocument | null> {
  if (isTar(bytes)) return openTar(bytes, tools)
  const name = extensions.reduce((rest, [pattern, replacement]) => rest.replace(pattern, replacement), filename)
  return tools.openPart(bytesSource(bytes, name))
}

const isTar = (bytes: Uint8Array): boolean => Buffer.from(bytes.subarray(tarMagicOffset, tarMagicOffset + 5)).toString('latin1') === 'ustar'

const gunzip = (bytes: Uint8Array): Uint8Array =>
  // Z_SYNC_FLUSH returns the beginning of truncated data.
  withFailures(() => gunzipSync(bytes, { maxOutputLength: maxMemberBytes, finishFlush: constants.Z_SYNC_FLUSH }))

function unzstd(bytes: Uint8Array): Uint8Array {
  const finishFlush = constants.ZSTD_e_flush
  return withFailures(() => zstdDecompressSync(bytes, { maxOutputLength: maxMemberBytes, finishFlush }))
}

function withFailures(unpack: () => Uint8Array): Uint8Array {
  try {
    return unpack()
  } catch (problem) {
    if (problem instanceof RangeError) throw tooLargeFailure()
    throw new ReadFailure('FILE_CORRUPT', 'The compressed file is damaged.')
  }
}

const tooLargeFailure = () => new ReadFailure('FILE_TOO_COMPLEX', `The file unpacks to more than ${maxMemberBytes} bytes.`)

interface StreamFormat {
  /** first bytes of a stream, as Latin-1 */
  readonly start: RegExp
  /** number of the compression method in a ZIP archive (APPNOTE.TXT 4.4.5) */
  readonly zipMethod: number
}

const formats = {
  bzip2: { start: /BZh[1-9]1AY&SY/g, zipMethod: 12 },
  xz: { start: /\xfd7zXZ\0/g, zipMethod: 95 },
} satisfies Record<string, StreamFormat>

/**
 * Unpacks all streams of a file: programs that work in parallel write many. `onlyStart`: at most the first `chunkBytes`. Returns no bytes if none can
 * be unpacked. Throws ReadFailure FILE_TOO_COMPLEX.
 */
async function unpackStreams(bytes: Uint8Array, { start, zipMethod }: StreamFormat, { onlyStart = false } = {}): Promise<Uint8Array> {
  const library = await import('libarchive-wasm')
  const module = await library.libarchiveWasm()
  const starts = Array.from(Buffer.from(bytes).toString('latin1').matchAll(start), ({ index }) => index)
  const chunks: Uint8Array[] = []
  let left = maxMemberBytes
  for (const [i, begin] of starts.entries()) {
    const stream = bytes.subarray(begin, starts[i + 1])
    const open = (content: Content) => {
      const archive = zipWithMember(stream, zipMethod, content)
      return new library.ArchiveReader(module, new Int8Array(archive.buffer, archive.byteOffset, archive.length))
    }
    for (const chunk of unpackStream(open, left, { onlyStart })) {
      left -= chunk.length
      chunks.push(chunk)
    }
    if (onlyStart) break
  }
  return Buffer.concat(chunks)
}

const chunkBytes = 1024 * 1024

/** Size and CRC-32 of the content of a stream. */
interface Content {
  checksum: number
  size: number
}

/**
 * Unpacks one stream. Returns the content before any damage. libarchive unpacks these formats only in archives, so the stream becomes the member of a
 * ZIP archive. Its header needs the checksum and the size of the content; the errors of two attempts contain them.
 */
function unpackStream(open: (content: Content) => ArchiveReader, maxBytes: number, { onlyStart }: { onlyStart: boolean }): Uint8Array[] {
  const content = { checksum: 0, size: 0 }
  for (;;) {
    const reader = open(content)
    const chunks: Uint8Array[] = []
    let total = 0
    try {
      reader.nextEntry()
      for (let chunk = reader.readData(chunkBytes); chunk.length > 0; chunk = reader.readData(chunkBytes)) {
        total += chunk.length
        if (total > maxBytes) throw tooLargeFailure()
        chunks.push(new Uint8Array(chunk.buffer as ArrayBuffer, chunk.byteOffset, chunk.length))
        if (onlyStart) break
      }
      return chunks
    } catch (problem) {
      if (problem instanceof ReadFailure) throw problem
      const checksum = /bad CRC: 0x([0-9a-f]+)/.exec(String(problem))?.[1]
      const size = /wrong size \(read (\d+)/.exec(String(problem))?.[1]
      if (checksum && content.checksum === 0) content.checksum = Number.parseInt(checksum, 16)
      else if (size && content.size === 0) content.size = Number(size)
      else return chunks
    } finally {
      reader.free()
    }
  }
}

/** Returns a ZIP archive of one member, without a directory. */
function zipWithMember(data: Uint8Array, method: number, { checksum, size }: Content): Uint8Array {
  const header = Buffer.alloc(31)
  header.writeUInt32LE(0x04034b50, 0)
  header.writeUInt16LE(63, 4)
  header.writeUInt16LE(method, 8)
  header.writeUInt32LE(checksum, 14)
  header.writeUInt32LE(data.length, 18)
  header.writeUInt32LE(size, 22)
  header.writeUInt16LE(1, 26)
  header.write('x', 30)
  return Buffer.concat([header, data])
}
