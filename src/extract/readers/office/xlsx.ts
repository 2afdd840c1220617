/** Reader of Open XML spreadsheets: one line per row, tabs between cells. */
import { createTextSink, removeInvalidCharacters, type TextSink } from '../decode.ts'
import { decodeXml, walkXml, type XmlEvents } from '../markup.ts'
import type { Archive } from '../zip.ts'
import { addRuns, findMainPart, readRelations } from './open-xml.ts'

/** Reads all sheets in order, with their names and comments. */
export function readXlsx(archive: Archive): string {
  const main = findMainPart(archive) ?? 'xl/workbook.xml'
  const related = readRelations(archive, main)
  const xmlOf = (name: string | undefined): string => decodeXml((name && archive.readPart(name)) || new Uint8Array())
  const target = (type: string): string | undefined => related.find((relation) => relation.type === type)?.target
  const strings = readSharedStrings(xmlOf(target('sharedStrings')))
  const dates = readDateStyles(xmlOf(target('styles')))
  const sink = createTextSink()
  for (const { name, id } of listSheets(xmlOf(main))) {
    const part = related.find((relation) => relation.id === id)?.target
    if (!part) continue
    sink.add(`${name}\n`)
    addCells(sink, xmlOf(part), strings, dates)
    for (const { type, target } of readRelations(archive, part)) if (type === 'comments') addComments(sink, xmlOf(target))
    for (const { type, target } of readRelations(archive, part)) if (type === 'drawing') addRuns(sink, xmlOf(target))
    sink.add('\n')
  }
  return removeInvalidCharacters(sink.text()).trim()
}

function listSheets(xml: string): { name: string; id: string }[] {
  const sheets: { name: string; id: string }[] = []
  walkXml(xml, {
    open(name, attributes) {
      if (localName(name) === 'sheet') sheets.push({ name: attributes.name ?? '', id: attributes['r:id'] ?? '' })
    },
  })
  return sheets
}

const localName = (name: string): string => name.slice(name.indexOf(':') + 1)

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
      if (tag === 'si') strings.push(current)
      else if (tag === 'rPh') isPhonetic = false
      else if (tag === 't') inText = false
    },
  })
  return strings
}

/** Returns the indexes of the cell styles that format a number as date or time. */
function readDateStyles(xml: string): ReadonlySet<number> {
  const formats = new Map<string, string>()
  const styles = new Set<number>()
  let inCellStyles = false
  let index = 0
  walkXml(xml, {
    open(name, { numFmtId = '', formatCode = '' }) {
      const tag = localName(name)
      if (tag === 'numFmt') formats.set(numFmtId, formatCode)
      else if (tag === 'cellXfs') inCellStyles = true
      else if (tag === 'xf' && inCellStyles) {
        if (isDate(Number(numFmtId), formats.get(numFmtId))) styles.add(index)
        index++
      }
    },
    close(name) {
      if (localName(name) === 'cellXfs') inCellStyles = false
    },
  })
  return styles
}

const isDate = (id: number, format: string | undefined): boolean =>
  format === undefined ? (id >= 14 && id <= 22) || (id >= 45 && id <= 47) : /[ymdhs]/i.test(format.replace(/"[^"]*"|\[[^\]]*\]|\\./g, ''))

/** Formats a day number since 1899-12-30 as date, with the time if there is one. */
function formatSerialDate(serial: number): string {
  const time = new Date(Math.round((serial - 25_569) * 86_400) * 1000)
  if (Number.isNaN(time.getTime())) return String(serial)
  const iso = time.toISOString()
  if (serial < 1) return iso.slice(11, 19)
  return Number.isInteger(serial) ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${iso.slice(11, 19)}`
}

function addCells(sink: TextSink, xml: string, strings: readonly string[], dates: ReadonlySet<number>): void {
  let type = ''
  let style = -1
  let value = ''
  let inValue = false
  const events: XmlEvents = {
    open(name, attributes) {
      const tag = localName(name)
      if (tag === 'c') {
        type = attributes.t ?? 'n'
        style = Number(attributes.s ?? -1)
        value = ''
      } else if (tag === 'v' || tag === 't') inValue = true
    },
    text(text) {
      if (inValue) value += text
    },
    close(name) {
      const tag = localName(name)
      if (tag === 'v' || tag === 't') inValue = false
      else if (tag === 'c' && value !== '') sink.add(`${formatCell(value, type, dates.has(style), strings)}\t`)
      else if (tag === 'row') sink.add('\n')
    },
  }
  walkXml(xml, events, () => sink.isFull)
}

function formatCell(value: string, type: string, isDated: boolean, strings: readonly string[]): string {
  if (type === 's') return strings[Number(value)] ?? ''
  if (type === 'b') return value === '1' ? 'TRUE' : 'FALSE'
  if (type !== 'n') return value
  const number = Number(value)
  if (Number.isNaN(number)) return value
  // Excel stores 0.1 as 0.10000000000000001 and shows at most 15 digits.
  return isDated ? formatSerialDate(number) : String(Number(number.toPrecision(15)))
}

const addComments = (sink: TextSink, xml: string): void =>
  walkXml(xml, {
    text: (text) => sink.add(text),
    close(name) {
      if (localName(name) === 'comment') sink.add('\n')
    },
  })
