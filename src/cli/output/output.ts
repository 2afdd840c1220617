/** Rendering of results. Commands pass rows or an object with columns and print nothing themselves. */
import { escapeControls } from '../../log/escape.ts'
import { usage } from '../runtime/exit.ts'
import { formatCell, formatCsv } from './csv.ts'
import { displayWidth, renderTable } from './table.ts'

export const formats = ['table', 'wide', 'tsv', 'csv', 'json', 'jsonl', 'id'] as const
export type Format = (typeof formats)[number]

export interface Column<T = never> {
  /** field of the row, and name for --fields */
  readonly name: string
  /** heading; default: the name in capitals, without _AT */
  readonly title?: string
  /** `wide`: with -o wide only; `asked`: with --fields only */
  readonly show?: 'wide' | 'asked'
  readonly align?: 'right'
  /** value in table, tsv and csv instead of the field; json always prints the field */
  readonly value?: (row: T) => unknown
}

/** Column that shows its field unchanged. */
export type PlainColumn = Omit<Column, 'value'>

/** Returns columns with the properties of `common`. */
export const columnsOf = (names: readonly string[], common: Omit<PlainColumn, 'name'> = {}): PlainColumn[] =>
  names.map((name) => ({ name, ...common }))

export interface Shape<T> {
  readonly columns: readonly Column<T>[]
  /** field that `-o id` prints; default `id` */
  readonly id?: string
  /** text for a terminal, one line or several, unless an output format is given */
  readonly sentence?: string | readonly string[]
  /** whether the result is data, which -q prints too. The result of an action or a check is not. Default: true without `sentence` */
  readonly isQuery?: boolean
  /** continues an earlier list: without headings */
  readonly isContinuation?: boolean
}

export interface RenderOptions {
  readonly format: Format
  /** terminal without a given format */
  readonly isHuman: boolean
  readonly fields: readonly string[] | null
  /** null: default of the format */
  readonly header: boolean | null
  readonly isTerminal: boolean
  /** columns of the terminal; Infinity: unlimited */
  readonly width: number
  readonly color: boolean
}

interface OutputFlags extends Pick<RenderOptions, 'fields' | 'header'> {
  readonly formatFlag: Format | null
  readonly isJson: boolean
}

type Row = Readonly<Record<string, unknown>>

/** Renders rows or one object, with the last line break. Throws Failure USAGE for an unknown field. */
export function render<T extends object>(result: T | readonly T[], shape: Shape<T>, options: RenderOptions): string {
  if (options.isHuman && shape.sentence !== undefined)
    return [shape.sentence]
      .flat()
      .map((line) => `${wrapText(escapeControls(line), options.width)}\n`)
      .join('')
  const isList = Array.isArray(result)
  const rows = (isList ? result : [result]) as readonly (T & Row)[]
  const columns = selectColumns(rows, shape.columns as readonly Column<T>[], options)
  const headed = shape.isContinuation ? { ...options, header: false } : options
  switch (options.format) {
    case 'json':
      return `${JSON.stringify(isList ? rows.map((row) => pickFields(row, options.fields)) : pickFields(rows[0] ?? {}, options.fields), null, 2)}\n`
    case 'jsonl':
      return rows.map((row) => `${JSON.stringify(pickFields(row, options.fields))}\n`).join('')
    case 'id':
      return rows
        .map((row) => formatCell(row[shape.id ?? 'id']))
        .map((id) => (id === '' ? '' : `${id}\n`))
        .join('')
    default:
      return isList ? renderGrid(columns.map(titleOf), valuesOf(rows, columns), columns, headed) : renderObject(rows[0], columns, options)
  }
}

/** Returns "1 finding" or "2 findings". */
export const pluralize = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** Wraps a sentence between words and indents all lines but the first. Never divides a word, because users copy paths and ids. */
export function wrapText(sentence: string, width: number, indent = 2): string {
  const lines = ['']
  for (const word of sentence.split(' ')) {
    const line = lines.at(-1) ?? ''
    const longer = line === '' ? word : `${line} ${word}`
    if (line === '' || displayWidth(longer) <= width) lines[lines.length - 1] = longer
    else lines.push(' '.repeat(indent) + word)
  }
  return lines.join('\n')
}

function selectColumns<T extends object>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  { fields, format }: Pick<RenderOptions, 'fields' | 'format'>,
): readonly Column<T>[] {
  if (fields === null) return columns.filter(({ show }) => show === undefined || (show === 'wide' && format === 'wide'))
  const names = new Set([...columns.map(({ name }) => name), ...rows.flatMap((row) => Object.keys(row))])
  // Without rows only the columns have names, and an empty list must not fail a script.
  if (rows.length > 0) rejectUnknownFields(fields, names)
  return fields.map((name) => columns.find((column) => column.name === name) ?? { name })
}

/** Throws Failure USAGE if --fields names an unknown field. */
export function rejectUnknownFields(fields: readonly string[] | null, names: ReadonlySet<string>): void {
  const unknown = fields?.filter((name) => !names.has(name)) ?? []
  if (unknown.length > 0) throw usage(`unknown field ${unknown.join(', ')}; known are ${[...names].join(', ')}`)
}

/** Throws Failure USAGE for an output flag without effect. `output` describes the output of the command, whose format only `formats` change. */
export function rejectOutputFlags(flags: OutputFlags, output: string, formats: readonly Format[] = ['json', 'jsonl']): void {
  const ignored = findIgnoredFlag(flags, formats)
  if (ignored === null) return
  throw usage(
    `${ignored} has no effect: ${output}`,
    formats.includes('jsonl') ? 'omit it, or pass -o json' : 'omit it; to select fields, use jq',
  )
}

function findIgnoredFlag({ formatFlag, fields, header, isJson }: OutputFlags, formats: readonly Format[]): string | null {
  if (formatFlag !== null && !formats.includes(formatFlag)) return `-o ${formatFlag}`
  if (fields !== null && !(isJson && formats.includes('jsonl'))) return '--fields'
  if (header !== null) return header ? '--header' : '--no-header'
  return null
}

/** Adds null for missing fields of --fields: streamed objects may have different fields. */
export const fillMissingFields = <T extends object>(thing: T, fields: readonly string[] | null): T =>
  fields ? { ...Object.fromEntries(fields.map((name) => [name, null])), ...thing } : thing

/** Returns the fields of --fields in their order, or the whole row. */
export const pickFields = (row: object, fields: readonly string[] | null): object =>
  fields ? Object.fromEntries(fields.map((name) => [name, (row as Row)[name] ?? null])) : row

/** Returns a row of a list as JSON prints it. Throws Failure USAGE for an unknown field. */
export function jsonRow<T extends object>(row: T, { columns }: Shape<T>, options: Pick<RenderOptions, 'fields' | 'format'>): object {
  selectColumns([row], columns, options)
  return pickFields(row, options.fields)
}

const titleOf = ({ name, title }: Column): string => title ?? name.replace(/_at$/, '').toUpperCase()

const valuesOf = <T extends object>(rows: readonly (T & Row)[], columns: readonly Column<T>[]): unknown[][] =>
  rows.map((row) => columns.map(({ name, value }) => (value ? value(row) : row[name])))

/** Renders one object, one field per line. */
function renderObject<T extends object>(row: (T & Row) | undefined, columns: readonly Column<T>[], options: RenderOptions): string {
  const [values = []] = row ? valuesOf([row], columns) : []
  const lines = columns.map((column, index) => [options.isTerminal ? titleOf(column) : column.name, values[index]])
  return renderGrid(['KEY', 'VALUE'], lines, [], { ...options, header: options.header ?? (options.format === 'csv' ? null : false) })
}

function renderGrid(head: string[], rows: readonly (readonly unknown[])[], columns: readonly Column[], options: RenderOptions): string {
  const { format, isTerminal, width, color } = options
  const hasHeader = options.header ?? (format !== 'tsv' || isTerminal)
  const lines = hasHeader ? [head, ...rows] : rows
  if (format === 'csv') return formatCsv(lines)
  if (format === 'tsv') return lines.map((row) => `${row.map(formatCell).join('\t')}\n`).join('')
  if (rows.length === 0 && !hasHeader) return ''
  const right = columns.map(({ align }) => align === 'right')
  return renderTable(
    hasHeader ? head : null,
    rows.map((row) => row.map(formatCell)),
    { width, color, right },
  )
}
