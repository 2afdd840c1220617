/** File names from elsewhere: kept as what people call the file, never as a path. */
import { visibleLine } from '../http/visible-text.ts'

const maxBytes = 255

/** A Windows path: a drive letter, a UNC path, or a step to the same or the parent folder. */
const windowsPath = /^[a-z]:\\|^\\\\|(^|\\)\.{1,2}\\/i

/**
 * The part after the last slash, and after the last backslash where the rest is a Windows path: `C:\a.pdf`, `\\host\a.pdf`, `..\a.pdf`. Any other
 * backslash is a character of the name, as on every POSIX file system: `a\b.pdf` stays.
 */
export function lastPart(name: string): string {
  const last = name.split('/').at(-1) ?? ''
  return windowsPath.test(last) ? (last.split('\\').at(-1) ?? '') : last
}

/** The last part of the name, NFC, without characters that control a line or its direction, or cannot be seen, at most 255 bytes of UTF-8; `document` where nothing is left. */
export function cleanFilename(name: string): string {
  const clean = lastPart(name)
    .toWellFormed()
    .normalize('NFC')
    .replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, '_')
  const visible = visibleLine(clean).trim()
  if (visible === '' || visible === '.' || visible === '..') return 'document'
  return shorten(visible, maxBytes)
}

/** A title for a file that was given none: its name without the extension. */
export const titleOf = (filename: string): string => filename.replace(/(?<=.)\.[^.\s]{1,10}$/u, '')

/** Shortens the stem to `maxBytes` of UTF-8 in all and keeps the extension, never cutting a character in two. */
export function shorten(name: string, maxBytes: number): string {
  if (Buffer.byteLength(name) <= maxBytes) return name
  const extension = /\.[^.\s]{1,16}$/u.exec(name)?.[0] ?? ''
  let stem = ''
  let room = maxBytes - Buffer.byteLength(extension)
  for (const character of name.slice(0, name.length - extension.length)) {
    room -= Buffer.byteLength(character)
    if (room < 0) break
    stem += character
  }
  return stem + extension
}
