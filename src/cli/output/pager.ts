/** Wrapping of text pages for a terminal. */
import { wrapText } from './output.ts'

/** Maximum columns of a readable line. */
const maxWidth = 120
/** A first column wider than this share of the line gets a line of its own. */
const maxFirstShare = 0.6
const indentColumns = 6

/**
 * Wraps a page to `width` columns (Infinity: unchanged). Wraps paragraphs and the second of two columns. Keeps lines that are
 * indented by four spaces.
 */
export function wrapPage(page: string, width: number): string {
  if (width === Number.POSITIVE_INFINITY) return page
  const lineWidth = Math.min(width, maxWidth)
  const blocks = page.trimEnd().split('\n\n')
  return `${blocks.map((block) => (block.startsWith(' ') ? rows(block, lineWidth) : wrapText(block.replaceAll('\n', ' '), lineWidth, 0))).join('\n\n')}\n`
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
  if (first.length <= width * maxFirstShare) return first + indented(second, width, first.length)
  return `  ${indented(first.trim(), width, 2)}\n${' '.repeat(indentColumns)}${indented(second, width, indentColumns)}`
}

/** Wraps text behind a margin that the first line already has. */
const indented = (text: string, width: number, margin: number): string =>
  wrapText(text, width - margin, 0).replaceAll('\n', `\n${' '.repeat(margin)}`)
