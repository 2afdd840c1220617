/** Small pictures, mails and old office files, generated without fonts, programs and fixtures. */
import { crc32 } from 'node:zlib'
import sharp from 'sharp'
import { loadPdfium } from '../../../src/extract/readers/pdf/pdfium.ts'
import { pdf } from './pdf-file.ts'

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1')

export interface Scan {
  gray: Uint8Array
  width: number
  height: number
}

/** A picture of lines of text, black on white: rendered from a PDF, because a minimal system has no fonts. */
export async function scan(text: readonly string[], { width = 1240, height = 400, leading = 50 } = {}): Promise<Scan> {
  const open = await loadPdfium()
  const document = open(pdf({ pages: [{ text, leading, width, height }] }))
  const page = document.page(0)
  const gray = page.render(width, height, 'gray')
  page.close()
  document.close()
  return { gray, width, height }
}

/** The picture in a format of sharp's. */
export const image = ({ gray, width, height }: Scan) => sharp(gray, { raw: { width, height, channels: 1 } }).toColourspace('b-w')

/** Returns the page in the container of HEIC. No encoder of HEVC is free; its reader takes AV1 too. */
export async function heicOf(page: Scan): Promise<Buffer> {
  const avif = await image(page).avif({ quality: 90 }).toBuffer()
  return Buffer.from(avif.toString('latin1').replace('ftypavif', 'ftypheic'), 'latin1')
}

/** A 7z archive of one text, `sandboxed.txt` with `words in 7z`. */
export const sevenZip = Buffer.from(
  'N3q8ryccAARbbssPcgAAAAAAAAAUAAAAAAAAADv7Z3IBAAp3b3JkcyBpbiA3egDgAGAAW10AAIEzB64Pzt0HYQkKkA9ecbngKbVkHbyg6zM5WwbwXO+8x9wZo/JrBa7qKwEjolEZ0DqP3VHCAbl70MfpHMpmKPr0/qexOz3q20h/DBR+LKMjSEt8o6ejiwAAAAAXBg8BCWMABwsBAAEhIQEYDGEAAA==',
  'base64',
)

/** An uncompressed bitmap of 24 bits, with the last row first. */
export function bmp({ gray, width, height }: Scan): Buffer {
  const stride = Math.ceil((width * 3) / 4) * 4
  const file = Buffer.alloc(54 + stride * height)
  file.write('BM')
  file.writeUInt32LE(file.length, 2)
  file.writeUInt32LE(54, 10)
  file.writeUInt32LE(40, 14)
  file.writeInt32LE(width, 18)
  file.writeInt32LE(height, 22)
  file.writeUInt16LE(1, 26)
  file.writeUInt16LE(24, 28)
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++)
      file.fill(gray[y * width + x]!, 54 + (height - 1 - y) * stride + x * 3, 54 + (height - 1 - y) * stride + x * 3 + 3)
  }
  return file
}

/** A TIFF of several pages, uncompressed. */
export function tiff(pages: readonly Scan[]): Buffer {
  const chunks: Buffer[] = [Buffer.from('II*\0\0\0\0\0', 'latin1')]
  let length = 8
  let pointer: { chunk: Buffer; at: number } = { chunk: chunks[0]!, at: 4 }
  for (const { gray, width, height } of pages) {
    chunks.push(Buffer.from(gray))
    const tags = [
      [256, width],
      [257, height],
      [258, 8],
      [259, 1],
      [262, 1],
      [273, length],
      [277, 1],
      [278, height],
      [279, gray.length],
    ] as const
    length += gray.length
    const directory = Buffer.alloc(2 + tags.length * 12 + 4)
    directory.writeUInt16LE(tags.length, 0)
    tags.forEach(([tag, value], i) => {
      directory.writeUInt16LE(tag, 2 + i * 12)
      directory.writeUInt16LE(4, 4 + i * 12)
      directory.writeUInt32LE(1, 6 + i * 12)
      directory.writeUInt32LE(value, 10 + i * 12)
    })
    pointer.chunk.writeUInt32LE(length, pointer.at)
    pointer = { chunk: directory, at: directory.length - 4 }
    chunks.push(directory)
    length += directory.length
  }
  return Buffer.concat(chunks)
}

/** A PNG whose header claims a size, with hardly any pixels. */
export function claimedPng(width: number, height: number): Buffer {
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([bytes(type), data])
    const frame = Buffer.alloc(8)
    frame.writeUInt32BE(data.length, 0)
    frame.writeUInt32BE(crc32(body), 4)
    return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 0, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', Buffer.from('789c6360000000020001', 'hex')),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** A compound file of streams, with `/` between storages; each is padded with zeros to 4,096 bytes, so that none is a small one. */
export function ole(streams: Record<string, Uint8Array>): Buffer {
  const size = 512
  const free = 0xffffffff
  const end = 0xfffffffe
  const contents = Object.entries(streams).map(([name, data]) => ({
    name,
    data: Buffer.concat([data, Buffer.alloc(Math.max(4096, Math.ceil(data.length / size) * size) - data.length)]),
  }))
  const table: number[] = [0xfffffffd]
  const chain = (count: number): number => {
    const start = table.length
    for (let i = 0; i < count; i++) table.push(i === count - 1 ? end : start + i + 1)
    return start
  }
  const paths = [...new Set(contents.flatMap(({ name }) => name.split('/').map((_, i, steps) => steps.slice(0, i + 1).join('/'))))]
  const directoryStart = chain(Math.ceil((paths.length + 1) / 4))
  const starts = contents.map(({ data }) => chain(data.length / size))
  if (table.length > 128) throw new Error('more than one sector of allocation table')
  const entry = (name: string, kind: number, start: number, length: number, right: number, child: number): Buffer => {
    const buffer = Buffer.alloc(128)
    buffer.write(name, 'utf16le')
    buffer.writeUInt16LE(name.length * 2 + 2, 64)
    buffer.writeUInt8(kind, 66)
    buffer.writeUInt32LE(free, 68)
    buffer.writeUInt32LE(right, 72)
    buffer.writeUInt32LE(child, 76)
    buffer.writeUInt32LE(start, 116)
    buffer.writeUInt32LE(length, 120)
    return buffer
  }
  const folderOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')))
  /** Position of the next path of a folder in the directory; siblings are a chain. */
  const position = (folder: string, after = -1): number => {
    const next = paths.findIndex((path, i) => i > after && folderOf(path) === folder)
    return next < 0 ? free : next + 1
  }
  const entries = [entry('Root Entry', 5, end, 0, free, position(''))]
  for (const [i, path] of paths.entries()) {
    const stream = contents.findIndex(({ name }) => name === path)
    const name = path.slice(path.lastIndexOf('/') + 1)
    const [start, length] = stream < 0 ? [end, 0] : [starts[stream]!, contents[stream]!.data.length]
    entries.push(entry(name, stream < 0 ? 1 : 2, start, length, position(folderOf(path), i), stream < 0 ? position(path) : free))
  }
  while (entries.length % 4 !== 0) entries.push(Buffer.alloc(128))
  const header = Buffer.alloc(size)
  header.write('d0cf11e0a1b11ae1', 'hex')
  header.writeUInt16LE(9, 30)
  header.writeUInt16LE(6, 32)
  header.writeUInt32LE(1, 44)
  header.writeUInt32LE(directoryStart, 48)
  header.writeUInt32LE(4096, 56)
  header.writeUInt32LE(end, 60)
  header.writeUInt32LE(end, 68)
  for (let i = 0; i < 109; i++) header.writeUInt32LE(i === 0 ? 0 : free, 76 + i * 4)
  const allocation = Buffer.alloc(size, 0xff)
  for (const [i, next] of table.entries()) allocation.writeUInt32LE(next, i * 4)
  return Buffer.concat([header, allocation, ...entries, ...contents.map(({ data }) => data)])
}

/** A message with parts: each is its header lines and its body. */
export function eml(
  headers: Record<string, string>,
  parts: readonly { headers: Record<string, string>; body: string | Uint8Array }[],
): Buffer {
  const lines = (fields: Record<string, string>): string =>
    Object.entries(fields)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')
  const all = parts.map(({ headers: fields, body }) => {
    const isBinary = typeof body !== 'string'
    const encoded = isBinary
      ? (
          Buffer.from(body)
            .toString('base64')
            .match(/.{1,76}/g) ?? []
        ).join('\r\n')
      : body
    return `--cut\r\n${lines({ ...fields, ...(isBinary && { 'Content-Transfer-Encoding': 'base64' }) })}\r\n${encoded}\r\n`
  })
  return Buffer.from(
    `${lines({ ...headers, 'MIME-Version': '1.0', 'Content-Type': 'multipart/mixed; boundary=cut' })}\r\n${all.join('')}--cut--\r\n`,
  )
}
