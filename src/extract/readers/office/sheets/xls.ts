/** Reader of Excel workbooks from before 2007 (BIFF5 to BIFF8, [MS-XLS]). */
import { ReadFailure } from '../../../../ports/document-reader.ts'
import { guessCodePage } from '../../code-pages.ts'
import { createTextSink, removeInvalidCharacters, type TextSink } from '../../decode.ts'
import type { Ole } from '../ole.ts'
import { type BiffRecord, readRecords, recordTypes } from './biff-records.ts'
import { type CellFormatter, createCellFormatter, pageHeaderText } from './cell-format.ts'
import { decryptWorkbook } from './xls-encryption.ts'
import { ansiString, type ReadString, readSharedStrings, unicodeText, wideString } from './xls-strings.ts'

/** Reads all sheets: cells, one line per row with tabs between cells, page headers, text boxes, comments, charts. Throws ReadFailure. */
export function readXls(ole: Ole): string {
  const stored = ole.stream('Workbook') ?? ole.stream('Book')
  if (!stored) throw new ReadFailure('FILE_CORRUPT', 'The file has no workbook.')
  const bytes = decryptWorkbook(stored)
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
      if (view.getUint16(0, true) < 0x600 && reader.readString === wideString)
        Object.assign(reader, { readString: ansiString(findCodePage(bytes)), lengthBytes: 1 })
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

/** Returns the code page of a workbook of BIFF5. Some programs leave it out; then it is guessed from the cells. */
function findCodePage(bytes: Uint8Array): number {
  const labels: Uint8Array[] = []
  for (const { kind, data, view } of readRecords(bytes)) {
    if (kind === recordTypes.codePage && data.length >= 2) return view.getUint16(0, true)
    if (kind === recordTypes.label) labels.push(data.subarray(8), lineEnd)
  }
  return guessCodePage(Buffer.concat(labels))
}
const lineEnd = Buffer.from('\n')

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
  if (kind === recordTypes.strings) reader.strings = readSharedStrings([data, ...rest])
  else if (kind === recordTypes.from1904) styles.isFrom1904 = data[0] === 1
  else if (kind === recordTypes.cellStyle && data.length >= 4) styles.formats.push(view.getUint16(2, true))
  else if (kind === recordTypes.format && data.length >= 4) styles.codes.set(view.getUint16(0, true), readString(data, 2, lengthBytes))
  else return false
  return true
}

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
