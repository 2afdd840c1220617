/** Interface of the two encodings of Open XML workbooks. */
import type { TextSink } from '../../decode.ts'
import type { CellFormatter, CellStyles } from './cell-format.ts'

export interface Workbook {
  readonly sheets: readonly { name: string; id: string }[]
  readonly isFrom1904: boolean
}

/** Encoding of the parts of a workbook: XML, or records in .xlsb files. */
export interface SheetEncoding {
  readWorkbook(part: Uint8Array): Workbook
  readSharedStrings(part: Uint8Array): string[]
  readStyles(part: Uint8Array): Omit<CellStyles, 'isFrom1904'>
  /** Adds the cells of a sheet, its page headers and its page footers. */
  addCells(sink: TextSink, part: Uint8Array, strings: readonly string[], format: CellFormatter): void
  /** `hasThreads`: leave out placeholders for threaded comments. */
  addComments(sink: TextSink, part: Uint8Array, hasThreads: boolean): void
}
