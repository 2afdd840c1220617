/** Office documents that are ZIP files: which reader for which, and what they say of themselves. */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { typeByExtension } from '../../mime-types.ts'
import { type ByteSource, type OpenedDocument, openTextOnly } from '../../opened-document.ts'
import { normalizeWhitespace } from '../decode.ts'
import { findPackagePath, readEpub } from '../epub.ts'
import { decodeXml, walkXml } from '../markup.ts'
import { type Archive, openArchive } from '../zip.ts'
import { readOpenDocument } from './open-document.ts'
import { findMainPart, readDocx, readPptx } from './open-xml.ts'
import { readXlsx } from './spreadsheet.ts'

type Family = 'word' | 'sheet' | 'slides' | 'open-document' | 'epub'

/** Which of the families a type belongs to; null for none. */
export function findFamily(mimeType: string): Family | null {
  if (mimeType === typeByExtension.epub) return 'epub'
  if (mimeType.includes('opendocument')) return 'open-document'
  if (/wordprocessingml|ms-word\./.test(mimeType)) return 'word'
  if (/spreadsheetml|ms-excel\.sheet/.test(mimeType)) return 'sheet'
  if (/presentationml|ms-powerpoint\.presentation/.test(mimeType)) return 'slides'
  return null
}

/** The type of a ZIP file by all of its entries, for files whose beginning did not tell; null where it is just a ZIP file. */
export function detectArchiveType(bytes: Uint8Array): string | null {
  const archive = openArchive(bytes)
  const declared = declaredType(archive)
  if (declared) return declared
  const has = (folder: string): boolean => archive.names.some((name) => name.startsWith(folder))
  if (!archive.names.includes('[Content_Types].xml')) return null
  const extension = has('word/') ? 'docx' : has('xl/') ? 'xlsx' : has('ppt/') ? 'pptx' : null
  return extension && typeByExtension[extension]!
}

const declaredType = (archive: Archive): string | null =>
  /^application\/[\w.+-]+/.exec(Buffer.from(readOptionalPart(archive, 'mimetype')).toString('latin1'))?.[0] ?? null

/** A part without which the document can still be read: empty where it is missing or damaged. */
function readOptionalPart(archive: Archive, name: string): Uint8Array {
  try {
    return archive.readPart(name) ?? new Uint8Array()
  } catch {
    return new Uint8Array()
  }
}

/** Opens a document of any of the families. Its contents() throws ReadFailure FILE_CORRUPT, FILE_ENCRYPTED, FILE_TOO_COMPLEX. */
export const openOffice = (source: ByteSource, family: Family): OpenedDocument =>
  openTextOnly(async () => {
    const archive = openArchive(source.read())
    return { text: read(archive, family), metadata: readProperties(archive, family) }
  })

function read(archive: Archive, family: Family): string {
  if (family === 'open-document') return readOpenDocument(archive)
  if (family === 'epub') return readEpub(archive)
  const main = findMainPart(archive)
  if (!main && !archive.names.some((name) => /^(word|xl|ppt)\//.test(name)))
    throw new ReadFailure('FILE_CORRUPT', 'The document has no main part.')
  if (family === 'sheet') return readXlsx(archive)
  return family === 'slides' ? readPptx(archive) : readDocx(archive)
}

const propertyNames: Readonly<Record<string, string>> = {
  'dc:title': 'title',
  'dc:creator': 'author',
  'meta:initial-creator': 'author',
  'dc:subject': 'subject',
  'dc:description': 'description',
  'dc:language': 'language',
  'dc:publisher': 'publisher',
  'cp:keywords': 'keywords',
  'meta:keyword': 'keywords',
  'dcterms:created': 'created',
  'meta:creation-date': 'created',
  'dcterms:modified': 'modified',
  'dc:date': 'modified',
  Application: 'producer',
  'meta:generator': 'producer',
}

/** What the document says of itself, dates as ISO dates. */
function readProperties(archive: Archive, family: Family): Record<string, unknown> {
  const parts =
    family === 'epub' ? [findPackagePath(archive)] : family === 'open-document' ? ['meta.xml'] : ['docProps/core.xml', 'docProps/app.xml']
  const metadata: Record<string, unknown> = {}
  for (const part of parts) {
    let key: string | undefined
    let value = ''
    walkXml(decodeXml(readOptionalPart(archive, part)), {
      open(name) {
        key = propertyNames[name]
        value = ''
      },
      text(text) {
        value += text
      },
      close() {
        const found = key && normalizeWhitespace(value)
        if (key && found) metadata[key] ??= key === 'created' || key === 'modified' ? toIsoDate(found) : found
        key = undefined
      },
    })
  }
  return metadata
}

function toIsoDate(value: string): string {
  const time = new Date(/^\d{4}-\d\d-\d\dT[\d:.]+$/.test(value) ? `${value}Z` : value)
  return Number.isNaN(time.getTime()) ? value : time.toISOString()
}
