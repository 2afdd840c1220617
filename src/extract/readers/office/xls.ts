/** Reader of Excel workbooks from before 2007 (BIFF5 to BIFF8). */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { createTextSink, decodeAs, removeInvalidCharacters, type TextSink } from '../decode.ts'
import type { Ole } from './ole.ts'

const recordTypes = {
  end: 0x0a,
  continued: 0x3c,
  password: 0x2f,
  sheet: 0x85,
  strings: 0xfc,
  begin: 0x809,
  label: 0x204,
  richLabel: 0xd6,
  sharedLabel: 0xfd,
  number: 0x203,
  rk: 0x27e,
  multipleRk: 0xbd,
  formulaString: 0x207,
  formula: 0x06,
} as const

interface BiffRecord {
  kind: number
  data: Uint8Array
  view: DataView
  /** data of continuation records */
  rest: Uint8Array[]
}

/** Reads the names and cells of all sheets: one line per row, tabs between cells. Dates stay numbers. Throws ReadFailure. */
export function readXls(ole: Ole): string {
  const bytes = ole.stream('Workbook') ?? ole.stream('Book')
  if (!bytes) throw new ReadFailure('FILE_CORRUPT', 'The file has no workbook.')
  const isWide = ole.names.includes('Workbook')
  const sheets: string[] = []
  let strings: string[] = []
  const sink = createTextSink()
  let current = 0
  let row = -1
  for (const part of readRecords(bytes)) {
    if (part.kind === recordTypes.password) throw new ReadFailure('FILE_ENCRYPTED')
    if (part.kind === recordTypes.sheet) sheets.push(isWide ? readShortString(part.data, 6) : decodeAnsi(part.data.subarray(7)))
    if (part.kind === recordTypes.strings) strings = readSharedStrings([part.data, ...part.rest])
    if (part.kind === recordTypes.begin && part.view.byteLength >= 4 && part.view.getUint16(2, true) === 0x10) {
      sink.add(`\n${sheets[current++] ?? ''}`)
      row = -1
    }
    row = addCell(sink, part, strings, isWide, row)
  }
  return removeInvalidCharacters(sink.text()).trim()
}

function* readRecords(bytes: Uint8Array): Generator<BiffRecord> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let last: BiffRecord | undefined
  for (let at = 0; at + 4 <= bytes.length; ) {
    const kind = view.getUint16(at, true)
    const size = view.getUint16(at + 2, true)
    const data = bytes.subarray(at + 4, at + 4 + size)
    if (kind === recordTypes.continued) last?.rest.push(data)
    else {
      if (last) yield last
      last = { kind, data, view: new DataView(data.buffer, data.byteOffset, data.length), rest: [] }
    }
    at += 4 + size
  }
  if (last) yield last
}

const decodeAnsi = (bytes: Uint8Array): string => decodeAs(bytes, 'windows-1252') ?? ''

/** Reads a string with a length of one byte. */
function readShortString(data: Uint8Array, at: number): string {
  const length = data[at] ?? 0
  return data[at + 1]
    ? (decodeAs(data.subarray(at + 2, at + 2 + length * 2), 'utf-16le') ?? '')
    : decodeAnsi(data.subarray(at + 2, at + 2 + length))
}

/** Adds the cells of a record. Returns the current row of the text. */
function addCell(sink: TextSink, { kind, data, view }: BiffRecord, strings: readonly string[], isWide: boolean, row: number): number {
  const cell = (text: string, at: number): number => {
    sink.add(`${at === row ? '\t' : '\n'}${text}`)
    return at
  }
  const size = data.length
  if (kind === recordTypes.sharedLabel && size >= 10) return cell(strings[view.getUint32(6, true)] ?? '', view.getUint16(0, true))
  if ((kind === recordTypes.label || kind === recordTypes.richLabel) && size >= 8)
    return cell(readLongString(data, 6, isWide), view.getUint16(0, true))
  if (kind === recordTypes.formulaString && size >= 3) return cell(readLongString(data, 0, isWide), row)
  if (kind === recordTypes.number && size >= 14) return cell(formatNumber(view.getFloat64(6, true)), view.getUint16(0, true))
  if (kind === recordTypes.rk && size >= 10) return cell(formatNumber(decodeRk(view.getUint32(6, true))), view.getUint16(0, true))
  // The result of a formula is a number unless its last two bytes are 0xffff. Text results follow in a record of their own.
  if (kind === recordTypes.formula && size >= 14 && view.getUint16(12, true) !== 0xffff)
    return cell(formatNumber(view.getFloat64(6, true)), view.getUint16(0, true))
  if (kind === recordTypes.multipleRk && size >= 6) {
    let now = row
    for (let at = 4; at + 6 <= size - 2; at += 6) {
      const text = formatNumber(decodeRk(view.getUint32(at + 2, true)))
      sink.add(`${now === view.getUint16(0, true) ? '\t' : '\n'}${text}`)
      now = view.getUint16(0, true)
    }
    return now
  }
  return row
}

/** Reads a string with a length of two bytes. */
function readLongString(data: Uint8Array, at: number, isWide: boolean): string {
  const length = (data[at] ?? 0) + (data[at + 1] ?? 0) * 256
  if (!isWide) return decodeAnsi(data.subarray(at + 2, at + 2 + length))
  const start = at + 3
  return data[at + 2]! & 1
    ? (decodeAs(data.subarray(start, start + length * 2), 'utf-16le') ?? '')
    : decodeAnsi(data.subarray(start, start + length))
}

const formatNumber = (value: number): string => String(Number(value.toPrecision(15)))

/** Decodes an RK number: an integer or the upper half of a double, optionally in hundredths. */
function decodeRk(value: number): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setUint32(4, value & 0xfffffffc, true)
  const number = value & 2 ? (value | 0) >> 2 : view.getFloat64(0, true)
  return value & 1 ? number / 100 : number
}

/** Reads the shared strings. If a record ends inside a string, the next one starts with a new byte of flags. */
function readSharedStrings(blocks: readonly Uint8Array[]): string[] {
  const strings: string[] = []
  let block = 0
  let at = 8
  const bytesLeft = (): number => (blocks[block]?.length ?? 0) - at
  const ahead = (): boolean => {
    while (block < blocks.length && bytesLeft() <= 0) {
      block++
      at = 0
    }
    return block < blocks.length
  }
  const byte = (): number => (ahead() ? blocks[block]![at++]! : 0)
  const word = (): number => byte() + byte() * 256
  const skip = (count: number): void => {
    for (let left = count; left > 0 && ahead(); ) {
      const step = Math.min(left, bytesLeft())
      at += step
      left -= step
    }
  }
  while (ahead()) {
    const length = word()
    let flags = byte()
    const runs = flags & 8 ? word() : 0
    const extra = flags & 4 ? word() + word() * 65536 : 0
    let text = ''
    for (let left = length; left > 0; ) {
      if (bytesLeft() <= 0) {
        if (!ahead()) break
        flags = byte()
      }
      const width = flags & 1 ? 2 : 1
      const count = Math.min(left, Math.max(1, Math.floor(bytesLeft() / width)))
      const piece = blocks[block]?.subarray(at, at + count * width) ?? new Uint8Array()
      text += width === 2 ? decodeAs(piece, 'utf-16le') : Buffer.from(piece).toString('latin1')
      at += count * width
      left -= count
    }
    strings.push(text)
    skip(runs * 4 + extra)
  }
  return strings
}
