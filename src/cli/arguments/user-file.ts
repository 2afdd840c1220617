/** Rows of a file of users: CSV, JSON or JSON lines. */
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { parseCsv } from '../output/csv.ts'
import { usage } from '../runtime/exit.ts'

export const userColumns = ['username', 'email', 'password', 'password_hash', 'role', 'display_name', 'disabled'] as const

export interface UserRow {
  /** "line 7", or "row 7" of a JSON array */
  readonly location: string
  /** fields of the row under their API names, not validated */
  readonly fields: unknown
}

export const rowFormats = ['csv', 'json', 'jsonl'] as const
export type RowFormat = (typeof rowFormats)[number]

export interface RowOptions {
  format?: RowFormat | undefined
  /** "username=login,email=mail" */
  map?: string | undefined
}

/** Reads a file, or standard input for `-`. Throws Failure USAGE for unreadable content and for unknown CSV columns. */
export async function readUserRows(file: string, { format = detectFormat(file), map = '' }: RowOptions): Promise<UserRow[]> {
  const names = parseColumnMap(map)
  const content = await readText(file)
  if (format === 'csv') return parseCsvRows(content, names)
  return parseJsonRows(content, format).map(({ location, fields }) => ({ location, fields: renameFields(fields, names) }))
}

function detectFormat(file: string): RowFormat {
  const extension = extname(file).slice(1).toLowerCase()
  const format = rowFormats.find((each) => each === extension)
  if (!format)
    throw usage(
      `cannot tell the format of ${file === '-' ? 'standard input' : file} from its name`,
      `pass --format ${rowFormats.join('|')}`,
    )
  return format
}

async function readText(file: string): Promise<string> {
  const isPiped = file === '-'
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await (isPiped ? buffer(process.stdin) : readFile(file)))
  } catch (error) {
    throw usage(error instanceof TypeError ? `${isPiped ? 'standard input' : file} is not UTF-8` : (error as Error).message)
  }
}

/** Parses --map into a map from column name of the file to field name. */
function parseColumnMap(map: string): Map<string, string> {
  const pairs = map.split(',').filter((pair) => pair.trim() !== '')
  return new Map(
    pairs.map((pair) => {
      const [column = '', name = ''] = pair.split('=').map((part) => part.trim())
      if (!isColumn(column) || name === '')
        throw usage(`--map ${pair}: not of the form COLUMN=NAME, where COLUMN is one of ${userColumns.join(', ')}`)
      return [name, column]
    }),
  )
}

/** Columns whose values keep their leading and trailing spaces. */
const secretColumns = new Set(['password', 'password_hash'])

const isColumn = (name: string): boolean => (userColumns as readonly string[]).includes(name)

function parseCsvRows(content: string, names: ReadonlyMap<string, string>): UserRow[] {
  const [head, ...records] = parseCsv(content)
  if (!head) return []
  const columns = head.fields.map((name) => names.get(name.trim()) ?? name.trim())
  // `users import --rejects` adds columns with an underscore.
  const unknown = columns.filter((name) => !isColumn(name) && !name.startsWith('_'))
  if (unknown.length > 0)
    throw usage(`unknown column ${unknown.join(', ')}; columns are ${userColumns.join(', ')}`, 'pass --map username=NAME,…')
  return records.map(({ line, fields }) => {
    if (fields.length > columns.length) throw usage(`line ${line}: ${fields.length} fields, but ${columns.length} columns`)
    const cells = fields.map((value, index) => {
      const name = columns[index] ?? ''
      return [name, secretColumns.has(name) ? value : value.trim()] as const
    })
    return { location: `line ${line}`, fields: Object.fromEntries(cells.filter(([name, value]) => isColumn(name) && value !== '')) }
  })
}

function parseJsonRows(content: string, format: 'json' | 'jsonl'): UserRow[] {
  const parse = (json: string, location: string): unknown => {
    try {
      return JSON.parse(json)
    } catch (error) {
      throw usage(`${location}: ${(error as Error).message}`)
    }
  }
  const withoutMark = content.replace(/^\ufeff/, '')
  if (format === 'jsonl') {
    const lines = withoutMark.split('\n').map((line, index) => ({ location: `line ${index + 1}`, line }))
    return lines.filter(({ line }) => line.trim() !== '').map(({ location, line }) => ({ location, fields: parse(line, location) }))
  }
  const value = parse(withoutMark, 'the file')
  const rows = Array.isArray(value) ? value : (value as { users?: unknown } | null)?.users
  if (!Array.isArray(rows)) throw usage('the file has no array of users')
  return rows.map((fields, index) => ({ location: `row ${index + 1}`, fields }))
}

function renameFields(fields: unknown, names: ReadonlyMap<string, string>): unknown {
  if (names.size === 0 || typeof fields !== 'object' || fields === null) return fields
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [names.get(name) ?? name, value]))
}
