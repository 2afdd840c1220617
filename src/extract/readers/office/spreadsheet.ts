/** Spreadsheets of the Open XML family: a line a row, cells apart by tabs. */

import { clean } from '../decode.ts'
import { openSink, type Sink } from '../text-sink.ts'
import { decodeXml, walkXml, type XmlEvents } from '../xml-text.ts'
import type { Archive } from '../zip.ts'
import { addRuns, mainPart, relationsOf } from './open-xml.ts'

/** Reads all sheets in order, with their names and comments. */
export function readXlsx(archive: Archive): string {
  const main = mainPart(archive) ?? 'xl/workbook.xml'
  const related = relationsOf(archive, main)
  const xmlOf = (name: string | undefined): string => decodeXml((name && archive.part(name)) || new Uint8Array())
  const target = (type: string): string | undefined => related.find((relation) => relation.type === type)?.target
  const strings = sharedStrings(xmlOf(target('sharedStrings')))
  const dates = dateStyles(xmlOf(target('styles')))
  const sink = openSink()
  for (const { name, id } of sheetsOf(xmlOf(main))) {
    const part = related.find((relation) => relation.id === id)?.target
    if (!part) continue
    sink.add(`${name}\n`)
    addCells(sink, xmlOf(part), strings, dates)
    for (const { type, target } of relationsOf(archive, part)) if (type === 'comments') addPlain(sink, xmlOf(target))
    for (const { type, target } of relationsOf(archive, part)) if (type === 'drawing') addRuns(sink, xmlOf(target))
    sink.add('\n')
  }
  return clean(sink.text()).trim()
}

function sheetsOf(xml: string): { name: string; id: string }[] {
  const sheets: { name: string; id: string }[] = []
  walkXml(xml, {
    open(name, attributes) {
      if (local(name) === 'sheet') sheets.push({ name: attributes.name ?? '', id: attributes['r:id'] ?? '' })
    },
  })
  return sheets
}

const local = (name: string): string => name.slice(name.indexOf(':') + 1)

function sharedStrings(xml: string): string[] {
  const strings: string[] = []
  let current = ''
  let inText = false
  let isPhonetic = false
  walkXml(xml, {
    open(name) {
      const tag = local(name)
      if (tag === 'si') current = ''
      else if (tag === 'rPh') isPhonetic = true
      else if (tag === 't') inText = !isPhonetic
    },
    text(text) {
      if (inText) current += text
    },
    close(name) {
      const tag = local(name)
      if (tag === 'si') strings.push(current)
      else if (tag === 'rPh') isPhonetic = false
      else if (tag === 't') inText = false
    },
  })
  return strings
}

/** Which cell styles show a number as a date or time. */
function dateStyles(xml: string): ReadonlySet<number> {
  const formats = new Map<string, string>()
  const styles = new Set<number>()
  let inCellStyles = false
  let index = 0
  walkXml(xml, {
    open(name, { numFmtId = '', formatCode = '' }) {
      const tag = local(name)
      if (tag === 'numFmt') formats.set(numFmtId, formatCode)
      else if (tag === 'cellXfs') inCellStyles = true
      else if (tag === 'xf' && inCellStyles) {
        if (isDate(Number(numFmtId), formats.get(numFmtId))) styles.add(index)
        index++
      }
    },
    close(name) {
      if (local(name) === 'cellXfs') inCellStyles = false
    },
  })
  return styles
}

const isDate = (id: number, format: string | undefined): boolean =>
  format === undefined ? (id >= 14 && id <= 22) || (id >= 45 && id <= 47) : /[ymdhs]/i.test(format.replace(/"[^"]*"|\[[^\]]*\]|\\./g, ''))

/** A day number since 1899-12-30 as date, with the time where there is one. */
function dateOf(serial: number): string {
  const time = new Date(Math.round((serial - 25_569) * 86_400) * 1000)
  if (Number.isNaN(time.getTime())) return String(serial)
  const iso = time.toISOString()
  if (serial < 1) return iso.slice(11, 19)
  return Number.isInteger(serial) ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${iso.slice(11, 19)}`
}

function addCells(sink: Sink, xml: string, strings: readonly string[], dates: ReadonlySet<number>): void {
  let type = ''
  let style = -1
  let value = ''
  let inValue = false
  const events: XmlEvents = {
    open(name, attributes) {
      const tag = local(name)
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
      const tag = local(name)
      if (tag === 'v' || tag === 't') inValue = false
      else if (tag === 'c' && value !== '') sink.add(`${shown(value, type, dates.has(style), strings)}\t`)
      else if (tag === 'row') sink.add('\n')
    },
  }
  walkXml(xml, events, () => sink.isFull)
}

function shown(value: string, type: string, isDated: boolean, strings: readonly string[]): string {
  if (type === 's') return strings[Number(value)] ?? ''
  if (type === 'b') return value === '1' ? 'TRUE' : 'FALSE'
  if (type !== 'n') return value
  const number = Number(value)
  if (Number.isNaN(number)) return value
  // The file holds 0.1 as 0.10000000000000001: what the user typed has at most 15 digits.
  return isDated ? dateOf(number) : String(Number(number.toPrecision(15)))
}

const addPlain = (sink: Sink, xml: string): void =>
  walkXml(xml, {
    text: (text) => sink.add(text),
    close(name) {
      if (local(name) === 'comment') sink.add('\n')
    },
  })
