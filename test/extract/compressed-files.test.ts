/** Files that are compressed alone. Node writes gzip and zstd; the others were written by the programs of their names. */
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

test('bz2, xz and zst of one file are that file, with its type', async () => {
  expect(await readBytes(bzip2, 'a.txt.bz2')).toMatchObject({ mimeType: 'application/x-bzip2', text: `${lines}second stream\n` })
  expect(await readBytes(xz, 'a.txt.xz')).toMatchObject({ mimeType: 'application/x-xz', text: lines })
  const html = zstdCompressSync('<html><body><p>zipped</p></body></html>')
  expect(await readBytes(html, 'a.html.zst')).toMatchObject({ mimeType: 'application/zstd', text: 'zipped' })
})

test('a bomb is FILE_TOO_COMPLEX; of a truncated file the beginning is read', async () => {
  expect(await failureOf(bzip2Bomb, 'a.bz2')).toBe('FILE_TOO_COMPLEX')
  expect(await failureOf(zstdCompressSync(Buffer.alloc(300_000_000, 'x')), 'a.zst')).toBe('FILE_TOO_COMPLEX')
  // The second stream is cut.
  expect((await readBytes(bzip2.subarray(0, -20), 'a.txt.bz2')).text).toBe(lines)
  expect(await readBytes(xz.subarray(0, 40), 'a.xz')).toMatchObject({ hasReader: false, text: '' })
})
