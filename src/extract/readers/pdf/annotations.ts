/** Notes, form fields and attached files of a PDF page, by PDFium. */
import { normalizeWhitespace } from '../decode.ts'
import { type PdfiumModule, readText, withString } from './pdfium-module.ts'

const subtypes = { link: 2, popup: 16, fileAttachment: 17, widget: 20 } as const
/** text, choice and list fields */
const fieldTypes: ReadonlySet<number> = new Set([4, 5, 6])
const passwordField = 1 << 13
/** Flag of annotations that are neither shown nor printed. Forms keep lists and results of their scripts in such fields. */
const hiddenFlag = 2
const maxAnnotations = 2000
const maxNotesLength = 1_000_000

export interface PageNotes {
  /** texts of notes and values of form fields, which the page may show or not */
  readonly texts: readonly string[]
  /** Whether annotations have an appearance that flattening makes part of the page. */
  readonly isDrawn: boolean
}

/** Handles that reading annotations needs. */
export interface NoteTools {
  /** Returns the form environment of the document, 0 without one. */
  form(): number
  /** Receives the handle of an attached file, which is valid during the call. */
  attach(handle: number): void
}

/** Reads the annotations of a page. */
export function readNotes(pdfium: PdfiumModule, page: number, { form, attach }: NoteTools): PageNotes {
  const count = pdfium._FPDFPage_GetAnnotCount(page)
  const texts: string[] = []
  let length = 0
  let isDrawn = false
  for (let i = 0; i < Math.min(count, maxAnnotations) && length < maxNotesLength; i++) {
    const annotation = pdfium._FPDFPage_GetAnnot(page, i)
    if (!annotation) continue
    const subtype = pdfium._FPDFAnnot_GetSubtype(annotation)
    if (subtype === subtypes.fileAttachment) attach(pdfium._FPDFAnnot_GetFileAttachment(annotation))
    if (subtype !== subtypes.link && subtype !== subtypes.popup) {
      isDrawn = true
      const isShown = (pdfium._FPDFAnnot_GetFlags(annotation) & hiddenFlag) === 0
      const value = subtype === subtypes.widget && isShown ? readFieldValue(pdfium, form(), annotation) : ''
      const contents = readString(pdfium, annotation, 'Contents')
      // T of a note is its author, of a field its internal name.
      const author = subtype !== subtypes.widget && contents !== '' ? readString(pdfium, annotation, 'T') : ''
      for (const text of [value, contents, author]) {
        if (text.trim() !== '') texts.push(normalizeWhitespace(text))
        length += text.length
      }
    }
    pdfium._FPDFPage_CloseAnnot(annotation)
  }
  // Flattening takes time that grows with the square of the number.
  return { texts, isDrawn: isDrawn && count <= maxAnnotations }
}

const readString = (pdfium: PdfiumModule, annotation: number, key: string): string =>
  withString(pdfium, key, (pointer) =>
    readText(pdfium, (buffer, size) => pdfium._FPDFAnnot_GetStringValue(annotation, pointer, buffer, size)),
  )

function readFieldValue(pdfium: PdfiumModule, form: number, annotation: number): string {
  if (!form || !fieldTypes.has(pdfium._FPDFAnnot_GetFormFieldType(form, annotation))) return ''
  if (pdfium._FPDFAnnot_GetFormFieldFlags(form, annotation) & passwordField) return ''
  return readText(pdfium, (buffer, size) => pdfium._FPDFAnnot_GetFormFieldValue(form, annotation, buffer, size))
}

/** Appends the texts that the page does not show. */
export function addNotes(pageText: string, texts: readonly string[]): string {
  if (texts.length === 0) return pageText
  const squeeze = (text: string): string => text.replace(/\s+/g, '')
  let shown = squeeze(pageText)
  const missing = texts.filter((text) => {
    const note = squeeze(text)
    if (shown.includes(note)) return false
    shown += `\n${note}`
    return true
  })
  return [pageText, ...missing].join('\n')
}
