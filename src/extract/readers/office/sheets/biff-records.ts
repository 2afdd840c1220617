/** Records of Excel workbooks from before 2007 ([MS-XLS] 2.1.4). */
import { viewOf } from '../../../bytes.ts'

/** Types of records that the reader knows. */
export const recordTypes = {
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

export interface BiffRecord {
  kind: number
  /** position in the stream */
  at: number
  data: Uint8Array
  view: DataView
  /** data of continuation records */
  rest: Uint8Array[]
}

/** Reads the records of a stream, each with its continuations. */
export function* readRecords(bytes: Uint8Array): Generator<BiffRecord> {
  const view = viewOf(bytes)
  let last: BiffRecord | undefined
  for (let at = 0; at + 4 <= bytes.length; ) {
    const kind = view.getUint16(at, true)
    const size = view.getUint16(at + 2, true)
    const data = bytes.subarray(at + 4, at + 4 + size)
    if (kind === recordTypes.continued) last?.rest.push(data)
    else {
      if (last) yield last
      last = { kind, at, data, view: viewOf(data), rest: [] }
    }
    at += 4 + size
  }
  if (last) yield last
}
