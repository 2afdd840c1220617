/** Text of Pages, Numbers and Keynote since 2013. The numbers of types and fields are those of Apple's programs, in which others have found them. */
import { compareNumbered } from '../../../parts.ts'
import { createTextSink } from '../../decode.ts'
import type { Archive } from '../../zip.ts'
import { type IwaObject, type Message, parseMessage, readObjects, referencesOf, textsOf } from './iwa.ts'
import { readTable } from './iwa-tables.ts'

/** Types of objects: text of bodies, text boxes, cells, headers and notes; comments; tables; sheets of Numbers. */
const types = { texts: new Set([2001, 2005]), comment: 3056, table: 6001, richCell: 6218, sheet: 2 } as const
const isObjectFile = /(^|\/)Index\/.+\.iwa$|^[^/]+\.iwa$/
/** Slides of a theme, with prompts. */
const isTemplate = /(Template|Master)Slide/

/** Reads the texts in the order of their files, then the tables and comments. Returns '' for a document of another form. */
export function readIwaText(archive: Archive, isNumbers: boolean): string {
  const objects: IwaObject[] = []
  for (const name of archive.names.filter((name) => isObjectFile.test(name)).sort(compareNumbered))
    if (!isTemplate.test(name)) objects.push(...readObjects(archive.readPart(name) ?? new Uint8Array()))
  const byId = new Map(objects.map((object) => [object.id, object]))
  const find = (id: number): Message | undefined => {
    const object = byId.get(id)
    return object && parseMessage(object.bytes)
  }
  const textOf = (id: number): string =>
    textsOf(find(id) ?? new Map(), 3)
      .map(withoutMarks)
      .join('\n')
  const ofType = (type: number): Message[] => objects.filter((object) => object.type === type).map(({ bytes }) => parseMessage(bytes))
  const cells = new Set(ofType(types.richCell).flatMap((cell) => referencesOf(cell, 1)))
  const sink = createTextSink()
  const texts = new Set<string>()
  if (isNumbers) for (const sheet of ofType(types.sheet)) sink.add(`${textsOf(sheet, 1).join()}\n`)
  for (const { id, type } of objects) {
    if (sink.isFull) break
    if (!types.texts.has(type) || cells.has(id)) continue
    const text = textOf(id)
    texts.add(text)
    sink.add(`${text}\n`)
  }
  for (const table of ofType(types.table)) if (!sink.isFull) readTable(sink, table, { find, textOf })
  // Comments of the first versions are texts, too.
  const comments = ofType(types.comment).flatMap((comment) => textsOf(comment, 1).filter((text) => !texts.has(text)))
  return [sink.text(), ...comments].join('\n')
}

/** Breaks of sections, pages, lines and paragraphs, and the marks of notes and pictures, which have no text of their own. */
const marks = new Map(Object.entries({ '\u0004': '\n', '\u0005': '\n', '\u2028': '\n', '\u2029': '\n', '\u000e': '', '\ufffc': '' }))

const withoutMarks = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029\ufffc]/gu, (sign) => marks.get(sign) ?? sign)
