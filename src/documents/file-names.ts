/** File names that clients and sources send. They are display names and never become paths. */
import { visibleLine } from '../http/visible-text.ts'

const maxBytes = 255

/** Matches a Windows path: a drive letter, a UNC path, or a `.` or `..` segment. */
const windowsPath = /^[a-z]:\\|^\\\\|(^|\\)\.{1,2}\\/i

/** Returns the last path segment. A backslash separates segments only in a Windows path, such as `C:\a.pdf` or `..\a.pdf`. */
export function baseName(name: string): string {
  const last = name.split('/').at(-1) ?? ''
  return windowsPath.test(last) ? (last.split('\\').at(-1) ?? '') : last
}

/** Returns the last path segment in Unicode NFC, without hidden characters, at most 255 bytes of UTF-8; by default `document`. */
export function sanitizeFilename(name: string): string {
  const clean = baseName(name)
    .toWellFormed()
    .normalize('NFC')
    .replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, '_')
  const visible = visibleLine(clean).trim()
  if (visible === '' || visible === '.' || visible === '..') return 'document'
  return truncateFilename(visible, maxBytes)
}

/** Returns the title of a file that was uploaded without one: its name without the extension, trimmed as all titles are. */
export const defaultTitle = (filename: string): string => filename.replace(/(?<=.)\.(?!\p{N}+$)[^.\s]{1,10}$/u, '').trim()

/** Returns the extension of a file name with its dot; '' for none. What follows the last dot of `No. 5 of May` or `letter of 24.12.2025` is none. */
export const extensionOf = (name: string): string => /(?<=.)\.(?!\p{N}+$)[^.\s]{1,16}$/u.exec(name)?.[0] ?? ''

/** Returns a file name without its extension. */
const stemOf = (name: string): string => name.slice(0, name.length - extensionOf(name).length)

/** Returns the name of a rendition of a file: `scan.jpg` becomes `scan.pdf`. */
export const renditionName = (filename: string): string => `${stemOf(filename)}.pdf`

/** Truncates a file name to `maxBytes` of UTF-8. Keeps the extension if it leaves room for a stem, and never splits a character. */
export function truncateFilename(name: string, maxBytes: number): string {
  if (Buffer.byteLength(name) <= maxBytes) return name
  const original = extensionOf(name)
  const extension = Buffer.byteLength(original) < maxBytes ? original : ''
  let stem = ''
  let room = maxBytes - Buffer.byteLength(extension)
  for (const character of name.slice(0, name.length - extension.length)) {
    room -= Buffer.byteLength(character)
    if (room < 0) break
    stem += character
  }
  return stem + extension
}
