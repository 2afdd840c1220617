/** Reader of OpenDocument texts, sheets, slides and drawings. */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { createTextSink, normalizeWhitespace, type TextSink } from '../decode.ts'
import { decodeXml, walkXml, type XmlEvents } from '../markup.ts'
import type { Archive } from '../zip.ts'
import { followLists, readListStyles } from './lists/odf-lists.ts'

/** Elements with lines of their own, also the headers and footers of slides. */
const paragraphs = new Set(
  'text:p text:h dc:creator dc:date script:module ooo:source-code presentation:header-decl presentation:footer-decl presentation:date-time-decl'.split(
    ' ',
  ),
)

/** Deleted text and former values, pictures, numbers of notes, and phonetic guides, which repeat the words beside them. */
const hidden = new Set(['text:tracked-changes', 'table:tracked-changes', 'office:binary-data', 'text:note-citation', 'text:ruby-text'])
/** Notes. They stand in the middle of a sentence, so their text is appended to that of the document. */
const notes = new Set(['office:annotation', 'text:note'])
/** Alternative texts of pictures, which stand in a paragraph or between paragraphs. */
const descriptions = new Set(['svg:title', 'svg:desc'])
/** Element of page headers and footers, and of the masters of slides. */
const masters = 'office:master-styles'
/** Fields of page headers and masters whose values are placeholders, such as `<number>`. */
const hiddenInMasters = new Set(['text:page-number', 'text:page-count', 'text:sheet-name'])
/** Value of other fields in the page header of a sheet. */
const unknownField = '???'

/** Reads headers and footers, then the content with notes and comments, then the documents and macros in it. */
export function readOpenDocument(archive: Archive): string {
  const manifest = archive.readPart('META-INF/manifest.xml')
  if (manifest && decodeXml(manifest).includes('encryption-data')) throw new ReadFailure('FILE_ENCRYPTED')
  const content = archive.readPart('content.xml')
  if (!content) throw new ReadFailure('FILE_CORRUPT', 'The document has no content.')
  const styles = decodeXml(archive.readPart('styles.xml') ?? new Uint8Array())
  const xml = decodeXml(content)
  const sink = createTextSink()
  const lists = readListStyles([styles, xml])
  addText(sink, styles, masters, lists)
  addText(sink, xml, 'office:body', lists)
  for (const name of archive.names) {
    if (sink.isFull || !/^[^/]+\/content\.xml$|^Basic\/.+\.xml$/.test(name)) continue
    sink.add('\n')
    const part = decodeXml(archive.readPart(name) ?? new Uint8Array())
    addText(sink, part, name.startsWith('Basic/') ? 'script:module' : 'office:body', lists)
  }
  return normalizeWhitespace(sink.text())
}

/** Reads a document in one XML file. */
export function readFlatOpenDocument(xml: string): string {
  const sink = createTextSink()
  const lists = readListStyles([xml])
  addText(sink, xml, masters, lists)
  addText(sink, xml, 'office:body', lists)
  addText(sink, xml, 'office:scripts', lists)
  return normalizeWhitespace(sink.text())
}

/** Returns the label and the value of a control of a form. Entries of a list count only if they are selected. */
function formText(name: string, attributes: Record<string, string>): string {
  const isEntry = name === 'form:option' || name === 'form:item'
  if (isEntry && attributes['form:current-selected'] !== 'true') return ''
  const text = [attributes['form:label'], attributes['form:current-value']].filter(Boolean).join(' ')
  return text === '' ? '' : `${text}\n`
}

/** Adds the paragraphs inside the element `within`. Table rows are lines with tabs between cells. */
function addText(sink: TextSink, xml: string, within: string, styles: ReturnType<typeof readListStyles>): void {
  const lists = followLists(styles)
  const noteSink = createTextSink()
  let noteDepth = 0
  let inside = 0
  let paragraphDepth = 0
  let inCell = 0
  let hiddenDepth = 0
  const isHidden = (name: string): boolean => hidden.has(name) || (within === masters && hiddenInMasters.has(name))
  const add = (text: string): void => (noteDepth > 0 ? noteSink : sink).add(text)
  const events: XmlEvents = {
    open(name, attributes) {
      if (name === within) inside++
      if (inside === 0) return
      lists.open(name, attributes)
      if (isHidden(name)) hiddenDepth++
      else if (name === 'text:s') add(' '.repeat(Math.min(Number(attributes['text:c'] ?? 1) || 1, 100)))
      else if (notes.has(name)) noteDepth++
      else if (descriptions.has(name)) {
        add(' ')
        paragraphDepth++
      } else if (name === 'text:tab') add('\t')
      else if (name === 'text:line-break') add('\n')
      else if (name === 'table:table-cell') inCell++
      else if (name === 'table:table' && attributes['table:name']) add(`${attributes['table:name']}\n`)
      else if (name.startsWith('form:')) add(formText(name, attributes))
      else if (paragraphs.has(name)) {
        // A text box stands in the middle of a paragraph.
        if (paragraphDepth > 0 && noteDepth === 0) add(inCell > 0 ? ' ' : '\n')
        paragraphDepth++
      }
    },
    text(text) {
      if (inside === 0 || paragraphDepth === 0 || hiddenDepth > 0 || text === unknownField) return
      const label = lists.takeLabel()
      add(`${label}${label === '' ? '' : ' '}${text.replace(/\s+/g, ' ')}`)
    },
    close(name) {
      if (name === within) inside--
      if (inside <= 0) return
      lists.close(name)
      if (isHidden(name)) hiddenDepth--
      else if (notes.has(name)) noteDepth--
      else if (descriptions.has(name)) add(--paragraphDepth > 0 || inCell > 0 ? ' ' : '\n')
      else if (name === 'table:table-cell') {
        inCell--
        add('\t')
      } else if (name === 'table:table-row') add('\n')
      else if (paragraphs.has(name)) {
        paragraphDepth--
        add(inCell > 0 ? ' ' : '\n')
      }
    },
  }
  walkXml(xml, events, () => sink.isFull)
  sink.add(noteSink.text())
}
