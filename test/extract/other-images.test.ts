/** Images that sharp does not read. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ImageMagick, initializeImageMagick, MagickFormat, MagickReadSettings } from '@imagemagick/magick-wasm'
import { beforeAll, describe, expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { image, scan } from '../support/data/files.ts'
import { failureOf, readBytes, readImages, readTools } from '../support/read-bytes.ts'

const [width, height] = [300, 60]
const page = await scan(['hello'], { width, height })

/** Netpbm images of the page: bits, gray, colour, each as numbers or raw. */
const header = (kind: string, depth = '\n255') => Buffer.from(`${kind}\n# made by hand\n${width} ${height}${depth}\n`)
const colour = Buffer.from([...page.gray].flatMap((value) => [value, value, value]))
const bits = Buffer.alloc((Math.ceil(width / 8) * height) as number)
for (const [i, value] of page.gray.entries()) {
  const at = Math.floor(i / width) * Math.ceil(width / 8) * 8 + (i % width)
  if (value < 128) bits[at >> 3] = (bits[at >> 3] ?? 0) | (0x80 >> (at & 7))
}
const netpbm: Record<string, Buffer> = {
  'a.ppm': Buffer.concat([header('P6'), colour]),
  'a.pgm': Buffer.concat([header('P5'), Buffer.from(page.gray)]),
  'a.pbm': Buffer.concat([header('P4', ''), bits]),
  'plain.pgm': Buffer.concat([header('P2'), Buffer.from([...page.gray].join(' '))]),
}

const files: Record<string, [type: string, bytes: Buffer]> = {}
beforeAll(async () => {
  await initializeImageMagick(readFileSync(fileURLToPath(import.meta.resolve('@imagemagick/magick-wasm/magick.wasm'))))
  const encode = (format: MagickFormat): Buffer =>
    ImageMagick.read(netpbm['a.ppm'] as Buffer, new MagickReadSettings({ format: MagickFormat.Ppm }), (drawn) =>
      drawn.write(format, (data) => Buffer.from(data)),
    )
  const avif = await image(page).avif().toBuffer()
  Object.assign(files, {
    'a.jp2': ['image/jp2', encode(MagickFormat.Jp2)],
    'a.j2k': ['image/j2c', encode(MagickFormat.J2k)],
    'a.jxl': ['image/jxl', encode(MagickFormat.Jxl)],
    'a.psd': ['image/vnd.adobe.photoshop', encode(MagickFormat.Psd)],
    // No encoder of HEVC is free. The container is the same, and so is its reader.
    'a.heic': ['image/heic', Buffer.from(avif.toString('latin1').replace('ftypavif', 'ftypheic'), 'latin1')],
    ...Object.fromEntries(Object.entries(netpbm).map(([name, bytes]) => [name, ['image/x-portable-anymap', bytes]])),
  })
})

const names = ['a.jp2', 'a.j2k', 'a.jxl', 'a.psd', 'a.heic', ...Object.keys(netpbm)]

test.each(['a.heic', 'a.jp2', 'a.jxl'])('the PDF/A of %s is compressed as much as the picture', async (name) => {
  const info = { title: name, author: null, created: '2024-02-03T04:05:06Z', modified: '2024-02-03T04:05:06Z', language: null }
  const opened = await openFile(bytesSource(files[name]![1], name), readTools)
  const pdf = await opened.pdfa!(new Map(), { ...info, producer: 'dms', sha256: 'ab'.repeat(32) })
  expect(Buffer.from(pdf).includes('/DCTDecode')).toBe(true)
})

describe.each(names)('%s', (name) => {
  const load = () => files[name] ?? (['', Buffer.alloc(0)] as const)

  test('is decoded: its letters are at their places', async () => {
    const [type, bytes] = load()
    const read = await readBytes(bytes, 'unnamed')
    expect(read).toMatchObject({ mimeType: type, hasReader: true, metadata: { width, height, page_count: 1 } })
    const [picture] = await readImages(bytes, 'unnamed')
    const isDark = (values: Uint8Array) => Array.from(values, (value) => (value < 128 ? 1 : 0) as number)
    const [found, drawn] = [isDark(picture?.gray ?? new Uint8Array()), isDark(page.gray)]
    expect(found).toHaveLength(drawn.length)
    const different = drawn.filter((value, i) => value !== found[i]).length
    expect(different).toBeLessThan(drawn.length * 0.02)
    expect(drawn.reduce((sum, value) => sum + value)).toBeGreaterThan(drawn.length * 0.02)
  })

  test('truncated or with flipped bits it fails or is read, and the next file is read', async () => {
    const [, bytes] = load()
    const damaged = [0.3, 0.9].map((share) => bytes.subarray(0, Math.floor(bytes.length * share)))
    for (let seed = 3; damaged.length < 8; seed++) {
      const flipped = Buffer.from(bytes)
      for (let at = 12 + seed; at < flipped.length; at += 7 + seed * 41) flipped[at] = (flipped[at] ?? 0) ^ (1 << (seed & 7))
      damaged.push(flipped)
    }
    for (const one of damaged) expect(['none', 'FILE_CORRUPT', 'FILE_TOO_COMPLEX']).toContain(await failureOf(one, name))
    expect(await failureOf(bytes, name)).toBe('none')
  })
})

test('FILE_TOO_COMPLEX for more pixels than allowed, by the header only', async () => {
  expect(await failureOf(Buffer.from('P6\n60000 60000\n255\nxxxxxx'), 'a.ppm')).toBe('FILE_TOO_COMPLEX')
})

/** A TIFF directory of entries [tag, value] with 32-bit values. */
function directory(entries: readonly (readonly [number, number])[], next = 0): Buffer {
  const bytes = Buffer.alloc(2 + entries.length * 12 + 4)
  bytes.writeUInt16LE(entries.length, 0)
  for (const [i, [tag, value]] of entries.entries()) {
    bytes.writeUInt16LE(tag, 2 + i * 12)
    bytes.writeUInt16LE(4, 4 + i * 12)
    bytes.writeUInt32LE(1, 6 + i * 12)
    bytes.writeUInt32LE(value, 10 + i * 12)
  }
  bytes.writeUInt32LE(next, bytes.length - 4)
  return bytes
}

/** A raw file: raw pixels that begin like a lossless JPEG, and a preview in a directory below. */
function cameraRaw(preview: Buffer, previewSize = preview.length): Buffer {
  const lossless = Buffer.concat([Buffer.from('ffd8ffc3000b080000000001011100', 'hex'), Buffer.alloc(100_000)])
  const head = Buffer.from('49492a0008000000', 'hex')
  const sizes = [3, 2].map((count) => 2 + count * 12 + 4) as [number, number]
  const start = 8 + sizes[0] + sizes[1]
  const first = directory([
    [273, start],
    [279, lossless.length],
    [330, 8 + sizes[0]],
  ])
  const below = directory([
    [513, start + lossless.length],
    [514, previewSize],
  ])
  return Buffer.concat([head, first, below, lossless, preview])
}

test('the preview of a camera raw file is read; hasReader is false without one', async () => {
  const preview = await image(page).jpeg().toBuffer()
  expect(await readBytes(cameraRaw(preview), 'a.nef')).toMatchObject({
    mimeType: 'image/x-nikon-nef',
    hasReader: true,
    pages: [{ needsOcr: true, width, height }],
  })
  expect(await readImages(cameraRaw(preview), 'a.dng')).toEqual([expect.objectContaining({ width, height })])
  expect(await readBytes(cameraRaw(Buffer.alloc(9)), 'a.arw')).toMatchObject({ mimeType: 'image/x-sony-arw', hasReader: false, text: '' })
  expect(await readBytes(cameraRaw(preview, 0xffffffff), 'a.pef')).toMatchObject({ hasReader: true, pages: [{ width }] })
  expect(await readBytes(cameraRaw(preview).subarray(0, 50), 'a.cr2')).toMatchObject({ hasReader: false })
})
