/** TIFFs with numbers of other kinds, smaller copies of pages and shared data. */
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { copyTiffPages } from '../../src/extract/split/copy-tiff-pages.ts'
import { readTools } from '../support/read-bytes.ts'

const [width, height] = [20, 10]

/** Writes a TIFF of pages in black and white. `tags`: further entries [tag, type, count, offset]. `data`: bytes that begin at 8. */
function tiff(
  pages: readonly { at: number; size: number; bits: number; format: number; kind?: number; across?: number }[],
  data: Buffer,
  tags: readonly number[][] = [],
): Buffer {
  const head = Buffer.from('II*\0\0\0\0\0', 'latin1')
  const chunks = [head, data]
  let length = head.length + data.length
  let pointer = { chunk: head, at: 4 }
  for (const { at, size, bits, format, kind = 0, across = width } of pages) {
    const entries = [
      ...[
        [254, 4, 1, kind],
        [256, 4, 1, across],
        [257, 4, 1, height],
        [258, 3, 1, bits],
        [259, 3, 1, 1],
        [262, 3, 1, 1],
        [273, 4, 1, at],
      ],
      ...[[277, 3, 1, 1], [278, 4, 1, height], [279, 4, 1, size], [339, 3, 1, format], ...tags],
    ].toSorted((one, other) => one[0]! - other[0]!)
    const directory = Buffer.alloc(2 + entries.length * 12 + 4)
    directory.writeUInt16LE(entries.length)
    for (const [i, [tag, type, count, value]] of entries.entries()) {
      directory.writeUInt16LE(tag!, 2 + i * 12)
      directory.writeUInt16LE(type!, 4 + i * 12)
      directory.writeUInt32LE(count!, 6 + i * 12)
      directory.writeUInt32LE(value!, 10 + i * 12)
    }
    pointer.chunk.writeUInt32LE(length, pointer.at)
    pointer = { chunk: directory, at: directory.length - 4 }
    chunks.push(directory)
    length += directory.length
  }
  return Buffer.concat(chunks)
}

test.each([
  ['0 to 1', (share: number) => share],
  ['0 to 255', (share: number) => share * 255],
  ['-300 to 700', (share: number) => share * 1000 - 300],
])('floating-point numbers from %s are black to white', async (_, toValue) => {
  const values = Float32Array.from({ length: width * height }, (_value, i) => toValue((i % width) / (width - 1)))
  const data = Buffer.from(values.buffer)
  const opened = await openFile(bytesSource(tiff([{ at: 8, size: data.length, bits: 32, format: 3 }], data), 'a.tif'), readTools)
  const { gray } = (await opened.picture(1))!
  expect([gray[0], gray[width / 2]! > 110 && gray[width / 2]! < 150, gray[width - 1]]).toEqual([0, true, 255])
  const small = await sharp((await opened.thumbnail({ width, height }, 'image/jpeg'))!).stats()
  expect(small.channels[0]!.mean).toBeGreaterThan(100)
  opened.close()
})

test('pages of floating-point numbers, and of integers of 32 bits, are black to white', async () => {
  const ramp = (to: number) => Array.from({ length: width * height }, (_value, i) => ((i % width) / (width - 1)) * to)
  const pages = [Float32Array.from(ramp(1)), Float32Array.from(ramp(255)), Uint32Array.from(ramp(4_294_967_295))]
  const data = Buffer.concat(pages.map(({ buffer }) => Buffer.from(buffer)))
  const size = data.length / pages.length
  const directories = pages.map((page, i) => ({ at: 8 + i * size, size, bits: 32, format: page instanceof Uint32Array ? 1 : 3 }))
  const opened = await openFile(bytesSource(tiff(directories, data), 'a.tif'), readTools)
  for (const number of [1, 2, 3]) {
    const { gray } = (await opened.picture(number))!
    expect([gray[0], gray[width / 2]! > 110 && gray[width / 2]! < 150, gray[width - 1]], `page ${number}`).toEqual([0, true, 255])
  }
  opened.close()
})

const pixels = (value: number): Buffer => Buffer.alloc(width * height, value)
const page = (at: number) => ({ at, size: width * height, bits: 8, format: 1 })

test('smaller copies of a page get no OCR; pages of the same size do, whatever they declare', async () => {
  const pages = [0, 1, 2, 1].map((kind, i) => ({ ...page(8), kind, across: i === 1 || i === 2 ? width / 2 : width }))
  const opened = await openFile(bytesSource(tiff(pages, pixels(10)), 'a.tif'), {
    ...readTools,
    limits: { ...readTools.limits, maxPages: 9 },
  })
  expect((await opened.contents()).pages.map(({ needsOcr }) => needsOcr)).toEqual([true, false, true, true])
  opened.close()
})

test('a page with smaller copies of itself is copied without them', async () => {
  const bytes = tiff([page(8), page(8 + width * height)], Buffer.concat([pixels(10), pixels(200)]), [[330, 4, 1, 8]])
  const part = await sharp(copyTiffPages(new Uint8Array(bytes), [2]))
    .raw()
    .toBuffer()
  expect(part[0]).toBe(200)
})

test('pages that share a colour profile are copied with one copy of it', () => {
  const profile = Buffer.alloc(400_000, 7)
  const pages = Array.from({ length: 10 }, () => page(8 + profile.length))
  const bytes = tiff(pages, Buffer.concat([profile, pixels(10)]), [[34675, 7, profile.length, 8]])
  expect(copyTiffPages(new Uint8Array(bytes), [1, 2, 3, 4, 5, 6, 7, 8, 9]).length).toBeLessThan(bytes.length)
})
