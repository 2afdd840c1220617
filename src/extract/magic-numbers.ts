/** Detection of binary types by their first bytes, in the order in which they exclude each other. */
import { fileTypeFromBuffer } from 'file-type'
import { typeByExtension } from './mime-types.ts'

/** Types by the first characters of a file, as Latin-1. Has only types that `file-type` does not know and types that look like text. */
const startingTypes: readonly (readonly [start: string, type: string])[] = [
  ['\xff\xd8\xff', 'image/jpeg'],
  // Includes animated images, whose first frame is read.
  ['\x89PNG\r\n\x1a\n', 'image/png'],
  ['II*\0\x10\0\0\0CR', 'image/x-canon-cr2'],
  ['II*\0', 'image/tiff'],
  ['MM\0*', 'image/tiff'],
  ['II+\0', 'image/tiff'],
  ['MM\0+', 'image/tiff'],
  ['\x1f\x8b\x08', 'application/gzip'],
  ['\x78\x9f\x3e\x22', 'application/vnd.ms-tnef'],
  ['\xffWPC', 'application/vnd.wordperfect'],
  ['\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d', 'application/onenote'],
]

/** Detects types that look like text. `start` is the head as Latin-1. */
export function detectByStart(start: string): string | null {
  const found = startingTypes.find(([characters]) => start.startsWith(characters))
  if (found) return found[1]
  if (start.startsWith('RIFF') && start.startsWith('WEBP', 8)) return 'image/webp'
  if (start.startsWith('AT&TFORM') && start.startsWith('DJV', 12)) return 'image/vnd.djvu'
  // file-type gives mailboxes of Outlook the type of its messages.
  if (start.startsWith('!BDN') && start.startsWith('SM', 8)) return 'application/vnd.ms-outlook-pst'
  if (isSignedData(start)) return 'application/pkcs7-mime'
  return isAnymap(start) ? 'image/x-portable-anymap' : null
}

/** Object identifiers of signed data (RFC 5652) and timestamped data (RFC 5544). */
const signedTypes = ['\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02', '\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x1f']

/** Returns whether the head is PEM, or an ASN.1 sequence that begins with the object identifier of signed or timestamped data. */
function isSignedData(start: string): boolean {
  if (/^-----BEGIN (PKCS7|CMS)-----/.test(start)) return true
  const lengthByte = start.charCodeAt(1)
  const identifier = 2 + (lengthByte > 0x80 ? lengthByte & 0x7f : 0)
  return start.startsWith('0') && signedTypes.some((type) => start.startsWith(type, identifier))
}

/**
 * Returns whether the head belongs to a PBM, PGM, PPM or PAM image (Netpbm). The plain formats consist of numbers. The raw formats have the first
 * number on a separate line.
 */
function isAnymap(start: string): boolean {
  if (!/^P[1-7]\s/.test(start)) return false
  const content = start.replace(/#[^\n]*/g, '')
  return /^P[1-3][\d\s]+$|^P[4-6][ \t]*[\r\n]\s*\d+\s+\d+\s|^P7\s+(WIDTH|HEIGHT|DEPTH|MAXVAL|TUPLTYPE) /.test(content)
}

/** Maximum bytes before the header of a PDF, as in other PDF readers (ISO 32000-1, annex H, note 13). */
const maxPdfOffset = 1024

/** Returns whether the head belongs to a PDF, also behind white space and comments, and without its header. */
export const isPdf = (start: string): boolean => /^(\xef\xbb\xbf)?[\s\0]*(%PDF|(%.*[\r\n]\s*)*\d+ +\d+ +obj\b\s*(<<|\[))/.test(start)

/** Returns whether a PDF begins after other bytes of the head. In a text, the header must be a separate line before an object. */
export function isPdfBehindJunk(start: string, { isText }: { isText: boolean }): boolean {
  const header = (isText ? /^%PDF-\d/m : /%PDF-/).exec(start.slice(0, maxPdfOffset))
  return header !== null && (!isText || /\d\s+obj\b/.test(start.slice(header.index)))
}

/** Detects a binary type. `start` is `head` as Latin-1. Returns null for an unknown type. */
export async function detectBinaryType(head: Uint8Array, start: string, byName: string): Promise<string | null> {
  if (start.startsWith('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1')) return oleTypes.has(byName) ? byName : 'application/x-cfb'
  if (zipStarts.some((characters) => start.startsWith(characters))) return detectZipType(start, byName)
  const detected = await fileTypeFromBuffer(head).catch(() => undefined)
  return detected?.mime ?? null
}

/** Signatures of ZIP archives. The last two mark archives made for several volumes. */
const zipStarts = ['PK\x03\x04', 'PK\x05\x06', 'PK00PK\x03\x04', 'PK\x07\x08PK\x03\x04']

const oleTypes = new Set(['doc', 'xls', 'ppt', 'msg'].map((extension) => typeByExtension[extension]))

/** Detects office documents and books among ZIP files by their first entries, else by name. */
function detectZipType(head: string, byName: string): string {
  const entries = listZipEntries(head)
  const declared = entries[0]?.name === 'mimetype' ? /^application\/[\w.+-]+/.exec(entries[0].start)?.[0] : undefined
  if (declared) return declared
  if (/officedocument|opendocument|macroenabled|epub/.test(byName)) return byName
  const names = entries.map((entry) => entry.name.replaceAll('\\', '/').toLowerCase())
  for (const [folder, extension] of openXml) if (names.some((name) => name.startsWith(folder))) return typeByExtension[extension]!
  return 'application/zip'
}

const openXml = [
  ['word/', 'docx'],
  ['xl/', 'xlsx'],
  ['ppt/', 'pptx'],
] as const

/** Lists the entries that begin in the head, with the beginning of their data. */
function listZipEntries(head: string): { name: string; start: string }[] {
  const entries = []
  for (let at = head.indexOf('PK\x03\x04'); at >= 0; at = head.indexOf('PK\x03\x04', at + 4)) {
    const nameLength = head.charCodeAt(at + 26) + 256 * head.charCodeAt(at + 27)
    const data = at + 30 + nameLength + head.charCodeAt(at + 28) + 256 * head.charCodeAt(at + 29)
    const size = head.charCodeAt(at + 18) + 256 * head.charCodeAt(at + 19)
    entries.push({ name: head.slice(at + 30, at + 30 + nameLength), start: head.slice(data, data + (size || 100)) })
  }
  return entries
}
