/** Reader of OpenDocument texts, sheets, slides and drawings. */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { createTextSink, normalizeWhitespace, type TextSink } from '../decode.ts'
import { decodeXml, walkXml, type XmlEvents } from '../markup.ts'
import type { Archive } from '../zip.ts'

const paragraphs = new Set(['text:p', 'text:h', 'dc:creator', 'dc:date'])

/** Reads headers and footers, then the content with notes and comments. */
export function readOpenDocument(archive: Archive): string {
  const manifest = archive.readPart('META-INF/manifest.xml')
  if (manifest && decodeXml(manifest).includes('encryption-data')) throw new ReadFailure('FILE_ENCRYPTED')
  const content = archive.readPart('content.xml')
  if (!content) throw new ReadFailure('FILE_CORRUPT', 'The document has no content.')
  const sink = createTextSink()
  const styles = archive.readPart('styles.xml')
  if (styles) addText(sink, decodeXml(styles), 'office:master-styles')
  addText(sink, decodeXml(content), 'office:body')
  return normalizeWhitespace(sink.text())
}

/** Adds the paragraphs inside the element `within`. Table rows are lines with tabs between cells. */
function addText(sink: TextSink, xml: string, within: string): void {
  let inside = 0
  let paragraphDepth = 0
  let inCell = 0
  let hiddenDepth = 0
  const events: XmlEvents = {
    open(name, attributes) {
      if (name === within) inside++
      if (inside === 0) return
      if (name === 'text:tracked-changes') hiddenDepth++
      else if (name === 'text:s') sink.add(' '.repeat(Math.min(Number(attributes['text:c'] ?? 1) || 1, 100)))
      else if (name === 'text:tab') sink.add('\t')
      else if (name === 'text:line-break') sink.add('\n')
      else if (name === 'table:table-cell') inCell++
      else if (name === 'table:table' && attributes['table:name']) sink.add(`${attributes['table:name']}\n`)
      else if (paragraphs.has(name)) paragraphDepth++
    },
    text(text) {
      if (inside > 0 && paragraphDepth > 0 && hiddenDepth === 0) sink.add(text.replace(/\s+/g, ' '))
    },
    close(name) {
      if (name === within) inside--
      if (inside <= 0) return
      if (name === 'text:tracked-changes') hiddenDepth--
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
