/** Reader of office documents in ZIP archives: chooses the format and reads the metadata. */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { typeByExtension } from '../../mime-types.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { normalizeWhitespace } from '../decode.ts'
import { findPackagePath, readEpub } from '../epub.ts'
import { decodeXml, walkXml } from '../markup.ts'
import { type Archive, openArchive } from '../zip.ts'
import { addEmbeddedFile } from './embedded.ts'
import { detectIworkType } from './iwork/iwork.ts'
import { readOpenDocument } from './open-document.ts'
import { findMainPart, findRelatedParts, readDocx, readPptx } from './open-xml.ts'
import { addScans } from './scans.ts'
import { readSpreadsheet } from './sheets/spreadsheet.ts'
import { isXpsPage } from './xps.ts'

type Family = 'word' | 'sheet' | 'slides' | 'open-document' | 'epub'

/** Returns the format family of a type, null for other types. */
export function findFamily(mimeType: string): Family | null {
  if (mimeType === typeByExtension.epub) return 'epub'
  if (mimeType.includes('opendocument') || mimeType.startsWith('application/vnd.sun.xml.')) return 'open-document'
  if (/wordprocessingml|ms-word\./.test(mimeType)) return 'word'
  if (/spreadsheetml|ms-excel\.sheet/.test(mimeType)) return 'sheet'
  if (/presentationml|ms-powerpoint\.presentation/.test(mimeType)) return 'slides'
  return null
}

/** Detects the type of an office document by all of its entries. Returns null for other ZIP files. */
export function detectArchiveType(bytes: Uint8Array, byName: string): string | null {
  const archive = openArchive(bytes)
  const declared = declaredType(archive)
  if (declared) return declared
  const iwork = detectIworkType(archive, byName)
  if (iwork) return iwork
  if (archive.names.some(isXpsPage)) return typeByExtension.xps!
  if (starOffice.has(byName) && archive.names.includes('content.xml')) return byName
  const names = archive.names.map((name) => name.toLowerCase())
  if (!names.includes('[content_types].xml')) return null
  if (names.includes('xl/workbook.bin')) return typeByExtension.xlsb!
  const extension = Object.entries(openXmlFolders).find(([, folder]) => names.some((name) => name.startsWith(folder)))?.[0]
  return extension === undefined ? null : typeByExtension[extension]!
}

const openXmlFolders = { docx: 'word/', xlsx: 'xl/', pptx: 'ppt/' }

/** Files of StarOffice 6 do not declare their type. */
const starOffice = new Set(['sxw', 'sxc', 'sxi', 'sxd'].map((extension) => typeByExtension[extension]))

const declaredType = (archive: Archive): string | null =>
  /^application\/[\w.+-]+/.exec(Buffer.from(readOptionalPart(archive, 'mimetype')).toString('latin1'))?.[0] ?? null

/** Reads a part that the document does not need. Returns no bytes if it is missing or damaged. */
function readOptionalPart(archive: Archive, name: string): Uint8Array {
  try {
    return archive.readPart(name) ?? new Uint8Array()
  } catch {
    return new Uint8Array()
  }
}

/** Opens an office document. Its contents() throws ReadFailure FILE_CORRUPT, FILE_ENCRYPTED, FILE_TOO_COMPLEX. */
export const openOffice = (source: ByteSource, family: Family, tools: PartTools): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    const archive = openArchive(source.read())
    const text = readText(archive, family)
    collector.addText(`${text}\n\n`)
    await addScans(collector, archive, text)
    for (const name of listEmbedded(archive)) {
      if (collector.isFull) break
      const bytes = readOptionalPart(archive, name)
      if (bytes.length > 0) await addEmbeddedFile(collector, bytesSource(bytes, name.split('/').at(-1)!))
    }
    return readProperties(archive, family)
  })

/** Lists embedded files: objects and alternate chunks of Open XML, objects of OpenDocument. */
function listEmbedded(archive: Archive): string[] {
  const chunks = findRelatedParts(archive, findMainPart(archive) ?? '', ['aFChunk'], 1)
  return [...chunks, ...archive.names.filter((name) => /^(word|xl|ppt)\/embeddings\/[^/]+$|^(Object|OLE)[ -]\d+$/i.test(name))]
}

function readText(archive: Archive, family: Family): string {
  if (family === 'open-document') return readOpenDocument(archive)
  if (family === 'epub') return readEpub(archive)
  const main = findMainPart(archive)
  if (!main && !archive.names.some((name) => /^(word|xl|ppt)\//i.test(name)))
    throw new ReadFailure('FILE_CORRUPT', 'The document has no main part.')
  if (family === 'sheet') return readSpreadsheet(archive)
  return family === 'slides' ? readPptx(archive) : readDocx(archive)
}

const propertyNames = new Map([
  ['dc:title', 'title'],
  ['dc:creator', 'author'],
  ['meta:initial-creator', 'author'],
  ['dc:subject', 'subject'],
  ['dc:description', 'description'],
  ['dc:language', 'language'],
  ['dc:publisher', 'publisher'],
  ['cp:keywords', 'keywords'],
  ['meta:keyword', 'keywords'],
  ['dcterms:created', 'created'],
  ['meta:creation-date', 'created'],
  ['dcterms:modified', 'modified'],
  ['dc:date', 'modified'],
  ['Application', 'producer'],
  ['meta:generator', 'producer'],
])

/** Reads the metadata. Dates become ISO dates. `date` is the unchanged time of creation. */
function readProperties(archive: Archive, family: Family): { metadata: Record<string, unknown>; date: string | undefined } {
  const metadata: Record<string, unknown> = {}
  let date: string | undefined
  for (const part of propertyParts(archive, family)) {
    let key: string | undefined
    let value = ''
    walkXml(decodeXml(readOptionalPart(archive, part)), {
      open(name, attributes) {
        // The value of a property of the user is in an element of its own.
        const own = name === 'property' ? attributes.name : name === 'meta:user-defined' ? attributes['meta:name'] : undefined
        key = own ? `custom.${own}` : (propertyNames.get(name) ?? (name.startsWith('vt:') ? key : undefined))
        value = ''
      },
      text(text) {
        value += text
      },
      close() {
        const text = key && normalizeWhitespace(value)
        if (key === 'created' && text) date ??= text
        if (key && text) metadata[key] ??= key === 'created' || key === 'modified' ? toIsoDate(text) : text
        key = undefined
      },
    })
  }
  return { metadata, date }
}

function propertyParts(archive: Archive, family: Family): string[] {
  if (family === 'epub') return [findPackagePath(archive)]
  return family === 'open-document' ? ['meta.xml'] : ['docProps/core.xml', 'docProps/app.xml', 'docProps/custom.xml']
}

function toIsoDate(value: string): string {
  const time = new Date(/^\d{4}-\d\d-\d\dT[\d:.]+$/.test(value) ? `${value}Z` : value)
  return Number.isNaN(time.getTime()) ? value : time.toISOString()
}
