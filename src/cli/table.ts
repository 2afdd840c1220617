/** Rows side by side for people: no borders, and no line wider than the terminal. */
import { createRequire } from 'node:module'
import { stripVTControlCharacters, styleText } from 'node:util'
import type CliTable3 from 'cli-table3'

const gap = 2
/** What is left of a column, and what of one among so many that nothing else would fit: a sign and the ellipsis. */
const narrowest = [4, 2] as const

let segmenter: Intl.Segmenter | undefined
/** Made when a text needs it first: to load its data takes longer than the rest of a command that prints none. */
function graphemes(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  return segmenter.segment(text)
}
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u

/** Columns that a text takes on a terminal. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes(stripVTControlCharacters(text))) width += wide.test(segment) ? 2 : 1
  return width
}

export interface TableOptions {
  /** columns of the terminal; Infinity where nothing has to fit */
  readonly width: number
  readonly color: boolean
  readonly right: readonly boolean[]
}

/** Lines of a table; `head` is null for none. Cells are taken as they are: one line each, made safe before. */
export function table(head: readonly string[] | null, rows: readonly (readonly string[])[], { width, color, right }: TableOptions): string {
  // Loaded here, not at the top: most runs print no table. It colours head and borders even into pipes unless told not to.
  const Table = createRequire(import.meta.url)('cli-table3') as typeof CliTable3
  const all = head ? [head, ...rows] : rows
  const widths = squeezed(naturalWidths(all), width)
  const last = widths.length - 1
  const lines = new Table({
    chars: borderless,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
    colAligns: widths.map((_, index) => (right[index] ? 'right' : 'left')),
    colWidths: widths.map((each, index) => (index < last ? each + gap : each)),
  })
  lines.push(...all.map((row) => row.map((content, index) => ({ content, style: { 'padding-right': index < last ? gap : 0 } }))))
  const drawn = lines
    .toString()
    .split('\n')
    .map((line) => cut(line.trimEnd(), width))
  if (head && color) drawn[0] = styleText('bold', drawn[0] ?? '', { validateStream: false })
  return `${drawn.join('\n')}\n`
}

const borderless = Object.fromEntries(
  [
    'top',
    'top-mid',
    'top-left',
    'top-right',
    'bottom',
    'bottom-mid',
    'bottom-left',
    'bottom-right',
    'left',
    'left-mid',
    'mid',
    'mid-mid',
    'right',
    'right-mid',
    'middle',
  ].map((name) => [name, '']),
)

function naturalWidths(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = []
  for (const row of rows) for (const [index, text] of row.entries()) widths[index] = Math.max(widths[index] ?? 1, displayWidth(text))
  return widths
}

/** Takes from the widest column until everything fits, but leaves each some characters. */
function squeezed(natural: readonly number[], width: number): number[] {
  const widths = [...natural]
  const room = width - gap * (widths.length - 1)
  let excess = widths.reduce((sum, each) => sum + each, 0) - room
  for (const floor of narrowest) {
    while (excess > 0) {
      const widest = Math.max(...widths)
      if (widest <= floor) break
      const second = Math.max(floor, ...widths.filter((each) => each < widest))
      const index = widths.indexOf(widest)
      const others = widths.filter((each) => each === widest).length
      const take = others > 1 ? 1 : Math.min(excess, Math.max(1, widest - second))
      widths[index] = widest - take
      excess -= take
    }
  }
  return widths
}

/** The text in at most `width` columns, with an ellipsis where something is missing. */
function cut(text: string, width: number): string {
  if (displayWidth(text) <= width) return text
  let kept = ''
  let used = 0
  for (const { segment } of graphemes(text)) {
    used += displayWidth(segment)
    if (used > width - 1) break
    kept += segment
  }
  return `${kept}…`
}
