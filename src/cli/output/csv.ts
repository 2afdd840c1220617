/** Values as cells, and CSV (RFC 4180). Fields that spreadsheets would run as a formula begin with an apostrophe. */
import { createRequire } from 'node:module'
import type * as CsvParse from 'csv-parse/sync'
import type * as CsvStringify from 'csv-stringify/sync'
import { escapeControls } from '../../log/escape.ts'
import { usage } from '../runtime/exit.ts'

// Loaded on first use: most commands need neither package.
const require = createRequire(import.meta.url)

/** Formats a value as one line: empty for null, lists with commas, objects as JSON. Escapes control characters. */
export function formatCell(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(formatCell).join(',')
  return escapeControls(typeof value === 'object' ? JSON.stringify(value) : String(value))
}

/** Texts that spreadsheets run as a formula, except numbers and a lone sign. The leading apostrophes are those of formatCsv(). */
const formula = /^'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20][\s\S]/
const number = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Formats rows as CSV. `escapeText` gets the texts between line breaks and tabs; the default escapes control characters. */
export function formatCsv(rows: readonly (readonly unknown[])[], escapeText = escapeControls): string {
  const { stringify } = require('csv-stringify/sync') as typeof CsvStringify
  return stringify(
    rows.map((row) => row.map((value) => formatCsvField(value, escapeText))),
    { quoted_match: '\t' },
  )
}

function formatCsvField(value: unknown, escapeText: (text: string) => string): string {
  const text = typeof value === 'string' ? value.replace(/[^\t\n\r]+/g, escapeText) : formatCell(value)
  return formula.test(text) && !number.test(text) ? `'${text}` : text
}

export interface CsvRecord {
  /** number of the first line of the record, from 1 */
  readonly line: number
  readonly fields: readonly string[]
}

const syntaxErrors: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: 'text follows a closing quote',
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  INVALID_OPENING_QUOTE: 'a quote is inside a field that does not begin with one',
}

/**
 * Parses CSV without its empty lines and without the apostrophes of formatCsv(). Accepts a byte order mark and any line end. The separator is a
 * semicolon or a tab if the first line has no comma. Throws Failure USAGE.
 */
export function parseCsv(text: string): CsvRecord[] {
  const { parse } = require('csv-parse/sync') as typeof CsvParse
  const [head = ''] = text.split(/[\r\n]/, 1)
  let line = 1
  try {
    const records = parse(text, {
      bom: true,
      delimiter: [',', ';', '\t'].find((separator) => head.includes(separator)) ?? ',',
      raw: true,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
    }) as unknown as { record: string[]; raw: string }[]
    return records
      .map(({ record, raw }) => {
        const start = line
        line += raw.match(/\r\n?|\n/g)?.length ?? 0
        return { line: start, fields: record.map((field) => (field.startsWith("'") && formula.test(field) ? field.slice(1) : field)) }
      })
      .filter(({ fields }) => fields.some((field) => field !== ''))
  } catch (error) {
    const { code, lines, message } = error as CsvParse.CsvError & { lines: number }
    throw usage(`line ${lines}: ${syntaxErrors[code] ?? message}`, 'quote the field, and double the quotes inside')
  }
}
