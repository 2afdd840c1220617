/** Word documents and presentations of the Open XML family, and what all of that family have in common. */

import { normalizeWhitespace } from '../decode.ts'
import { decodeXml, walkXml, type XmlEvents } from '../markup.ts'
import { createTextSink, type TextSink } from '../text-sink.ts'
import { type Archive, resolvePart } from '../zip.ts'

export interface Relation {
  readonly id: string
  readonly type: string
  readonly target: string
}

/** The relations of a part, targets resolved. */
export function readRelations(archive: Archive, part: string): Relation[] {
  const slash = part.lastIndexOf('/') + 1
  const bytes = archive.readPart(`${part.slice(0, slash)}_rels/${part.slice(slash)}.rels`)
  const relations: Relation[] = []
  if (!bytes) return relations
  walkXml(decodeXml(bytes), {
    open(name, { Id, Type, Target, TargetMode }) {
      if (name !== 'Relationship' || !Id || !Target || TargetMode === 'External') return
      relations.push({ id: Id, type: Type?.split('/').at(-1) ?? '', target: resolvePart(part, Target) })
    },
  })
  return relations
}

/** The part that the package calls its document. */
export const findMainPart = (archive: Archive): string | null =>
  readRelations(archive, '').find(({ type }) => type === 'officeDocument')?.target ?? null

/** Text runs of WordprocessingML and DrawingML in document order; deleted text and the duplicates for old programs are left out. */
export function addRuns(sink: TextSink, xml: string): void {
  let muted = 0
  let inText = false
  let inCell = 0
  const events: XmlEvents = {
    open(name) {
      if (name === 'mc:Fallback' || name === 'w:del' || name === 'w:moveFrom') muted++
      else if (name === 'w:t' || name === 'a:t') inText = true
      else if (name === 'w:tab' || name === 'a:tab') sink.add('\t')
      else if (name === 'w:br' || name === 'w:cr' || name === 'a:br') sink.add('\n')
      else if (name === 'w:noBreakHyphen') sink.add('-')
      else if (name === 'w:tc' || name === 'a:tc') inCell++
    },
    text(text) {
      if (inText && muted === 0) sink.add(text)
    },
    close(name) {
      if (name === 'mc:Fallback' || name === 'w:del' || name === 'w:moveFrom') muted--
      else if (name === 'w:t' || name === 'a:t') inText = false
      else if (name === 'w:tc' || name === 'a:tc') {
        inCell--
        sink.add('\t')
      } else if (name === 'w:p' || name === 'a:p') sink.add(inCell > 0 ? ' ' : '\n')
      else if (name === 'w:tr' || name === 'a:tr') sink.add('\n')
    },
  }
  walkXml(xml, events, () => sink.isFull)
}

const addParts = (sink: TextSink, archive: Archive, names: readonly string[]): void => {
  for (const name of names) {
    const bytes = archive.readPart(name)
    if (!bytes) continue
    addRuns(sink, decodeXml(bytes))
    sink.add('\n')
  }
}

/** Headers, body with text boxes, notes, comments, footers. */
export function readDocx(archive: Archive): string {
  const main = findMainPart(archive) ?? 'word/document.xml'
  const related = readRelations(archive, main)
  const of = (...types: string[]): string[] => related.filter(({ type }) => types.includes(type)).map(({ target }) => target)
  const sink = createTextSink()
  addParts(sink, archive, [...of('header'), main, ...of('footnotes', 'endnotes', 'comments', 'diagramData', 'chart'), ...of('footer')])
  return normalizeWhitespace(sink.text())
}

/** Slides in the order of the show, each with its notes and comments. */
export function readPptx(archive: Archive): string {
  const main = findMainPart(archive) ?? 'ppt/presentation.xml'
  const targets = new Map(readRelations(archive, main).map(({ id, target }) => [id, target]))
  const slides: string[] = []
  walkXml(decodeXml(archive.readPart(main) ?? new Uint8Array()), {
    open(name, attributes) {
      const target = name === 'p:sldId' ? targets.get(attributes['r:id'] ?? '') : undefined
      if (target) slides.push(target)
    },
  })
  const sink = createTextSink()
  for (const slide of slides) {
    const related = readRelations(archive, slide).filter(({ type }) => /^(notesSlide|comments|diagramData|chart)$/.test(type))
    addParts(sink, archive, [slide, ...related.map(({ target }) => target)])
  }
  return normalizeWhitespace(sink.text())
}
