/** Formatting of values as one line without control characters. */
import { escapeControls } from '../../log/escape.ts'

/** Formats a value as a cell: empty for null, lists with commas, objects as JSON. */
export function formatCell(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(formatCell).join(',')
  return escapeControls(typeof value === 'object' ? JSON.stringify(value) : String(value))
}

/** Texts that spreadsheets run as a formula, except numbers and a lone sign. Leading apostrophes are those of formatCsvField(). */
const formula = /^'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20][\s\S]/
const number = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/**
 * Formats a field of RFC 4180. Keeps line breaks and tabs in quotes and escapes other control characters. Prefixes formulas with an apostrophe,
 * which unescapeFormula() removes.
 */
export function formatCsvField(value: unknown): string {
  const text = escapeFormula(escapeControlsKeepingBreaks(value))
  return /[",\t\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const escapeFormula = (text: string): string => (formula.test(text) && !number.test(text) ? `'${text}` : text)

/** Removes the apostrophe of formatCsvField(). */
export const unescapeFormula = (field: string): string => (field.startsWith("'") && formula.test(field) ? field.slice(1) : field)

function escapeControlsKeepingBreaks(value: unknown): string {
  return typeof value === 'string'
    ? value
        .split(/([\t\n\r]+)/)
        .map((part, index) => (index % 2 ? part : escapeControls(part)))
        .join('')
    : formatCell(value)
}
