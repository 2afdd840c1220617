/** Single compressed files. Node writes gzip and zstd; the others were written by the programs of their names. */
import { zstdCompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { failureOf, readBytes } from '../support/read-bytes.ts'

const lines = [1, 2, 3, 4].map((i) => `Words in bzip ${i}\n`).join('')
/** Two streams: the lines, and `second stream`. */
const bzip2 = Buffer.from(
  'QlpoOTFBWSZTWSvxnwoAAApbgAAQQAA8AACAFCHYECAAMUwAE0Cqp6jIyMyl+rX0fEmDBBJBRJogooo/F3JFOFCQK/GfCkJaaDkxQVkmU1mEUpCUAAAF0YAAEEAALgOcACAAIgDQ0EDQNAUEvThPHh4u5IpwoSEIpSEo',
  'base64',
)
const xz = Buffer.from(
  '/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4AA/AB1dACubykZWm29Jq6uDAyV32mc0qzXWcj/7gt1u5+XAAAAAAC7VSrLHCM5+AAE5QAF53lgftvN9AQAAAAAEWVo=',
  'base64',
)
/** 300 MB: an x, then zeros. */
const bzip2Bomb = Buffer.from(
  'QlpoOTFBWSZTWcjC8YsFfjjAgMAQAEAACCAAUGaaCaqek9xFQEtSSQVV21CoCXzFBWSZTWQ4J4t8BX45AAMAAAAggADCATUZCoCWpCoCXMUFZJlNZDgni3wFfjkAAwAAACCAAMIBNRkKgJakKgJcxQVkmU1kOCeLfAV+OQADAAAAIIAAwgE1GQqAlqQqAlzFBWSZTWQ4J4t8BX45AAMAAAAggADCATUZCoCWpCoCXMUFZJlNZDgni3wFfjkAAwAAACCAAMIBNRkKgJakKgJcxQVkmU1m9H7WcALx0wCDAABAAAAggADDMCapplIVBbVJCoLxdyRThQkPh6+UUA==',
  'base64',
)

const lz4 = Buffer.from('BCJNGHRAvSEAAAD5AFdvcmRzIGluIGx6NCAxCg8AGjIPABczDwBQejQgNApeSt55AAAAALAeWqs=', 'base64')
const compressed = Buffer.from('H52QV97IITMHRBo3IMa8aQNHTpk5BWMoCDiw4MGECxs+LChjokCCBhEqZOgQIogZHiuGxEhyIwgaCgA=', 'base64')
const lines4 = (program: string) => [1, 2, 3, 4].map((i) => `Words in ${program} ${i}\n`).join('')
/** 306 MB: an x, and the last byte again and again. */
const lz4Bomb = (() => {
  const block = Buffer.concat([Buffer.from([0x1f, 0x78, 1, 0]), Buffer.alloc(1_200_000, 255), Buffer.from([0])])
  const header = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x40, 0x70, 0xdf, 0, 0, 0, 0])
  header.writeUInt32LE(block.length, 7)
  return Buffer.concat([header, block])
})()
/** 288 MB: each code is the string before it and one more x. */
const lzwBomb = (() => {
  const bytes = Buffer.alloc(60_000)
  bytes.set([0x1f, 0x9d, 0x90])
  let at = 24
  for (let count = 0; count < 24_000; count++) {
    const [code, width] = count === 0 ? [0x78, 9] : [255 + count + 1, Math.max(9, 32 - Math.clz32(256 + count))]
    for (let bit = 0; bit < width; bit++, at++) if ((code >> bit) & 1) bytes[at >> 3]! |= 1 << (at & 7)
  }
  return bytes.subarray(0, at >> 3)
})()

test('bz2, xz and zst of one file are read as that file, with its type', async () => {
  expect(await readBytes(bzip2, 'a.txt.bz2')).toMatchObject({ mimeType: 'application/x-bzip2', text: `${lines}second stream\n` })
  expect(await readBytes(xz, 'a.txt.xz')).toMatchObject({ mimeType: 'application/x-xz', text: lines })
  const html = zstdCompressSync('<html><body><p>zipped</p></body></html>')
  expect(await readBytes(html, 'a.html.zst')).toMatchObject({ mimeType: 'application/zstd', text: 'zipped' })
})

test('lz4 and Z of one file are that file', async () => {
  expect(await readBytes(lz4, 'a.txt.lz4')).toMatchObject({ mimeType: 'application/x-lz4', text: lines4('lz4') })
  expect((await readBytes(Buffer.concat([lz4, lz4]), 'a.lz4')).text).toBe(lines4('lz4').repeat(2))
  expect(await readBytes(compressed, 'a.txt.Z')).toMatchObject({ mimeType: 'application/x-compress', text: lines4('compress') })
})

test('a bomb is FILE_TOO_COMPLEX; a truncated file is read up to its end', async () => {
  expect(await failureOf(bzip2Bomb, 'a.bz2')).toBe('FILE_TOO_COMPLEX')
  expect(await failureOf(zstdCompressSync(Buffer.alloc(300_000_000, 'x')), 'a.zst')).toBe('FILE_TOO_COMPLEX')
  expect(await failureOf(lz4Bomb, 'a.lz4')).toBe('FILE_TOO_COMPLEX')
  expect(await failureOf(lzwBomb, 'a.Z')).toBe('FILE_TOO_COMPLEX')
  // The second stream is cut.
  expect((await readBytes(bzip2.subarray(0, -20), 'a.txt.bz2')).text).toBe(lines)
  expect((await readBytes(lz4.subarray(0, -12), 'a.lz4')).text).toMatch(/^Words in lz4 1/)
  expect((await readBytes(compressed.subarray(0, -3), 'a.Z')).text).toMatch(/^Words in compress 1/)
  for (const head of [lz4.subarray(0, 7), compressed.subarray(0, 3)])
    expect(await readBytes(head, 'a')).toMatchObject({ hasReader: false, text: '' })
  expect(await readBytes(xz.subarray(0, 40), 'a.xz')).toMatchObject({ hasReader: false, text: '' })
})
