/** Reader of Excel workbooks from before 2007 (BIFF5 to BIFF8, [MS-XLS]). */
import { ReadFailure } from '../../../../ports/document-reader.ts'
import { decodeCodePage } from '../../code-pages.ts'
import { createTextSink, decodeAs, removeInvalidCharacters, type TextSink } from '../../decode.ts'
import type { Ole } from '../ole.ts'
import { type CellFormatter, createCellFormatter, pageHeaderText } from './cell-format.ts'

const recordTypes = {
  formula: 0x06,
  header: 0x14,
  footer: 0x15,
  from1904: 0x22,
  password: 0x2f,
  continued: 0x3c,
  codePage: 0x42,
  sheet: 0x85,
  multipleRk: 0xbd,
  richLabel: 0xd6,
  cellStyle: 0xe0,
  strings: 0xfc,
  sharedLabel: 0xfd,
  textBox: 0x1b6,
  number: 0x203,
  label: 0x204,
  boolean: 0x205,
  formulaString: 0x207,
  rk: 0x27e,
  format: 0x41e,
  begin: 0x809,
  seriesText: 0x100d,
} as const

interface BiffRecord {
  kind: number
  /** position in the stream */
  at: number
  data: Uint8Array
  view: DataView
  /** data of continuation records */
  rest: Uint8Array[]
}

/** Reads all sheets: cells, one line per row with tabs between cells, page headers, text boxes, comments, charts. Throws ReadFailure. */
export function readXls(ole: Ole): string {
  const bytes = ole.stream('Workbook') ?? ole.stream('Book')
  if (!bytes) throw new ReadFailure('FILE_CORRUPT', 'The file has no workbook.')
  const sink = createTextSink()
  const styles = { codes: new Map<number, string>(), formats: [] as number[], isFrom1904: false }
  const reader: CellReader = {
    strings: [],
    styles,
    format: createCellFormatter(styles),
    readString: wideString,
    lengthBytes: 2,
    row: -1,
    formulaRow: -1,
  }
  const sheets = new Map<number, string>()
  let sheetCount = 0
  for (const record of readRecords(bytes)) {
    if (sink.isFull) break
    const { kind, at, data, view } = record
    if (kind === recordTypes.begin && data.length >= 4) {
      if (view.getUint16(0, true) < 0x600) Object.assign(reader, { readString: ansiString(1252), lengthBytes: 1 })
      // Some programs write wrong positions. Worksheets have the type 0x10.
      const isSheet = view.getUint16(2, true) === 0x10
      const name = sheets.get(at) ?? (isSheet ? [...sheets.values()][sheetCount] : undefined)
      if (isSheet) sheetCount++
      if (name !== undefined) sink.add(`\n${name}`)
      reader.row = -1
    } else if (kind === recordTypes.sheet && data.length >= 7) sheets.set(view.getUint32(0, true), reader.readString(data, 6, 1))
    else if (!readGlobal(record, reader)) addCell(sink, record, reader)
  }
  return removeInvalidCharacters(sink.text()).trim()
}

interface CellReader {
  strings: readonly string[]
  readonly styles: { readonly codes: Map<number, string>; readonly formats: number[]; isFrom1904: boolean }
  readonly format: CellFormatter
  readString: ReadString
  /** size of the length of long strings */
  lengthBytes: 1 | 2
  /** row of the last cell */
  row: number
  /** row of the last formula */
  formulaRow: number
}

/** Reads a record that describes the workbook. Returns false for other records. */
function readGlobal({ kind, data, view, rest }: BiffRecord, reader: CellReader): boolean {
  const { styles, readString, lengthBytes } = reader
  if (kind === recordTypes.password) throw new ReadFailure('FILE_ENCRYPTED')
  if (kind === recordTypes.strings) reader.strings = readSharedStrings([data, ...rest])
  else if (kind === recordTypes.from1904) styles.isFrom1904 = data[0] === 1
  else if (kind === recordTypes.cellStyle && data.length >= 4) styles.formats.push(view.getUint16(2, true))
  else if (kind === recordTypes.format && data.length >= 4) styles.codes.set(view.getUint16(0, true), readString(data, 2, lengthBytes))
  else if (kind === recordTypes.codePage && data.length >= 2) {
    if (readString !== wideString) reader.readString = ansiString(view.getUint16(0, true))
  } else return false
  return true
}

/** Reads a string with a length of one or two bytes. */
type ReadString = (data: Uint8Array, at: number, lengthBytes: 1 | 2) => string

/** Reads a string of BIFF8, which has a byte of flags. */
const wideString: ReadString = (data, at, lengthBytes) => {
  const length = (data[at] ?? 0) + (lengthBytes === 2 ? (data[at + 1] ?? 0) * 256 : 0)
  return unicodeText(data.subarray(at + lengthBytes + 1), length, data[at + lengthBytes] ?? 0)
}

/** Reads a string of BIFF5. */
const ansiString =
  (codePage: number): ReadString =>
  (data, at, lengthBytes) => {
    const length = (data[at] ?? 0) + (lengthBytes === 2 ? (data[at + 1] ?? 0) * 256 : 0)
    return decodeCodePage(data.subarray(at + lengthBytes, at + lengthBytes + length), codePage)
  }

/** Decodes UTF-16 whose upper bytes are left out unless bit 0 of the flags is set. */
const unicodeText = (data: Uint8Array, length: number, flags: number): string =>
  flags & 1 ? (decodeAs(data.subarray(0, length * 2), 'utf-16le') ?? '') : Buffer.from(data.subarray(0, length)).toString('latin1')

/** Returns the text of a text box or comment: its length is at 10, its characters are in continuation records. */
function textBoxText({ view, rest }: BiffRecord): string {
  let left = view.getUint16(10, true)
  let text = ''
  for (const part of rest) {
    if (left <= 0) break
    const piece = unicodeText(part.subarray(1), left, part[0] ?? 0)
    left -= piece.length
    text += piece
  }
  return text
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
      last = { kind, at, data, view: new DataView(data.buffer, data.byteOffset, data.length), rest: [] }
    }
    at += 4 + size
  }
  if (last) yield last
}

/** Adds the cells of a record. A cell begins with its row, its column and its style (16 bits each). */
function addCell(sink: TextSink, record: BiffRecord, reader: CellReader): void {
  const { kind, data, view } = record
  const cell = (text: string, row: number): void => {
    sink.add(`${row === reader.row ? '\t' : '\n'}${text}`)
    reader.row = row
  }
  const { readString, lengthBytes } = reader
  if (kind === recordTypes.header || kind === recordTypes.footer) {
    if (data.length > 1) sink.add(`\n${pageHeaderText(readString(data, 0, lengthBytes))}\n`)
  } else if (kind === recordTypes.seriesText) sink.add(`\n${readString(data, 2, 1)}`)
  else if (kind === recordTypes.textBox && data.length >= 12) sink.add(`\n${textBoxText(record)}`)
  // The text of a formula follows its cell.
  else if (kind === recordTypes.formulaString && data.length >= 3) cell(readString(data, 0, 2), reader.formulaRow)
  else if (kind === recordTypes.multipleRk)
    for (let at = 4; at + 6 <= data.length - 2; at += 6)
      cell(reader.format(decodeRk(view.getUint32(at + 2, true)), view.getUint16(at, true)), view.getUint16(0, true))
  else if (data.length >= 8) {
    if (kind === recordTypes.formula) reader.formulaRow = view.getUint16(0, true)
    const text = cellText(record, reader)
    if (text !== null) cell(text, view.getUint16(0, true))
  }
}

function cellText({ kind, data, view }: BiffRecord, { format, strings, readString }: CellReader): string | null {
  const style = view.getUint16(4, true)
  const size = data.length
  if (kind === recordTypes.sharedLabel && size >= 10) return strings[view.getUint32(6, true)] ?? ''
  if (kind === recordTypes.label || kind === recordTypes.richLabel) return readString(data, 6, 2)
  if (kind === recordTypes.number && size >= 14) return format(view.getFloat64(6, true), style)
  if (kind === recordTypes.rk && size >= 10) return format(decodeRk(view.getUint32(6, true)), style)
  if (kind === recordTypes.boolean && data[7] === 0) return data[6] ? 'TRUE' : 'FALSE'
  // The result of a formula is a number unless its last two bytes are 0xffff.
  const isNumber = kind === recordTypes.formula && size >= 14 && view.getUint16(12, true) !== 0xffff
  return isNumber ? format(view.getFloat64(6, true), style) : null
}

/** Decodes an RK number: an integer or the upper half of a double, optionally in hundredths. */
export function decodeRk(value: number): number {
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
      text += unicodeText(piece, count, flags)
      at += count * width
      left -= count
    }
    strings.push(text)
    skip(runs * 4 + extra)
  }
  return strings
}
