/** Parts of .xlsb workbooks, which are records ([MS-XLSB]). */

import { viewOf } from '../../../bytes.ts'
import { decodeAs, type TextSink } from '../../decode.ts'
import { type CellFormatter, pageHeaderText } from './cell-format.ts'
import type { SheetEncoding } from './sheet-encoding.ts'
import { decodeRk } from './xls.ts'

const recordTypes = {
  row: 0,
  rk: 2,
  boolean: 4,
  real: 5,
  string: 6,
  sharedString: 7,
  formulaString: 8,
  formulaNumber: 9,
  formulaBoolean: 10,
  sharedStringItem: 19,
  format: 44,
  cellStyle: 47,
  richString: 62,
  workbookProperties: 153,
  sheet: 156,
  headerFooter: 479,
  beginCellStyles: 617,
  endCellStyles: 618,
  commentText: 637,
} as const

interface BinaryRecord {
  kind: number
  data: Uint8Array
  view: DataView
}

/** A record begins with its type (1 or 2 bytes) and its size (1 to 4 bytes), both in groups of 7 bits. */
function* readRecords(bytes: Uint8Array): Generator<BinaryRecord> {
  let at = 0
  const number = (maxBytes: number): number => {
    let value = 0
    for (let i = 0; i < maxBytes; i++) {
      const byte = bytes[at++] ?? 0
      value |= (byte & 0x7f) << (7 * i)
      if (byte < 0x80) break
    }
    return value
  }
  while (at < bytes.length) {
    const kind = number(2)
    const size = number(4)
    const data = bytes.subarray(at, at + size)
    yield { kind, data, view: viewOf(data) }
    at += size
  }
}

/** Reads a string with a length of four bytes; 0xffffffff is an absent string. */
function readString({ data, view }: BinaryRecord, at: number): { text: string; end: number } {
  const length = at + 4 <= data.length ? view.getUint32(at, true) : 0
  if (length === 0xffffffff) return { text: '', end: at + 4 }
  const end = Math.min(at + 4 + length * 2, data.length)
  return { text: decodeAs(data.subarray(at + 4, end), 'utf-16le') ?? '', end }
}

export const xlsb: SheetEncoding = {
  readWorkbook(part) {
    const sheets: { name: string; id: string }[] = []
    let isFrom1904 = false
    for (const record of readRecords(part)) {
      if (record.kind === recordTypes.workbookProperties) isFrom1904 = (record.data[0]! & 1) === 1
      if (record.kind !== recordTypes.sheet) continue
      const id = readString(record, 8)
      sheets.push({ id: id.text, name: readString(record, id.end).text })
    }
    return { sheets, isFrom1904 }
  },
  readSharedStrings(part) {
    const strings: string[] = []
    for (const record of readRecords(part)) if (record.kind === recordTypes.sharedStringItem) strings.push(readString(record, 1).text)
    return strings
  },
  readStyles(part) {
    const codes = new Map<number, string>()
    const formats: number[] = []
    let inCellStyles = false
    for (const record of readRecords(part)) {
      const { kind, data, view } = record
      if (kind === recordTypes.format && data.length >= 2) codes.set(view.getUint16(0, true), readString(record, 2).text)
      else if (kind === recordTypes.cellStyle && inCellStyles) formats.push(data.length >= 4 ? view.getUint16(2, true) : 0)
      else if (kind === recordTypes.beginCellStyles) inCellStyles = true
      else if (kind === recordTypes.endCellStyles) inCellStyles = false
    }
    return { codes, formats }
  },
  addCells(sink, part, strings, format) {
    for (const record of readRecords(part)) {
      if (sink.isFull) return
      if (record.kind === recordTypes.row) sink.add('\n')
      else if (record.kind === recordTypes.headerFooter) addPageHeaders(sink, record)
      else if (record.data.length >= 8) {
        const text = cellText(record, strings, format)
        if (text) sink.add(`${text}\t`)
      }
    }
  },
  addComments(sink, part) {
    for (const record of readRecords(part)) if (record.kind === recordTypes.commentText) sink.add(`${readString(record, 1).text}\n`)
  },
}

/** Returns the text of a cell record, '' for other records. A cell begins with its column and its style (24 bits). */
function cellText(record: BinaryRecord, strings: readonly string[], format: CellFormatter): string {
  const { kind, data, view } = record
  const style = view.getUint32(4, true) & 0xffffff
  if (kind === recordTypes.string || kind === recordTypes.formulaString) return readString(record, 8).text
  if (kind === recordTypes.richString) return readString(record, 9).text
  if (kind === recordTypes.sharedString && data.length >= 12) return strings[view.getUint32(8, true)] ?? ''
  if (kind === recordTypes.rk && data.length >= 12) return format(decodeRk(view.getUint32(8, true)), style)
  if ((kind === recordTypes.real || kind === recordTypes.formulaNumber) && data.length >= 16) return format(view.getFloat64(8, true), style)
  if ((kind === recordTypes.boolean || kind === recordTypes.formulaBoolean) && data.length >= 9) return data[8] ? 'TRUE' : 'FALSE'
  return ''
}

function addPageHeaders(sink: TextSink, record: BinaryRecord): void {
  let at = 2
  while (at + 4 <= record.data.length) {
    const { text, end } = readString(record, at)
    sink.add(`\n${pageHeaderText(text)}`)
    at = end
  }
  sink.add('\n')
}
