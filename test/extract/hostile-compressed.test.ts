/** Hostile files of lz4 and compress, and PDFs with hostile superscripts: each ends with its text or a code. */
import { expect, test } from 'vitest'
import { zip } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value >>> 0)
  return bytes
}
const bytesOf = (...bytes: number[]): Buffer => Buffer.from(bytes)
const frame = (...blocks: Buffer[]): Buffer => Buffer.concat([bytesOf(0x04, 0x22, 0x4d, 0x18, 0x40, 0x70, 0xdf), ...blocks])
const block = (...content: Buffer[]): Buffer => Buffer.concat([uint32(Buffer.concat(content).length), ...content])
const stored = (content: Buffer): Buffer => Buffer.concat([uint32(0x80000000 + content.length), content])
const end = uint32(0)
const words = Buffer.from('words of the file')
const skipped = (size: number): Buffer => Buffer.concat([uint32(0x184d2a50), uint32(size)])
/** Codes of nine bits behind the header of compress. */
function compressed(options: number, ...codes: number[]): Buffer {
  const bytes = Buffer.alloc(3 + Math.ceil((codes.length * 9) / 8))
  bytes.set([0x1f, 0x9d, options])
  for (const [i, code] of codes.entries())
    for (let bit = 0; bit < 9; bit++) if ((code >> bit) & 1) bytes[3 + ((i * 9 + bit) >> 3)]! |= 1 << ((i * 9 + bit) & 7)
  return bytes
}
const nested = (depth: number): Buffer => (depth === 0 ? words : frame(stored(nested(depth - 1)), end))
const letters = [...words].map(Number)

test.each([
  ['a block longer than the file', frame(uint32(0x7fffffff), words), 'a.lz4', 'ords of'],
  ['a stored block longer than the file', frame(uint32(0xffffffff), words), 'a.lz4', 'words of the file'],
  ['a match of distance 0', frame(block(bytesOf(0x10, 0x78, 0, 0))), 'a.lz4', 'x'],
  ['a match before the start', frame(block(bytesOf(0x10, 0x78, 2, 0))), 'a.lz4', 'x'],
  ['a length without an end', frame(block(bytesOf(0xff), Buffer.alloc(9999, 255))), 'a.lz4', ''],
  ['a match cut in its distance', frame(stored(words), block(bytesOf(0x10, 0x78, 1))), 'a.lz4', 'words of the filexxxxx'],
  ['a token without literals', frame(stored(words), block(bytesOf(0))), 'a.lz4', 'words of the file'],
  ['100,000 empty blocks', frame(...Array<Buffer>(100_000).fill(uint32(0x80000000)), stored(words), end), 'a.lz4', 'words of the file'],
  ['100,000 empty frames', Buffer.concat([...Array<Buffer>(100_000).fill(frame(end)), nested(1)]), 'a.lz4', 'words of the file'],
  [
    'skippable frames',
    Buffer.concat([nested(1), ...Array<Buffer>(9999).fill(skipped(0)), nested(1)]),
    'a.lz4',
    'words of the filewords of the file',
  ],
  ['a skippable frame past the end', Buffer.concat([nested(1), skipped(0xffffffff), words]), 'a.lz4', 'words of the file'],
  ['the flags of all options and no room for them', Buffer.concat([bytesOf(0x04, 0x22, 0x4d, 0x18, 0xff, 0xff), words]), 'a.lz4', ''],
  ['lz4 in lz4, four deep', nested(4), 'a.lz4', ''],
  ['a code that is not in the table', compressed(0x90, ...letters, 400), 'a.Z', 'words of the file'],
  ['a first code that is not in the table', compressed(0x90, 257), 'a.Z', ''],
  ['tables cleared without end', compressed(0x90, ...Array<number>(99_999).fill(256)), 'a.Z', ''],
  ['a table of nine bits that is full', compressed(0x89, ...Array<number>(2000).fill(0x78)), 'a.Z', 'x'.repeat(2000)],
  ['codes of 31 bits', compressed(0x9f, ...letters), 'a.Z', ''],
  ['codes of 0 bits', compressed(0x80, ...letters), 'a.Z', ''],
  ['no table to clear', compressed(0x10, ...letters), 'a.Z', 'words of the file'],
])('%s', async (_, bytes, filename, text) => {
  expect((await readBytes(bytes, filename)).text).toBe(text)
})

test('bombs in an archive cost the other members nothing', async () => {
  const bomb = frame(block(bytesOf(0x1f, 0x78, 1, 0), Buffer.alloc(1_200_000, 255), bytesOf(0)))
  expect((await readBytes(zip({ 'a.lz4': bomb, 'b.lz4': bomb, 'c.txt': words }), 'a.zip')).text).toContain('words of the file')
  expect(await failureOf(frame(stored(bomb), end), 'a.lz4')).toBe('FILE_TOO_COMPLEX')
})

test('PDF: letters of no, endless and huge sizes, in 20,000 lines', async () => {
  const lines = Array.from({ length: 20_000 }, (_, i) => `${['0', '1e30', '-8', '0.0001'][i % 4]} 0 0 8 ${i % 90} ${i % 700} Tm (a${i}) Tj`)
  const page = { draw: `BT /F1 1 Tf (first) Tj ${lines.join(' ')} ET` }
  expect((await readBytes(pdf({ pages: [page, { text: ['last words'] }] }), 'a.pdf')).text).toContain('last words')
})
