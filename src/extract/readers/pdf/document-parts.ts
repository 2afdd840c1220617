/** Properties, attached files and XFA forms of a PDF, by PDFium. */
import { createTextSink, normalizeWhitespace } from '../decode.ts'
import { decodeXml, localName, walkXml } from '../markup.ts'
import { type PdfMetadata, readInfo } from './pdf-metadata.ts'
import { type PdfiumModule, readBytes, readSizedBytes, readText, withString } from './pdfium-module.ts'

const maxAttachments = 100
/** Maximum bytes of all attachments of a PDF together. */
const maxAttachmentBytes = 256 * 1024 * 1024
const maxFormParts = 100
const maxFormBytes = 32 * 1024 * 1024
/** Elements of XFA forms that hold labels or data. */
const formElements: ReadonlySet<string> = new Set(['text', 'exData', 'data'])

export interface AttachedFile {
  readonly filename: string
  readonly bytes: Uint8Array
}

/** Reads the document information dictionary. */
export const readMetadata = (pdfium: PdfiumModule, document: number): PdfMetadata =>
  readInfo((key) =>
    withString(pdfium, key, (pointer) => readText(pdfium, (buffer, size) => pdfium._FPDF_GetMetaText(document, pointer, buffer, size))),
  )

/** Returns the handles of the attached files of the document. */
export const findAttachments = (pdfium: PdfiumModule, document: number): number[] =>
  Array.from({ length: Math.max(0, Math.min(pdfium._FPDFDoc_GetAttachmentCount(document), maxAttachments)) }, (_, i) =>
    pdfium._FPDFDoc_GetAttachment(document, i),
  )

/** Appends the attached files up to a number and size. */
export function readAttachments(pdfium: PdfiumModule, handles: readonly number[], files: AttachedFile[]): void {
  let left = files.reduce((bytes, file) => bytes - file.bytes.length, maxAttachmentBytes)
  for (const handle of handles) {
    if (!handle || files.length >= maxAttachments) continue
    const filename = readText(pdfium, (buffer, size) => pdfium._FPDFAttachment_GetName(handle, buffer, size))
    const bytes = readSizedBytes(pdfium, left, (buffer, size, pointer) => pdfium._FPDFAttachment_GetFile(handle, buffer, size, pointer))
    if (bytes) files.push({ filename, bytes })
    left -= bytes?.length ?? 0
  }
}

/** Returns the labels and values of an XFA form, '' without one. */
export function readXfaForm(pdfium: PdfiumModule, document: number): string {
  const count = Math.min(pdfium._FPDF_GetXFAPacketCount(document), maxFormParts)
  const sink = createTextSink()
  for (let i = 0; i < count; i++) {
    const name = readBytes(pdfium, (buffer, size) => pdfium._FPDF_GetXFAPacketName(document, i, buffer, size))
    // The parts of an array have names. A form in one stream has none.
    if (name && !/^(template|datasets|)\0/.test(Buffer.from(name).toString('latin1'))) continue
    const bytes = readSizedBytes(pdfium, maxFormBytes, (buffer, size, pointer) =>
      pdfium._FPDF_GetXFAPacketContent(document, i, buffer, size, pointer),
    )
    if (bytes) addFormText(decodeXml(bytes), sink)
  }
  return normalizeWhitespace(sink.text())
}

function addFormText(xml: string, sink: ReturnType<typeof createTextSink>): void {
  let depth = 0
  const isForm = (name: string): boolean => formElements.has(localName(name))
  const events = {
    open: (name: string) => {
      if (isForm(name)) depth++
    },
    text: (text: string) => {
      if (depth > 0) sink.add(text)
    },
    close: (name: string) => {
      if (depth > 0) sink.add('\n')
      if (isForm(name)) depth--
    },
  }
  walkXml(xml, events, () => sink.isFull)
}
