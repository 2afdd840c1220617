/** Checks annotations against ISO 19005-2, 6.3. Removes annotations without an appearance. */
import { decodePDFRawStream, PDFArray, PDFDict, PDFName, PDFNumber, PDFRawStream } from '@cantoo/pdf-lib'
import { type CheckedContent, checkContent, firstProblem } from './check-content.ts'
import { nameOf } from './check-font.ts'

/** Bits of the entry F. */
const flags = { invisible: 1, hidden: 2, print: 4, noZoom: 8, noRotate: 16, noView: 32, toggleNoView: 256 } as const
const concealing = flags.invisible | flags.hidden | flags.noView
const forbidden = new Set(['3D', 'Sound', 'Screen', 'Movie', 'RichMedia', 'FileAttachment'])

/** Returns why an annotation of the page does not conform; null if all do. Form fields keep their appearance but can no longer be filled in. */
export function checkAnnotations(page: PDFDict, content: CheckedContent): string | null {
  const list = page.lookup(PDFName.of('Annots'))
  if (!(list instanceof PDFArray)) {
    page.delete(PDFName.of('Annots'))
    return null
  }
  let problem: string | null = null
  for (let at = list.size() - 1; at >= 0; at--) {
    const annotation = list.lookup(at)
    if (!(annotation instanceof PDFDict) || !isShown(annotation)) list.remove(at)
    else problem = checkAnnotation(annotation, content) ?? problem
  }
  return problem
}

/** Removes the annotations of a page whose picture shows them. Links stay. */
export function removeAllButLinks(page: PDFDict): void {
  const list = page.lookup(PDFName.of('Annots'))
  if (!(list instanceof PDFArray)) return
  for (let at = list.size() - 1; at >= 0; at--) if (nameOf(list.lookup(at, PDFDict), 'Subtype') !== 'Link') list.remove(at)
}

/** Returns whether an annotation shows anything. Its appearance must be reduced to the stream of its state before. */
function isShown(annotation: PDFDict): boolean {
  const subtype = nameOf(annotation, 'Subtype')
  if ((flagsOf(annotation) & concealing) !== 0) return false
  if (subtype === 'Link' || subtype === 'Popup') return true
  const appearances = annotation.lookup(PDFName.of('AP'))
  if (!(appearances instanceof PDFDict)) return subtype !== 'Widget' || annotation.has(PDFName.of('V'))
  const normal = appearances.lookup(PDFName.of('N'))
  const state = annotation.lookup(PDFName.of('AS'))
  if (!(normal instanceof PDFDict) || normal instanceof PDFRawStream) return normal !== undefined
  const chosen = state instanceof PDFName ? normal.get(state) : undefined
  if (!chosen || !(normal.lookup(state as PDFName) instanceof PDFRawStream)) return false
  appearances.set(PDFName.of('N'), chosen)
  return true
}

const flagsOf = (annotation: PDFDict): number => {
  const value = annotation.lookup(PDFName.of('F'))
  return value instanceof PDFNumber ? value.asNumber() : 0
}

function checkAnnotation(annotation: PDFDict, content: CheckedContent): string | null {
  const subtype = nameOf(annotation, 'Subtype')
  if (subtype === undefined || forbidden.has(subtype)) {
    content.hasMedia ||= subtype !== undefined
    return `has an annotation of the type ${subtype}`
  }
  const kept = (flagsOf(annotation) & ~(concealing | flags.toggleNoView)) | flags.print
  const text = subtype === 'Text' ? flags.noZoom | flags.noRotate : 0
  annotation.set(PDFName.of('F'), PDFNumber.of(kept | text))
  for (const key of ['AA', 'Metadata', 'PieceInfo', 'OC']) annotation.delete(PDFName.of(key))
  if (subtype === 'Widget') for (const key of ['A', 'Parent', 'FT', 'AS', 'MK', 'V', 'DV', 'Ff']) annotation.delete(PDFName.of(key))
  if (subtype === 'Link' || subtype === 'Popup') return null
  const appearances = annotation.lookup(PDFName.of('AP'))
  const normal = appearances instanceof PDFDict ? appearances.lookup(PDFName.of('N')) : undefined
  if (!(appearances instanceof PDFDict) || !(normal instanceof PDFRawStream)) return 'has an annotation without an appearance'
  for (const key of ['D', 'R']) appearances.delete(PDFName.of(key))
  const resources = normal.dict.lookupMaybe(PDFName.of('Resources'), PDFDict)
  checkContent(decodePDFRawStream(normal).decode(), resources, content, new Set())
  return firstProblem(content)
}
