/** Reader of Open XML documents and presentations. Also parts that all Open XML formats share. */
import { createTextSink, normalizeWhitespace, type TextSink } from '../decode.ts'
import { decodeXml, walkXml, type XmlEvents } from '../markup.ts'
import { type Parts, resolvePart } from '../zip.ts'
import { guidedText } from './doc.ts'
import { followParagraphs, type ListLabels, readListLabels } from './lists/docx-lists.ts'

export interface Relation {
  readonly id: string
  readonly type: string
  readonly target: string
}

/** Reads the internal relations of a part, with resolved targets. */
export function readRelations(archive: Parts, part: string): Relation[] {
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

/** Returns the parts that a part refers to by relations of these types, directly or through such parts. */
export function findRelatedParts(archive: Parts, part: string, types: readonly string[], maxDepth = 3): string[] {
  const found = new Set<string>()
  let level = [part]
  for (let depth = 0; depth < maxDepth; depth++) {
    const next = level.flatMap((name) => readRelations(archive, name).flatMap(({ type, target }) => (types.includes(type) ? [target] : [])))
    level = next.filter((name) => name !== part && !found.has(name))
    for (const name of level) found.add(name)
  }
  return [...found]
}

/** Returns the main part of the package. */
export const findMainPart = (archive: Parts): string | null =>
  readRelations(archive, '').find(({ type }) => type === 'officeDocument')?.target ?? null

/** Properties of pictures and shapes, whose description is the alternative text. */
const pictures = new Set(['wp:docPr', 'p:cNvPr', 'xdr:cNvPr'])
/** Text runs; m: formulas. */
const textElements = new Set(['w:t', 'a:t', 'm:t', 'p:text'])
/** Names of series and categories in charts. */
const chartTexts = new Set(['c:strCache', 'c:multiLvlStrCache'])
/** Elements for a character. */
const signs = new Map(
  Object.entries({ 'w:tab': '\t', 'w:ptab': '\t', 'a:tab': '\t', 'w:br': '\n', 'w:cr': '\n', 'a:br': '\n', 'w:noBreakHyphen': '-' }),
)
/** Folder of the inserted file, with which programs fill in the alternative text. */
const filePath = /^(?:[A-Za-z]:|\\)\\.*\\|^file:.*\//

/** Fallbacks for old programs, deleted text, and phonetic guides, which repeat the words beside them. */
const hidden = new Set(['mc:Fallback', 'w:del', 'w:moveFrom', 'w:rt'])

/** Returns the character of a symbol by its code in hexadecimal digits; '' in a symbol font, whose codes begin at F000. */
function symbolText(digits = ''): string {
  const code = Number.parseInt(digits, 16)
  return code < 0xf000 ? String.fromCharCode(code) : ''
}

/** Adds the text runs of WordprocessingML and DrawingML, and the alternative texts of pictures. Skips `hidden` elements. */
export function addRuns(sink: TextSink, xml: string, labels: ListLabels = () => ''): void {
  const paragraphs = followParagraphs(labels)
  let hiddenDepth = 0
  let inText = false
  let inChartText = false
  let inInstruction = false
  let inCell = 0
  /** a field of a form whose value is the number of an entry */
  let dropDown: { chosen: number; entries: string[] } | null = null
  const fields = followFields(xml)
  const isHidden = (): boolean => hiddenDepth > 0 || fields.isInInstruction
  const events: XmlEvents = {
    open(name, attributes) {
      paragraphs.open(name, attributes)
      // Tabs in the properties are tab stops.
      if (paragraphs.isInProperties && name === 'w:tab') return
      if (hidden.has(name)) hiddenDepth++
      else if (textElements.has(name) || (name === 'c:v' && inChartText)) inText = true
      else if (chartTexts.has(name)) inChartText = true
      else if (signs.has(name)) {
        if (!isHidden()) sink.add(signs.get(name) ?? '')
      } else if (name === 'w:instrText') inInstruction = true
      else if (name === 'w:fldChar') {
        const text = fields.next(attributes['w:fldCharType'])
        if (!isHidden()) sink.add(text)
      } else if (name === 'w:sym' && !isHidden()) sink.add(symbolText(attributes['w:char']))
      else if (name === 'w:ddList') dropDown = { chosen: 0, entries: [] }
      else if (name === 'w:result' && dropDown) dropDown.chosen = Number(attributes['w:val'])
      else if (name === 'w:listEntry' && dropDown) dropDown.entries.push(attributes['w:val'] ?? '')
      else if (name === 'w:tc' || name === 'a:tc') inCell++
      else if (name === 'w:txbxContent' && hiddenDepth === 0) sink.add(inCell > 0 ? ' ' : '\n')
      else if (name === 'v:textpath' && attributes.string && hiddenDepth === 0) sink.add(`\n${attributes.string}\n`)
      else if (pictures.has(name) && attributes.descr && hiddenDepth === 0) sink.add(` ${attributes.descr.replace(filePath, '')} `)
      else if (name === 'w:comment') sink.add(`${attributes['w:author'] ?? ''}\n`)
    },
    text(text) {
      if (inInstruction) fields.addInstruction(text)
      if (!inText || isHidden()) return
      const label = paragraphs.takeLabel()
      sink.add(label === '' ? text : `${label} ${text}`)
    },
    close(name) {
      paragraphs.close(name)
      if (hidden.has(name)) hiddenDepth--
      else if (textElements.has(name)) inText = false
      else if (name === 'w:instrText') inInstruction = false
      else if (chartTexts.has(name)) inChartText = false
      else if (name === 'w:ddList') {
        if (hiddenDepth === 0) sink.add(dropDown?.entries[dropDown.chosen] ?? '')
        dropDown = null
      } else if (name === 'c:v') {
        inText = false
        if (inChartText) sink.add('\n')
      } else if (name === 'w:tc' || name === 'a:tc') {
        inCell--
        sink.add('\t')
      } else if ((name === 'w:p' && paragraphs.endsLine) || name === 'a:p' || name === 'p:cm') sink.add(inCell > 0 ? ' ' : '\n')
      else if (name === 'w:tr' || name === 'a:tr') sink.add('\n')
    },
  }
  walkXml(xml, events, () => sink.isFull)
}

/**
 * Follows the fields of a part. Results of fields inside an instruction are not shown, such as the name in `{ IF { MERGEFIELD name } = "" "You" }`. Ignores
 * fields if one has no end.
 */
function followFields(xml: string) {
  const count = (type: string): number => xml.split(`fldCharType="${type}"`).length
  const isBalanced = count('begin') === count('end')
  /** The instruction of each open field; null in its result. */
  const open: (string | null)[] = []
  return {
    /** Follows a mark. Returns the text of a field that ends without a result. */
    next(type: string | undefined): string {
      if (type === 'begin') open.push('')
      else if (type === 'separate') open.splice(-1, 1, null)
      else if (type === 'end') return guidedText(open.pop() ?? '')
      return ''
    },
    addInstruction(text: string): void {
      const instruction = open.pop()
      if (instruction !== undefined) open.push(instruction === null ? null : instruction + text)
    },
    get isInInstruction(): boolean {
      return isBalanced && open.some((instruction) => instruction !== null)
    },
  }
}

/** Adds the text of XML parts. */
export const addParts = (sink: TextSink, archive: Parts, names: readonly string[], labels?: ListLabels): void => {
  for (const name of names) {
    const bytes = archive.readPart(name)
    if (!bytes) continue
    addRuns(sink, decodeXml(bytes), labels)
    sink.add('\n')
  }
}

/** Reads headers, body with text boxes, notes, comments and footers. */
export function readDocx(archive: Parts): string {
  const main = findMainPart(archive) ?? 'word/document.xml'
  const related = readRelations(archive, main)
  const of = (...types: string[]): string[] => related.filter(({ type }) => types.includes(type)).map(({ target }) => target)
  const xmlOf = (type: string): string => decodeXml(archive.readPart(of(type)[0] ?? '') ?? new Uint8Array())
  const sink = createTextSink()
  const charts = findRelatedParts(archive, main, chartParts)
  const parts = [...of('header'), main, ...of('footnotes', 'endnotes', 'comments', 'diagramData'), ...charts, ...of('footer')]
  addParts(sink, archive, parts, readListLabels(xmlOf('numbering'), xmlOf('styles')))
  return normalizeWhitespace(sink.text())
}

/** Reads the slides in order, each with its notes and comments. Then adds text of masters and handouts. */
export function readPptx(archive: Parts): string {
  const main = findMainPart(archive) ?? 'ppt/presentation.xml'
  const related = readRelations(archive, main)
  const targets = new Map(related.map(({ id, target }) => [id, target]))
  const xmlOf = (name: string | undefined): string => decodeXml(archive.readPart(name ?? '') ?? new Uint8Array())
  const slides: string[] = []
  walkXml(xmlOf(main), {
    open(name, attributes) {
      const target = name === 'p:sldId' ? targets.get(attributes['r:id'] ?? '') : undefined
      if (target) slides.push(target)
    },
  })
  const sink = createTextSink()
  for (const slide of slides) addParts(sink, archive, [slide, ...findRelatedParts(archive, slide, slideParts)])
  const masters = related.flatMap(({ type, target }) => (/^(slide|notes|handout)Master$/.test(type) ? [target] : []))
  const masterSink = createTextSink()
  for (const master of masters)
    for (const part of [master, ...findRelatedParts(archive, master, ['slideLayout'], 1)]) addRuns(masterSink, withoutPrompts(xmlOf(part)))
  // Each layout repeats the footer and the date of its master.
  for (const line of new Set(masterSink.text().split('\n'))) if (line.trim() !== '') sink.add(`${line}\n`)
  // Threaded comments have a list of their own.
  for (const { type, target } of related)
    if (type === 'commentAuthors' || type === 'authors')
      walkXml(xmlOf(target), {
        open(name, attributes) {
          if (/:(cmA|a)uthor$/.test(name)) sink.add(`${attributes.name ?? ''} (${attributes.initials ?? ''})\n`)
        },
      })
  return normalizeWhitespace(sink.text())
}

/** Charts, those of Office 2016, and text boxes in charts. */
export const chartParts = ['chart', 'chartEx', 'chartUserShapes']
const slideParts = ['notesSlide', 'comments', 'diagramData', ...chartParts]

/** Removes placeholders, which show prompts such as "Click to edit", except headers, footers and dates. */
const withoutPrompts = (xml: string): string =>
  xml
    .split(/<p:sp(?=[ >])/)
    .filter((shape) => !/<p:ph[ />]/.test(shape) || /<p:ph [^<>]{0,300}type="(hdr|ftr|dt)"/.test(shape))
    .join('<p:sp')
