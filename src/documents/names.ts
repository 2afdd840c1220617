/** File names from elsewhere: kept as what people call the file, never as a path. */

const maxBytes = 255

/** The last part of the name, NFC, without characters that control a line or its direction, at most 255 bytes of UTF-8; `document` where nothing is left. */
export function cleanFilename(name: string): string {
  const last = name.split(/[/\\]/).at(-1) ?? ''
  const clean = last
    .toWellFormed()
    .normalize('NFC')
    .replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, '_')
    .trim()
  if (clean === '' || clean === '.' || clean === '..') return 'document'
  return shorten(clean, maxBytes)
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
