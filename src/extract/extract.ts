/** Opens any file: detects its type by all of its bytes and chooses the reader. */
import { ReadFailure } from '../ports/document-reader.ts'
import { detectType, headBytes } from './detect.ts'
import { type ByteSource, type Contents, type OpenedDocument, openTextOnly } from './opened-document.ts'
import { decode, maxTextLength, removeInvalidCharacters } from './readers/decode.ts'
import { decodeHtml, readHtml } from './readers/html.ts'
import { openImage } from './readers/image.ts'
import { openMail } from './readers/mail.ts'
import { decodeXml, xmlToText } from './readers/markup.ts'
import { detectArchiveType, findFamily, openOffice } from './readers/office/office.ts'
import { detectOleType, openDoc, openMsg, openPpt, openXls } from './readers/office/old-office.ts'
import { readRtf } from './readers/office/rtf.ts'
import type { PdfTools } from './readers/pdf/pdf.ts'

/** Maximum nesting of files in files. */
const maxDepth = 3
/** Maximum bytes of plain text. More would exceed `maxTextLength` in every encoding. */
const maxTextBytes = maxTextLength * 4

export type Tools = Omit<PdfTools, 'openPart'>

export interface OpenedFile extends OpenedDocument {
  readonly mimeType: string
}

/** Opens a file. `depth` is the number of files that contain it. Throws ReadFailure. */
export async function openFile(source: ByteSource, tools: Tools, depth = 0): Promise<OpenedFile> {
  const mimeType = await detectFileType(source)
  const opened = await openByType(source, mimeType, tools, depth)
  return { ...opened, mimeType, contents: async () => limitContents(await opened.contents()) }
}

/** Detects the type by the first bytes, and that of containers by their entries. */
async function detectFileType(source: ByteSource): Promise<string> {
  const bytes = source.head(headBytes)
  const type = await detectType(bytes, source.filename, source.size)
  if (bytes[0] === 0x50 && bytes[1] === 0x4b) return detectArchiveType(source.read()) ?? type
  if (isOle(bytes)) return detectOleType(source.read()) ?? 'application/x-cfb'
  return type
}

const isOle = (bytes: Uint8Array): boolean => bytes[0] === 0xd0 && bytes[1] === 0xcf && bytes[2] === 0x11 && bytes[3] === 0xe0

async function openByType(source: ByteSource, mimeType: string, tools: Tools, depth: number): Promise<OpenedDocument> {
  const family = findFamily(mimeType)
  if (family) return openOffice(source, family)
  const openPart = async (part: ByteSource): Promise<OpenedDocument | null> => (depth < maxDepth ? openFile(part, tools, depth + 1) : null)
  // Programs of the eighties use the same extensions. Their files are not supported.
  if (oleTypes.has(mimeType) && !isOle(source.head(8))) return openTextOnly(async () => ({ text: '' }))
  switch (mimeType) {
    case 'application/pdf':
      // Imported on demand: PDF.js takes as long to load as everything else together.
      return (await import('./readers/pdf/pdf.ts')).openPdf(source, { ...tools, openPart })
    case 'application/rtf':
      return openTextOnly(async () => readRtf(source.read()))
    case 'application/msword':
      return openDoc(source)
    case 'application/vnd.ms-excel':
      return openXls(source)
    case 'application/vnd.ms-powerpoint':
      return openPpt(source)
    case 'application/vnd.ms-outlook':
      return openMsg(source)
    case 'message/rfc822':
    case 'application/mbox':
      return openMail(source, mimeType === 'application/mbox', openPart)
    case 'text/html':
    case 'application/xhtml+xml':
      return openTextOnly(async () => readHtml(decodeHtml(source.read())))
    case 'application/xml':
      return openTextOnly(async () => ({ text: xmlToText(decodeXml(source.read())) }))
    case 'image/svg+xml':
      return openSvg(source, tools)
  }
  if (readableImages.has(mimeType)) return openImage(source, mimeType, tools.limits)
  if (mimeType.startsWith('text/') || textTypes.has(mimeType))
    return openTextOnly(async () => ({ text: decode(source.head(maxTextBytes)) }))
  return openTextOnly(async () => ({ text: '' }))
}

const readableImages = new Set(['image/jpeg', 'image/png', 'image/webp', 'image/gif', 'image/tiff', 'image/bmp', 'image/avif'])
const oleTypes = new Set(['application/msword', 'application/vnd.ms-excel', 'application/vnd.ms-powerpoint', 'application/vnd.ms-outlook'])
const textTypes = new Set(['application/json', 'application/x-ndjson', 'application/yaml', 'application/postscript'])

/** Opens a drawing. Its letters are text or outlines; OCR is for drawings without text. */
function openSvg(source: ByteSource, { limits }: Tools): OpenedDocument {
  const image = openImage(source, 'image/svg+xml', limits)
  return {
    ...image,
    async contents() {
      const text = xmlToText(decodeXml(source.read()))
      const { pages, ...rest } = await image.contents()
      return { ...rest, pages: pages.map((page) => ({ ...page, text, needsOcr: page.needsOcr && text === '' })) }
    },
  }
}

/** Limits the text of all pages together and removes characters that PostgreSQL cannot store. */
function limitContents({ metadata, date, pages }: Contents): Contents {
  let left = maxTextLength
  let isCut = false
  const limitedPages = pages.map((page) => {
    if (page.text.length > left) isCut = true
    const text = removeInvalidCharacters(page.text.slice(0, left))
    left -= text.length
    return { ...page, text }
  })
  const limited = { ...sanitizeMetadata(metadata), ...(isCut || left === 0 ? { text_truncated: true } : {}) }
  return { metadata: limited, ...(date === undefined ? {} : { date: date.slice(0, 40) }), pages: limitedPages }
}

/** Keeps strings, truncated to 2000 characters, numbers and booleans. */
function sanitizeMetadata(metadata: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(metadata).flatMap(([key, value]): [string, unknown][] => {
    if (typeof value === 'string') return [[key, removeInvalidCharacters(value.slice(0, 2000))]]
    return typeof value === 'number' || typeof value === 'boolean' ? [[key, value]] : []
  })
  return Object.fromEntries(entries)
}

/** Converts any error of a reader to a ReadFailure. */
export function toReadFailure(problem: unknown): ReadFailure {
  if (problem instanceof ReadFailure) return problem
  const message = problem instanceof Error ? problem.message : String(problem)
  if (problem instanceof RangeError && /Array buffer|allocation|Invalid (typed )?array length|string length/i.test(message))
    return new ReadFailure('FILE_TOO_COMPLEX')
  return new ReadFailure('FILE_CORRUPT', `The file cannot be read: ${message.split('\n')[0]}`)
}
