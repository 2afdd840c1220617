/** Reader of Open XML spreadsheets: one line per row, tabs between cells. */
import { createTextSink, removeInvalidCharacters } from '../../decode.ts'
import { decodeXml } from '../../markup.ts'
import type { Parts } from '../../zip.ts'
import { addParts, chartParts, findMainPart, findRelatedParts, readRelations } from '../open-xml.ts'
import { createCellFormatter } from './cell-format.ts'
import { readPersons, readThreadedComments } from './threaded-comments.ts'
import { xlsb } from './xlsb.ts'
import { xlsx } from './xlsx.ts'

/** Reads all sheets in order, hidden ones too, with their names, comments, text boxes and charts. */
export function readSpreadsheet(archive: Parts): string {
  const main = findMainPart(archive) ?? 'xl/workbook.xml'
  const encoding = main.endsWith('.bin') ? xlsb : xlsx
  const related = readRelations(archive, main)
  const read = (name: string | undefined): Uint8Array => (name && archive.readPart(name)) || new Uint8Array()
  const target = (type: string): string | undefined => related.find((relation) => relation.type === type)?.target
  const strings = encoding.readSharedStrings(read(target('sharedStrings')))
  const { sheets, isFrom1904 } = encoding.readWorkbook(read(main))
  const format = createCellFormatter({ ...encoding.readStyles(read(target('styles'))), isFrom1904 })
  const persons = readPersons(decodeXml(read(target('person'))))
  const sink = createTextSink()
  for (const { name, id } of sheets) {
    const part = related.find((relation) => relation.id === id)?.target
    if (!part || sink.isFull) continue
    sink.add(`${name}\n`)
    encoding.addCells(sink, read(part), strings, format)
    const threads = findRelatedParts(archive, part, ['threadedComment'], 1)
      .map((target) => readThreadedComments(decodeXml(read(target)), persons))
      .join('\n')
    for (const { type, target } of readRelations(archive, part))
      if (type === 'comments') encoding.addComments(sink, read(target), threads !== '')
    if (threads !== '') sink.add(`${threads}\n`)
    addParts(sink, archive, findRelatedParts(archive, part, ['drawing', 'diagramData', ...chartParts]))
    sink.add('\n')
  }
  return removeInvalidCharacters(sink.text()).trim()
}
