/** Wrapping of text pages for a terminal. */
import { wrapText } from './output.ts'

/** Columns: longer lines are hard to read. */
const widest = 120
/** A first column wider than this share of the line gets a line of its own. */
const widestFirst = 0.6
const far = 6

/**
 * Wraps a page to `width` columns (Infinity: unchanged). Wraps paragraphs and the second of two columns. Keeps lines that are
 * indented by four spaces.
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

/** Wraps text behind a margin that the first line already has. */
const indented = (text: string, width: number, margin: number): string =>
  wrapText(text, width - margin, 0).replaceAll('\n', `\n${' '.repeat(margin)}`)
