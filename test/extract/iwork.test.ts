/** Text of Pages, Numbers and Keynote since 2013. */
import { expect, test } from 'vitest'
import { unpackSnappy } from '../../src/extract/readers/unpack/snappy.ts'
import { zip } from '../support/data/office-files.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

const varint = (value: number): number[] => (value < 128 ? [value] : [(value % 128) | 128, ...varint(Math.floor(value / 128))])

/** A message of Protocol Buffers. */
const message = (...fields: [field: number, value: number | string | Uint8Array][]): Buffer =>
  Buffer.concat(
    fields.map(([field, value]) => {
      if (typeof value === 'number') return Buffer.from([...varint(field * 8), ...varint(value)])
      const bytes = Buffer.from(value)
      return Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(bytes.length)]), bytes])
    }),
  )

const reference = (id: number): Buffer => message([1, id])

/** A file of objects: a chunk of one block. */
function iwa(...objects: [id: number, type: number, bytes: Uint8Array][]): Buffer {
  const stored = Buffer.concat(
    objects.flatMap(([id, type, bytes]) => {
      const info = message([1, id], [2, message([1, type], [3, bytes.length])])
      return [Buffer.from(varint(info.length)), info, bytes]
    }),
  )
  const parts = Array.from({ length: Math.ceil(stored.length / 60) }, (_, i) => stored.subarray(i * 60, i * 60 + 60))
  const literals = parts.flatMap((part) => [Buffer.from([(part.length - 1) << 2]), part])
  const block = Buffer.concat([Buffer.from(varint(stored.length)), ...literals])
  return Buffer.concat([Buffer.from([0, block.length & 255, (block.length >> 8) & 255, block.length >> 16]), block])
}

const text = (...parts: string[]): Buffer => message([1, 0], ...parts.map((part): [number, string] => [3, part]))

test('blocks of Snappy: literals of any length, and copies, which may overlap', () => {
  const block = [...varint(77), 2 << 2, ...Buffer.from('abc'), 60 << 2, 63, ...Buffer.alloc(64, 'x'), 0b1, 67, (5 << 2) | 2, 1, 0]
  expect(Buffer.from(unpackSnappy(Uint8Array.from(block), 100)).toString()).toBe(`abc${'x'.repeat(64)}abcx${'x'.repeat(6)}`)
  expect(Buffer.from(unpackSnappy(Uint8Array.of(9, 0, 97, 0b1, 9), 100)).toString()).toBe('a')
  expect(() => unpackSnappy(Uint8Array.from(block), 20)).toThrow(RangeError)
})

test('Pages: all texts and comments, without marks', async () => {
  const document = iwa([1, 10000, message([1, 5])], [2, 2001, text('Dear\u2028Ada,\n', 'the rent\u000e\ufffc\u0005second page')])
  const bytes = zip({
    'Index/Document.iwa': document,
    'Index/Notes.iwa': iwa([3, 2001, text('a note')], [4, 3056, message([1, 'a remark'])], [5, 3056, message([1, 'a note'])]),
  })
  const { mimeType, text: read } = await readBytes(bytes, 'a.pages')
  expect([mimeType, read.split(/\n+/)]).toEqual([
    'application/vnd.apple.pages',
    ['Dear', 'Ada,', 'the rent', 'second page', 'a note', 'a remark'],
  ])
  expect((await readBytes(zip({ 'Index.zip': bytes }), 'a.pages')).text).toBe(read)
})

test('FILE_ENCRYPTED with a password', async () => {
  expect(await failureOf(zip({ 'Index/Document.iwa': 'x', '.iwph': 'hint', '.iwpv2': 'x' }), 'a.pages')).toBe('FILE_ENCRYPTED')
})

test('Keynote: slides without the prompts of the theme', async () => {
  const files = { 'Index/Slide-1.iwa': iwa([1, 2001, text('a slide')]), 'Index/TemplateSlide-2.iwa': iwa([2, 2001, text('Title Text')]) }
  expect(await readBytes(zip(files), 'a')).toMatchObject({ mimeType: 'application/vnd.apple.keynote', text: 'a slide' })
})

/** A cell with its values by their flags. */
function cell(kind: number, values: [flag: number, value: Uint8Array][] = []): Buffer {
  const head = Buffer.alloc(12)
  head.set([5, kind])
  head.writeUInt32LE(
    values.reduce((flags, [flag]) => flags | flag, 0),
    8,
  )
  return Buffer.concat([
    head,
    ...values.map(([, value]) => value),
    Buffer.alloc(-values.reduce((sum, [, { length }]) => sum + length, 0) & 3),
  ])
}

const u32 = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer)
const f64 = (value: number): Buffer => Buffer.from(Float64Array.of(value).buffer)

/** A decimal number of 128 bits. */
function decimal(digits: number, exponent: number): Buffer {
  const bytes = Buffer.alloc(16)
  bytes.writeUInt32LE(Math.abs(digits))
  bytes.writeUInt16LE(((exponent + 0x1820) << 1) | (digits < 0 ? 0x8000 : 0), 14)
  return bytes
}

/** A row of cells; null: none in the column. */
function row(...cells: (Buffer | null)[]): Buffer {
  const offsets = Buffer.alloc(cells.length * 2)
  let length = 0
  for (const [column, bytes] of cells.entries()) {
    offsets.writeInt16LE(bytes ? length / 4 : -1, column * 2)
    length += bytes?.length ?? 0
  }
  return message([1, 0], [2, cells.length], [6, Buffer.concat(cells.flatMap((bytes) => bytes ?? []))], [7, offsets], [8, 1])
}

test('Numbers: sheets, and tables with their cells row by row', async () => {
  const rows = [
    row(cell(3, [[8, u32(1)]]), null, cell(9, [[16, u32(1)]])),
    row(null),
    row(cell(2, [[1, decimal(-159999, -2)]]), cell(5, [[4, f64(200_880_000)]]), cell(6, [[2, f64(1)]]), cell(7, [[2, f64(90)]]), cell(0)),
    row(cell(5, [[4, f64(200_880_000 + 3660)]]), cell(3), cell(2)),
  ]
  const store = message([3, message([1, message([1, 0], [2, reference(20)])])], [4, reference(21)], [17, reference(22)])
  const entry = (...fields: Parameters<typeof message>): Buffer => message([1, 1], [2, 1], ...fields)
  const bytes = zip({
    'Index/Document.iwa': iwa([1, 2, message([1, 'Budget'])], [10, 6001, message([1, 'x'], [4, store], [8, 'Costs'])]),
    'Index/Tables/Tile.iwa': iwa([20, 6002, message(...rows.map((bytes): [number, Buffer] => [5, bytes]))]),
    'Index/Tables/DataList.iwa': iwa(
      [21, 6005, message([1, 1], [4, reference(24)])],
      [22, 6005, message([1, 8], [3, entry([9, reference(23)])])],
      [23, 6218, message([1, reference(25)])],
      [24, 6011, message([1, 1], [3, entry([3, 'Harbour fees'])])],
      [25, 2001, text('rich\ntext')],
    ),
  })
  expect((await readBytes(bytes, 'a.numbers')).text.split('\n')).toEqual([
    'Budget',
    'Costs',
    'Harbour fees\trich text',
    '-1599.99\t2007-05-15\tTRUE\t90',
    '2007-05-15 01:01',
  ])
})

test('Numbers: the texts of older cells', async () => {
  const store = message([4, reference(21)])
  const bytes = zip({
    'Index/Document.iwa': iwa(
      [10, 6001, message([4, store], [8, 'Costs'])],
      [21, 6005, message([1, 1], [3, message([1, 1], [3, 'Harbour fees'])])],
    ),
  })
  expect((await readBytes(bytes, 'a.numbers')).text.split('\n')).toEqual(['Costs', 'Harbour fees'])
})

test('damaged objects are left out', async () => {
  const whole = iwa([1, 2001, text('first')], [2, 2001, text('second')])
  for (let length = 0; length < whole.length; length += 3) await readBytes(zip({ 'Index/Slide-1.iwa': whole.subarray(0, length) }), 'a.key')
  const bytes = zip({ 'Index/Slide-1.iwa': whole.subarray(0, -8), 'Index/Slide-2.iwa': whole })
  expect((await readBytes(bytes, 'a.key')).text).toContain('first')
})
