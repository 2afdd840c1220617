/** Values as they stand in a line that people or `cut` read: one line, nothing that a terminal obeys. */

/** C0, DEL and C1 controls, and the marks that reorder text on the screen. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const unsafe = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g
const names: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** The text with control characters written out: `\n`, `\t`, `\x1b`, `\u202e`. */
export const plain = (text: string): string => text.replace(unsafe, (char) => names[char] ?? escaped(char.charCodeAt(0)))

const escaped = (code: number): string =>
  code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`

/** A value as one cell: nothing for null, lists with commas, objects as JSON. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(cell).join(',')
  return plain(typeof value === 'object' ? JSON.stringify(value) : String(value))
}

/** One field of RFC 4180. Line breaks and tabs may stand in quotes; other control characters are written out. */
export function csvField(value: unknown): string {
  const text =
    typeof value === 'string'
      ? value
          .split(/([\t\n\r]+)/)
          .map((part, index) => (index % 2 ? part : plain(part)))
          .join('')
      : cell(value)
  return /[",\t\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
