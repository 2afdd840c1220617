/** Values as they stand in a line that people or `cut` read: one line, nothing that a terminal obeys. */
import { escapeControls } from '../../log/escape.ts'

/** A value as one cell: nothing for null, lists with commas, objects as JSON. */
export function formatCell(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(formatCell).join(',')
  return escapeControls(typeof value === 'object' ? JSON.stringify(value) : String(value))
}

/** What spreadsheets take for a formula; a number is none, nor is a sign alone. With apostrophes before it, it is what csvField() has made of one. */
const formula = /^'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20][\s\S]/
const number = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/**
 * One field of RFC 4180. Line breaks and tabs may stand in quotes; other control characters are written out. A text that a spreadsheet would run
 * as a formula has an apostrophe before it; csvText() takes it off again.
 */
export function formatCsvField(value: unknown): string {
  const text = escapeFormula(escapeControlsKeepingBreaks(value))
  return /[",\t\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const escapeFormula = (text: string): string => (formula.test(text) && !number.test(text) ? `'${text}` : text)

/** The text that a field of csvField() was made of. */
export const unescapeFormula = (field: string): string => (field.startsWith("'") && formula.test(field) ? field.slice(1) : field)

function escapeControlsKeepingBreaks(value: unknown): string {
  return typeof value === 'string'
    ? value
        .split(/([\t\n\r]+)/)
        .map((part, index) => (index % 2 ? part : escapeControls(part)))
        .join('')
    : formatCell(value)
}
