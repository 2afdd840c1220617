/** Streams of PDFs that dms writes. */
import { deflateSync } from 'node:zlib'
import type { PDFContext, PDFRawStream } from '@cantoo/pdf-lib'

export type PdfContext = PDFContext
export type PdfDictionary = NonNullable<Parameters<PdfContext['stream']>[1]>

/** Returns a stream that is compressed here. */
export const deflated = (context: PdfContext, bytes: Uint8Array, dictionary: PdfDictionary = {}): PDFRawStream =>
  context.stream(new Uint8Array(deflateSync(bytes, { level: 9 })), { ...dictionary, Filter: 'FlateDecode' })
