/** Word documents from before 2007. */
import { ole } from './files.ts'

interface OldParagraph {
  text: string
  /** modifiers: its list and level, the end of a row */
  list?: number
  level?: number
  isRowEnd?: boolean
  /** first and last character deleted in a tracked change */
  deleted?: readonly [first: number, last: number]
}

const u16 = (...values: number[]): Buffer => Buffer.from(Uint16Array.from(values).buffer)
const u32 = (...values: number[]): Buffer => Buffer.from(Uint32Array.from(values).buffer)

/** A level of a list: its label has the characters 0 to 8 for the numbers of levels. */
const listLevel = (start: number, format: number, label: string): Buffer =>
  Buffer.concat([u32(start), Buffer.from([format, ...Array(22).fill(0), 0]), u16(label.length), Buffer.from(label, 'utf16le')])

/** Properties of runs of characters by their bounds; every second run is deleted. */
function characterPage(bounds: readonly number[]): Buffer {
  const page = Buffer.alloc(512)
  u32(...bounds).copy(page, 0)
  for (let run = 1; run < bounds.length - 1; run += 2) page[bounds.length * 4 + run] = 250
  // The colour, then the deletion with the value that Word writes.
  Buffer.from([6, 0x42, 0x2a, 6, 0, 0x08, 0x81]).copy(page, 500)
  page[511] = bounds.length - 1
  return page
}

/** Paragraphs of 8-bit characters, further parts by length, and one list of nine levels: `1.` and `a)`. */
export function doc(
  paragraphs: readonly OldParagraph[],
  partLengths: readonly number[] = [],
  change: (fib: Buffer) => void = () => {},
): Buffer {
  const texts = paragraphs.map(({ text }) => Buffer.from(text, 'latin1'))
  const text = Buffer.concat(texts)
  const start = 0x400
  const page = Buffer.alloc(512)
  let position = start
  let propertiesAt = 510
  const deletions: number[] = []
  paragraphs.forEach(({ list, level, isRowEnd, deleted }, i) => {
    if (deleted) deletions.push(position + deleted[0], position + deleted[1] + 1)
    page.writeUInt32LE(position, i * 4)
    position += texts[i]!.length
    const modifiers = Buffer.concat([
      ...(list === undefined ? [] : [u16(0x460b, list)]),
      ...(level === undefined ? [] : [u16(0x260a), Buffer.from([level])]),
      ...(isRowEnd ? [u16(0x2417), Buffer.from([1])] : []),
    ])
    const words = Math.ceil((modifiers.length + 3) / 2)
    propertiesAt -= words * 2
    page[propertiesAt] = words
    modifiers.copy(page, propertiesAt + 3)
    page[(paragraphs.length + 1) * 4 + i * 13] = propertiesAt / 2
  })
  page.writeUInt32LE(position, paragraphs.length * 4)
  page[511] = paragraphs.length
  const pageNumber = Math.ceil((start + text.length) / 512)
  const document = Buffer.alloc((pageNumber + 2) * 512)
  text.copy(document, start)
  page.copy(document, pageNumber * 512)
  characterPage([start, ...deletions, position]).copy(document, (pageNumber + 1) * 512)

  const pieces = Buffer.concat([u32(0, text.length), u16(0), u32((start * 2) | 0x40000000), u16(0)])
  const levels = Array.from({ length: 9 }, (_, i) => listLevel(1, i === 0 ? 0 : 4, i === 0 ? '\x00.' : `\x00.${String.fromCharCode(i)})`))
  const tables = [
    [0x1a2, Buffer.concat([Buffer.from([2]), u32(pieces.length), pieces])],
    [0xfa, Buffer.concat([u32(start, position), u32(pageNumber + 1)])],
    [0x102, Buffer.concat([u32(start, position), u32(pageNumber)])],
    [0x2e2, Buffer.concat([u16(1), u32(77), Buffer.alloc(24), ...levels])],
    [0x2ea, Buffer.concat([u32(1), u32(77), Buffer.alloc(12), u32(0xffffffff)])],
  ] as const
  const table: Buffer[] = []
  for (const [at, data] of tables) {
    document.writeUInt32LE(Buffer.concat(table).length, at)
    document.writeUInt32LE(data.length, at + 4)
    table.push(data)
  }
  document.writeUInt16LE(0xa5ec, 0)
  document.writeUInt16LE(0xc1, 2)
  document.writeUInt16LE(0x200, 10)
  const lengths = partLengths.length > 0 ? partLengths : [text.length]
  lengths.forEach((length, i) => void document.writeUInt32LE(length, 0x4c + i * 4))
  change(document)
  return ole({ WordDocument: document, '1Table': Buffer.concat(table) })
}

/** A document of Word 95 in a language; its text is stored whole. */
export function doc95(text: Buffer, language: number): Buffer {
  const document = Buffer.alloc(0x400 + text.length)
  document.writeUInt16LE(0xa5dc, 0)
  document.writeUInt16LE(0x68, 2)
  document.writeUInt16LE(language, 6)
  document.writeUInt32LE(0x400, 0x18)
  document.writeUInt32LE(0x400 + text.length, 0x1c)
  document.writeUInt32LE(text.length, 0x34)
  text.copy(document, 0x400)
  return ole({ WordDocument: document })
}
