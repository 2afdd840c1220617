/** Reader of OpenDocument texts, sheets, slides and drawings. */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { createTextSink, normalizeWhitespace, type TextSink } from '../decode.ts'
import { decodeXml, walkXml, type XmlEvents } from '../markup.ts'
import type { Archive } from '../zip.ts'
import { followLists, readListStyles } from './lists/odf-lists.ts'

const paragraphs = new Set(['text:p', 'text:h', 'dc:creator', 'dc:date', 'script:module', 'ooo:source-code'])

const hidden = new Set(['text:tracked-changes', 'office:binary-data'])

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
  addText(sink, styles, 'office:master-styles', lists)
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
  addText(sink, xml, 'office:master-styles', lists)
  addText(sink, xml, 'office:body', lists)
  addText(sink, xml, 'office:scripts', lists)
  return normalizeWhitespace(sink.text())
}

/** Adds the paragraphs inside the element `within`. Table rows are lines with tabs between cells. */
function addText(sink: TextSink, xml: string, within: string, styles: ReturnType<typeof readListStyles>): void {
  const lists = followLists(styles)
  let inside = 0
  let paragraphDepth = 0
  let inCell = 0
  let hiddenDepth = 0
  const events: XmlEvents = {
    open(name, attributes) {
      if (name === within) inside++
      if (inside === 0) return
      lists.open(name, attributes)
      if (hidden.has(name)) hiddenDepth++
      else if (name === 'text:s') sink.add(' '.repeat(Math.min(Number(attributes['text:c'] ?? 1) || 1, 100)))
      else if (name === 'office:annotation') sink.add('\n')
      else if (name === 'text:tab') sink.add('\t')
      else if (name === 'text:line-break') sink.add('\n')
      else if (name === 'table:table-cell') inCell++
      else if (name === 'table:table' && attributes['table:name']) sink.add(`${attributes['table:name']}\n`)
      else if (paragraphs.has(name)) paragraphDepth++
    },
    text(text) {
      if (inside === 0 || paragraphDepth === 0 || hiddenDepth > 0) return
      const label = lists.takeLabel()
      sink.add(`${label}${label === '' ? '' : ' '}${text.replace(/\s+/g, ' ')}`)
    },
    close(name) {
      if (name === within) inside--
      if (inside <= 0) return
      lists.close(name)
      if (hidden.has(name)) hiddenDepth--
      else if (name === 'table:table-cell') {
        inCell--
        sink.add('\t')
      } else if (name === 'table:table-row') sink.add('\n')
      else if (paragraphs.has(name)) {
        paragraphDepth--
        sink.add(inCell > 0 ? ' ' : '\n')
      }
    },
  }
  walkXml(xml, events, () => sink.isFull)
}
