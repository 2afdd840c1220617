/** Parts of .xlsx workbooks, which are XML (ECMA-376 part 1, 18). */
import type { TextSink } from '../../decode.ts'
import { decodeXml, localName, walkXml, type XmlEvents } from '../../markup.ts'
import { type CellFormatter, type CellStyles, decodeEscapes, pageHeaderText } from './cell-format.ts'
import type { SheetEncoding, Workbook } from './sheet-encoding.ts'
import { placeholderAuthor } from './threaded-comments.ts'

export const xlsx: SheetEncoding = {
  readWorkbook: (part) => readWorkbook(decodeXml(part)),
  readSharedStrings: (part) => readSharedStrings(decodeXml(part)),
  readStyles: (part) => readStyles(decodeXml(part)),
  addCells: (sink, part, strings, format) => addCells(sink, decodeXml(part), strings, format),
  addComments: (sink, part, hasThreads) => addComments(sink, decodeXml(part), hasThreads),
}

function readWorkbook(xml: string): Workbook {
  const sheets: { name: string; id: string }[] = []
  let isFrom1904 = false
  walkXml(xml, {
    open(name, attributes) {
      const tag = localName(name)
      if (tag === 'sheet') sheets.push({ name: attributes.name ?? '', id: attributes['r:id'] ?? '' })
      if (tag === 'workbookPr') isFrom1904 = /^(1|true|on)$/.test(attributes.date1904 ?? '')
    },
  })
  return { sheets, isFrom1904 }
}

function readSharedStrings(xml: string): string[] {
  const strings: string[] = []
  let current = ''
  let inText = false
  let isPhonetic = false
  walkXml(xml, {
    open(name) {
      const tag = localName(name)
      if (tag === 'si') current = ''
      else if (tag === 'rPh') isPhonetic = true
      else if (tag === 't') inText = !isPhonetic
    },
    text(text) {
      if (inText) current += text
    },
    close(name) {
      const tag = localName(name)
      if (tag === 'si') strings.push(decodeEscapes(current))
      else if (tag === 'rPh') isPhonetic = false
      else if (tag === 't') inText = false
    },
  })
  return strings
}

/** Reads the number formats of the cell styles. */
function readStyles(xml: string): Omit<CellStyles, 'isFrom1904'> {
  const codes = new Map<number, string>()
  const formats: number[] = []
  let inCellStyles = false
  walkXml(xml, {
    open(name, { numFmtId = '', formatCode = '' }) {
      const tag = localName(name)
      if (tag === 'numFmt') codes.set(Number(numFmtId), formatCode)
      else if (tag === 'cellXfs') inCellStyles = true
      else if (tag === 'xf' && inCellStyles) formats.push(Number(numFmtId))
    },
    close(name) {
      if (localName(name) === 'cellXfs') inCellStyles = false
    },
  })
  return { codes, formats }
}

const pageHeader = /^(odd|even|first)(Header|Footer)$/

function addCells(sink: TextSink, xml: string, strings: readonly string[], format: CellFormatter): void {
  let type = ''
  let style = -1
  let value = ''
  let inValue = false
  let header: string | null = null
  const events: XmlEvents = {
    open(name, attributes) {
      const tag = localName(name)
      if (pageHeader.test(tag)) header = ''
      else if (tag === 'c') {
        type = attributes.t ?? 'n'
        style = Number(attributes.s ?? -1)
        value = ''
      } else if (tag === 'v' || tag === 't') inValue = true
    },
    text(text) {
      if (inValue) value += text
      else if (header !== null) header += text
    },
    close(name) {
      const tag = localName(name)
      if (tag === 'v' || tag === 't') inValue = false
      else if (tag === 'c' && value !== '') sink.add(`${formatCell(value, type, format, style, strings)}\t`)
      else if (tag === 'row') sink.add('\n')
      else if (header !== null && pageHeader.test(tag)) {
        sink.add(`${pageHeaderText(decodeEscapes(header))}\n`)
        header = null
      }
    },
  }
  walkXml(xml, events, () => sink.isFull)
}

function formatCell(value: string, type: string, format: CellFormatter, style: number, strings: readonly string[]): string {
  if (type === 's') return strings[Number(value)] ?? ''
  if (type === 'b') return value === '1' ? 'TRUE' : 'FALSE'
  const number = Number(value)
  return type !== 'n' || Number.isNaN(number) ? decodeEscapes(value) : format(number, style)
}

/** Adds the authors, then the comments. */
function addComments(sink: TextSink, xml: string, hasThreads: boolean): void {
  const authors: string[] = []
  let author = ''
  let content = ''
  walkXml(xml, {
    open(name, { authorId }) {
      if (localName(name) === 'comment') author = authors[Number(authorId)] ?? ''
    },
    text(text) {
      content += text
    },
    close(name) {
      const tag = localName(name)
      if (tag === 'author') {
        author = content
        authors.push(content)
      } else if (tag !== 'comment') return
      if (!hasThreads || !author.startsWith(placeholderAuthor)) sink.add(`${decodeEscapes(content)}\n`)
      content = ''
    },
  })
}
