/** Pages of text on a terminal. */
import { wrapText } from './output.ts'

/** Columns: longer lines are hard to read, however wide the terminal is. */
const widest = 120
/** Of a line: a first column that takes more of it stands alone, and what belongs to it below. */
const widestFirst = 0.6
const far = 6

/**
 * The page in lines of at most `width` columns (Infinity: as it is). Paragraphs are wrapped, and so is the second of two columns; what stands
 * behind four spaces is there to be copied and stays whole.
 */
export function wrapPage(page: string, width: number): string {
  if (width === Number.POSITIVE_INFINITY) return page
  const most = Math.min(width, widest)
  const blocks = page.trimEnd().split('\n\n')
  return `${blocks.map((block) => (block.startsWith(' ') ? rows(block, most) : wrapText(block.replaceAll('\n', ' '), most, 0))).join('\n\n')}\n`
}

const rows = (block: string, width: number): string =>
  block.startsWith('    ')
    ? block
    : block
        .split('\n')
        .map((line) => row(line, width))
        .join('\n')

function row(line: string, width: number): string {
  const [, first = '', second = ''] = /^(\s*\S.*\s{2,})(\S.*)$/.exec(line) ?? []
  if (second === '') return line
  if (first.length <= width * widestFirst) return first + indented(second, width, first.length)
  return `  ${indented(first.trim(), width, 2)}\n${' '.repeat(far)}${indented(second, width, far)}`
}

/** Wrapped behind a margin, which the first line has already. */
const indented = (text: string, width: number, margin: number): string =>
  wrapText(text, width - margin, 0).replaceAll('\n', `\n${' '.repeat(margin)}`)
