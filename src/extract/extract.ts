/** Opens any file: detects its type by all of its bytes and chooses the reader. */
import { ReadFailure } from '../ports/document-reader.ts'
import { latin1 } from './bytes.ts'
import { findConverter } from './converters/registry.ts'
import { detectType, headBytes } from './detect.ts'
import { typeByName } from './mime-types.ts'
import { type ByteSource, bytesSource, type Contents, type OpenedDocument, openTextOnly } from './opened-document.ts'
import { createPartBudget, type PartBudget } from './parts.ts'
import { maxTextLength, removeInvalidCharacters } from './readers/decode.ts'
import { decryptPackage } from './readers/office/encrypted-package.ts'
import { detectArchiveType } from './readers/office/office.ts'
import { detectOleType } from './readers/office/old-office.ts'
import { isOle, type Ole, openOle } from './readers/office/ole.ts'
import type { PdfTools } from './readers/pdf/pdf.ts'
import { findReader, type Reader } from './readers/registry.ts'

/** Maximum nesting of files in files. */
const maxDepth = 3

export interface Tools extends Omit<PdfTools, 'openPart'> {
  /** Returns milliseconds of a clock that stops while the process waits for a processor; default: performance.now() */
  readonly now?: () => number
}

export interface OpenedFile extends OpenedDocument {
  readonly mimeType: string
  /** Whether dms has a reader for this type. Without one there is no text. */
  readonly hasReader: boolean
  /** Debian package with a program that reads this type; missing: none, or it is installed */
  readonly missingPackage?: string | undefined
}

/** Opens a file. Throws ReadFailure. */
export async function openFile(source: ByteSource, tools: Tools): Promise<OpenedFile> {
  const budget = createPartBudget(tools.now ?? (() => performance.now()))
  const opened = await openNested(source, tools, 0, budget)
  const withNewBudget = <T>(call: () => Promise<T>): Promise<T> => {
    budget.reset()
    return call()
  }
  return { ...opened, contents: () => withNewBudget(opened.contents), picture: (page) => withNewBudget(() => opened.picture(page)) }
}

/** Opens a file inside another one. `depth` is the number of files around it. */
async function openNested(file: ByteSource, tools: Tools, depth: number, budget: PartBudget): Promise<OpenedFile> {
  const { source, mimeType } = await identify(file)
  const openPart = async (part: ByteSource): Promise<OpenedDocument | null> =>
    depth < maxDepth && budget.take(part.size) ? openNested(part, tools, depth + 1, budget) : null
  // Programs of the eighties use the same extensions. Their files are not supported.
  const reader = oleTypes.has(mimeType) && !isOle(source.head(8)) ? null : (findReader(mimeType) ?? findPackageReader(source))
  const read = (await reader?.(source, { ...tools, openPart }, mimeType)) ?? (await convert(source, { ...tools, openPart }, mimeType))
  const converter = read ? null : findConverter(mimeType)
  const missingPackage = converter && !tools.converters?.[converter.name] ? converter.package : undefined
  const opened = read ?? openTextOnly(async () => ({ text: '' }))
  return { ...opened, mimeType, hasReader: read !== null, missingPackage, contents: async () => limitContents(await opened.contents()) }
}

/** Returns the reader of ZIP archives for a package of another type, such as HWPX or IDML, which says its type itself. Returns null for other files. */
const findPackageReader = (source: ByteSource): Reader | null =>
  latin1(source.head(4)) === 'PK\x03\x04' ? findReader('application/zip') : null

/** Opens a file with an external program. Returns null if no program reads this type or it is not installed. */
async function convert(source: ByteSource, tools: PdfTools, mimeType: string): Promise<OpenedDocument | null> {
  const converter = findConverter(mimeType)
  const program = converter && tools.converters?.[converter.name]
  return program ? converter.open(source, program, tools) : null
}

const oleTypes = new Set(['application/msword', 'application/vnd.ms-excel', 'application/vnd.ms-powerpoint', 'application/vnd.ms-outlook'])

interface Identified {
  readonly source: ByteSource
  readonly mimeType: string
}

/**
 * Detects the type by the first bytes, and that of containers by their entries. Returns it with the file, or with the document in a file that is
 * protected against changes only. Throws ReadFailure FILE_ENCRYPTED.
 */
async function identify(source: ByteSource): Promise<Identified> {
  if (!isOle(source.head(8))) return { source, mimeType: await detectFileType(source) }
  const ole = openOle(source.read())
  const document = decryptPackage(ole)
  if (!document) return { source, mimeType: detectCompoundType(ole) }
  const decrypted = bytesSource(document, source.filename)
  return { source: decrypted, mimeType: isOle(document) ? detectCompoundType(openOle(document)) : await detectFileType(decrypted) }
}

const detectCompoundType = (ole: Ole): string => detectOleType(ole) ?? 'application/x-cfb'

/** Detects the type of a file that is not a compound file. */
async function detectFileType(source: ByteSource): Promise<string> {
  const bytes = source.head(headBytes)
  const type = await detectType(bytes, source.filename, source.size)
  if (bytes[0] !== 0x50 || bytes[1] !== 0x4b) return type
  return detectArchiveType(source.read(), typeByName(source.filename)) ?? type
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

/** Maximum size of the metadata of a file, in bytes of JSON. An office file may have any number of own properties. */
const maxMetadataBytes = 32 << 10

/** Keeps strings, truncated to 2000 characters, booleans, and numbers that JSON can carry. Leaves out what exceeds the maximum size, own properties first. */
function sanitizeMetadata(metadata: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(metadata).flatMap(([key, value]): [string, unknown][] => {
    const name = removeInvalidCharacters(key)
    if (typeof value === 'string') return [[name, removeInvalidCharacters(value.slice(0, 2000))]]
    const isExact = typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER
    return isExact || typeof value === 'boolean' ? [[name, value]] : []
  })
  const isOwn = ([key]: [string, unknown]): boolean => key.startsWith('custom.')
  let left = maxMetadataBytes
  const limited = [...entries.filter((entry) => !isOwn(entry)), ...entries.filter(isOwn)].filter((entry) => {
    const bytes = Buffer.byteLength(JSON.stringify(entry))
    if (bytes > left) return false
    left -= bytes
    return true
  })
  return Object.fromEntries(limited)
}

/** Converts any error of a reader to a ReadFailure. */
export function toReadFailure(problem: unknown): ReadFailure {
  if (problem instanceof ReadFailure) return problem
  const message = problem instanceof Error ? problem.message : String(problem)
  if (
    problem instanceof RangeError &&
    /Array buffer|allocation|Invalid (typed )?array length|string length|greater than 2 GiB/i.test(message)
  )
    return new ReadFailure('FILE_TOO_COMPLEX')
  return new ReadFailure('FILE_CORRUPT', `The file cannot be read: ${message.split('\n')[0]}`)
}
