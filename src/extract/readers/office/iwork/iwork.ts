/** Reader of Pages, Numbers and Keynote. */

import { ReadFailure } from '../../../../ports/document-reader.ts'
import { typeByExtension } from '../../../mime-types.ts'
import type { ByteSource, OpenedDocument } from '../../../opened-document.ts'
import { bytesSource } from '../../../opened-document.ts'
import { openWithParts, type PartTools } from '../../../parts.ts'
import { createTextSink } from '../../decode.ts'
import { decodeXml, walkXml } from '../../markup.ts'
import { type Archive, openArchive } from '../../zip.ts'
import { readIwaText } from './iwa-text.ts'

const pdfPreview = /(^|\/)QuickLook\/Preview\.pdf$/
/** From the largest. */
const imagePreviews = [/(^|\/)preview\.jpg$/, /(^|\/)QuickLook\/Thumbnail\.jpg$/]
/** Main part of the versions before 2013. */
const mainPart = /(^|\/)index\.(xml|apxl)$/
/** Member of a document with a password. */
const passwordVerifier = /(^|\/)\.iwpv2$/
/** Objects of the first versions since then. */
const objectArchive = /(^|\/)Index\.zip$/

/** Detects the type by the parts. Returns null for other archives. */
export function detectIworkType({ names }: Archive, byName: string): string | null {
  const has = (pattern: RegExp): boolean => names.some((name) => pattern.test(name))
  if (/vnd\.apple\./.test(byName) && (has(/\.iwa$/) || has(mainPart) || has(objectArchive))) return byName
  if (has(/(^|\/)index\.apxl$/) || has(/(^|\/)Index\/Slide[^/]*\.iwa$/)) return 'application/vnd.apple.keynote'
  return has(/(^|\/)Index\/Document\.iwa$/) ? 'application/vnd.apple.pages' : null
}

/**
 * Opens the PDF preview, else the text of the main part or of the objects, else the preview image for OCR, which since 2013 shows the first page only.
 * Returns null for a file of another format with this extension. Throws ReadFailure FILE_ENCRYPTED.
 */
export async function openIwork(source: ByteSource, tools: PartTools, mimeType: string): Promise<OpenedDocument | null> {
  if (Buffer.from(source.head(2)).toString('latin1') !== 'PK') return null
  const archive = openArchive(source.read())
  const find = (pattern: RegExp): string | undefined => archive.names.find((name) => pattern.test(name))
  if (find(passwordVerifier)) throw new ReadFailure('FILE_ENCRYPTED')
  const pdf = find(pdfPreview)
  const preview = pdf && (await tools.openPart(bytesSource(archive.readMember(pdf), 'preview.pdf')))
  if (preview) return preview
  return openWithParts(tools, async (collector) => {
    const main = find(mainPart)
    const packed = find(objectArchive)
    const objects = packed ? openArchive(archive.readMember(packed)) : archive
    const text = main
      ? readMainPart(decodeXml(archive.readPart(main) ?? new Uint8Array()))
      : readIwaText(objects, mimeType === typeByExtension.numbers)
    collector.addText(text)
    const image = imagePreviews.map(find).find((name) => name !== undefined)
    if (text.trim() === '' && image) await collector.addPart(bytesSource(archive.readMember(image), ''))
    return { metadata: {} }
  })
}

/** Returns the paragraphs, and the values of cells, which are attributes. */
function readMainPart(xml: string): string {
  const sink = createTextSink()
  let depth = 0
  walkXml(
    xml,
    {
      open(name, attributes) {
        if (name === 'sf:p') depth++
        else if (name === 'sf:ct' && attributes['sfa:s']) sink.add(`${attributes['sfa:s']}\n`)
        else if (name === 'sf:n' && attributes['sf:v']) sink.add(`${attributes['sf:v']}\n`)
        else if (depth > 0 && (name === 'sf:br' || name === 'sf:lnbr' || name === 'sf:crbr')) sink.add('\n')
        else if (depth > 0 && name === 'sf:tab') sink.add('\t')
      },
      text: (text) => depth > 0 && sink.add(text),
      close(name) {
        if (name !== 'sf:p') return
        depth--
        sink.add('\n')
      },
    },
    () => sink.isFull,
  )
  return sink.text()
}
