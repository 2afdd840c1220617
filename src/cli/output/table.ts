/** Tables without borders that fit the width of the terminal. */
import { createRequire } from 'node:module'
import { stripVTControlCharacters, styleText } from 'node:util'
import type CliTable3 from 'cli-table3'
import { isId } from '../../id.ts'

const gap = 2
/** Width to which texts are cut before times lose their time of day. */
const readable = 10
/** Minimum width of a column: usually, and in tables with too many columns. */
const [narrow, narrowest] = [4, 2]

let segmenter: Intl.Segmenter | undefined
/** Created lazily: loading its data takes longer than most commands. */
function graphemes(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  return segmenter.segment(text)
}
const wide =
  /\p{Emoji_Presentation}|\p{Emoji}\ufe0f|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u
/** Matches characters without a column of their own, as wcwidth() of glibc does. */
const zeroWidth = /[\p{Mn}\p{Me}\p{Cf}]/gu

/** Returns the number of terminal columns of a text. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes(stripVTControlCharacters(text)))
    width += wide.test(segment) ? 2 : [...segment.replaceAll(zeroWidth, '')].length
  return width
}

export interface TableOptions {
  /** columns of the terminal; Infinity: unlimited */
  readonly width: number
  readonly color: boolean
  readonly right: readonly boolean[]
}

/** Renders a table; `head` is null for none. Cells must be single lines without control characters. */
export function renderTable(
  head: readonly string[] | null,
  rows: readonly (readonly string[])[],
  { width, color, right }: TableOptions,
): string {
  // Imported lazily. Empty `head` and `border` styles disable its colours, which ignore pipes.
  const Table = createRequire(import.meta.url)('cli-table3') as typeof CliTable3
  const { all, widths } = fitColumns(head, rows, width, right)
  const last = widths.length - 1
  const lines = new Table({
    chars: borderless,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
    colAligns: widths.map((_, index) => (right[index] ? 'right' : 'left')),
    colWidths: widths.map((each, index) => (index < last ? each + gap : each)),
  })
  const cells = all.map((row) => row.map((text, index) => truncate(text, widths[index] as number)))
  // It counts a column for each mark of a Thai, Hebrew or Indic letter, and would cut such texts: it draws an x for each column of them.
  for (const row of cells)
    lines.push(row.map((text, index) => ({ content: 'x'.repeat(displayWidth(text)), style: { 'padding-right': index < last ? gap : 0 } })))
  const texts = cells
    .flat()
    .filter((text) => displayWidth(text) > 0)
    .values()
  const drawn = lines
    .toString()
    .replace(/x+/g, () => texts.next().value as string)
    .split('\n')
    .map((line) => truncate(line.trimEnd(), width))
  if (head && color) drawn[0] = styleText('bold', drawn[0] ?? '', { validateStream: false })
  return `${drawn.join('\n')}\n`
}

const borderless = Object.fromEntries(
  'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid middle'
    .split(' ')
    .map((name) => [name, '']),
)

function naturalWidths(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = []
  for (const row of rows) for (const [index, text] of row.entries()) widths[index] = Math.max(widths[index] ?? 1, displayWidth(text))
  return widths
}

/**
 * Shortens cells until the table fits. First times lose their seconds, then texts are cut, times become dates, and numbers are cut. Ids are cut last,
 * because a part of an id is useless.
 */
function fitColumns(
  head: readonly string[] | null,
  rows: readonly (readonly string[])[],
  width: number,
  right: readonly boolean[],
): { all: (readonly string[])[]; widths: number[] } {
  const withTimes = (shown: string) => {
    const body = rows.map((row) => row.map((text, index) => (kinds[index] === 'time' ? text.replace(time, shown) : text)))
    return head ? [head, ...body] : body
  }
  let all: (readonly string[])[] = head ? [head, ...rows] : [...rows]
  let widths = naturalWidths(all)
  const room = width - gap * (widths.length - 1)
  const kinds = shortenIds(
    widths.map((_, index) => kindOf(rows, index, right[index] === true)),
    widths,
    room,
  )
  const squeeze = (floor: number, ...selected: Kind[]) =>
    shrinkWidest(
      widths,
      room,
      floor,
      widths.keys().filter((index) => selected.includes(kinds[index] as Kind)),
    )
  const shorten = (shown: string) => {
    if (sumOf(widths) <= room) return
    all = withTimes(shown)
    widths = naturalWidths(all).map((each, index) => (kinds[index] === 'time' ? each : (widths[index] ?? each)))
  }
  shorten('$1$2Z')
  squeeze(narrowest, 'nothing')
  squeeze(readable, 'text')
  shorten('$1')
  squeeze(narrow, 'text')
  squeeze(narrow, 'text', 'number')
  squeeze(narrow, 'text', 'number', 'time')
  squeeze(narrowest, 'text', 'number', 'time', 'id')
  return { all, widths }
}

type Kind = 'nothing' | 'id' | 'time' | 'number' | 'text'

const time = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d):\d\d(?:\.\d+)?Z$/

function kindOf(rows: readonly (readonly string[])[], index: number, isRight: boolean): Kind {
  const texts = rows.map((row) => row[index] ?? '').filter((text) => text !== '')
  if (texts.length === 0) return 'nothing'
  if (texts.every(isId)) return 'id'
  return texts.every((text) => time.test(text)) ? 'time' : isRight ? 'number' : 'text'
}

/** Treats ids as texts if they do not fit: first all but the first column of ids, then all. */
function shortenIds(kinds: readonly Kind[], natural: readonly number[], room: number): Kind[] {
  const minWidths = { nothing: narrowest, text: narrow, time: readable, id: Number.POSITIVE_INFINITY, number: Number.POSITIVE_INFINITY }
  const firstId = kinds.indexOf('id')
  const fits = (option: readonly Kind[]) => sumOf(natural.map((width, index) => Math.min(width, minWidths[option[index] as Kind]))) <= room
  const onlyFirstId = kinds.map((kind, index) => (kind === 'id' && index !== firstId ? 'text' : kind))
  const noIds = kinds.map((kind) => (kind === 'id' ? 'text' : kind))
  return [[...kinds], onlyFirstId].find(fits) ?? noIds
}

const sumOf = (widths: readonly number[]): number => widths.reduce((sum, each) => sum + each, 0)

/** Shrinks the widest of the columns until the table fits or all have the width `floor`. */
function shrinkWidest(widths: number[], room: number, floor: number, columns: Iterable<number>): void {
  const indices = [...columns]
  for (let excess = sumOf(widths) - room; excess > 0; excess--) {
    const widest = Math.max(...indices.map((index) => widths[index] as number))
    if (widest <= floor) return
    widths[indices.find((index) => widths[index] === widest) as number] = widest - 1
  }
}

/** Cuts a text to `width` columns, with an ellipsis. */
function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text
  let start = ''
  let used = 0
  for (const { segment } of graphemes(text)) {
    used += displayWidth(segment)
    if (used > width - 1) break
    start += segment
  }
  return `${start}…`
}
