/** Values as they stand in a line that people or `cut` read: one line, nothing that a terminal obeys. */
import { plain } from '../plain.ts'

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
