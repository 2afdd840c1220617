/** Lists of OpenDocument texts: list styles and numbered headings (OpenDocument 1.3 part 3, 5.3 and 16.30). */
import { walkXml } from '../../markup.ts'
import { createListCounters, type ListLevel } from './list-labels.ts'

type Levels = Map<number, ListLevel>

const formats: Readonly<Record<string, string>> = { 1: 'decimal', a: 'lowerLetter', A: 'upperLetter', i: 'lowerRoman', I: 'upperRoman' }
const outline = ' outline'

/** Reads the list styles of parts. */
export function readListStyles(parts: readonly string[]): ReadonlyMap<string, Levels> {
  const styles = new Map<string, Levels>()
  let levels: Levels = new Map()
  for (const xml of parts)
    walkXml(xml, {
      open(name, attributes) {
        if (name === 'text:list-style' || name === 'text:outline-style') {
          levels = new Map()
          styles.set(name === 'text:list-style' ? (attributes['style:name'] ?? '') : outline, levels)
        } else if (name === 'text:list-level-style-number' || name === 'text:outline-level-style') addLevel(levels, attributes)
      },
    })
  return styles
}

function addLevel(levels: Levels, attributes: Record<string, string>): void {
  const level = Number(attributes['text:level'])
  const format = formats[attributes['style:num-format'] ?? '']
  // Without a format there is no number.
  if (!format) return
  const shown = Math.min(Number(attributes['text:display-levels'] ?? 1) || 1, level)
  const numbers = Array.from({ length: shown }, (_, i) => `%${level - shown + 1 + i}`).join('.')
  const text = `${attributes['style:num-prefix'] ?? ''}${numbers}${attributes['style:num-suffix'] ?? ''}`
  levels.set(level - 1, { start: Number(attributes['text:start-value'] ?? 1) || 0, format, text })
}

export interface OdfLists {
  open(name: string, attributes: Record<string, string>): void
  close(name: string): void
  /** Returns the label of the current paragraph at the first call, then ''. */
  takeLabel(): string
}

/** Follows the lists and headings of a text. */
export function followLists(styles: ReadonlyMap<string, Levels>): OdfLists {
  const nextLabel = createListCounters()
  const open: { style: string; key: string }[] = []
  const lastKeys = new Map<string, string>()
  let count = 0
  let label = ''
  const labelOf = (style: string, key: string, level: number, start?: string): void => {
    const levels = styles.get(style)
    const starts = new Map(start === undefined ? [] : [[level, Number(start) || 0]])
    label = levels ? nextLabel({ list: key, levels, level, overrides: { key: String(count++), starts } }) : ''
  }
  return {
    open(name, attributes) {
      if (name === 'text:list') {
        const outer = open.at(-1)
        const style = attributes['text:style-name'] ?? outer?.style ?? ''
        const isContinued = attributes['text:continue-numbering'] === 'true' || attributes['text:continue-list'] !== undefined
        const key = outer?.key ?? (isContinued ? lastKeys.get(style) : undefined) ?? `list ${count++}`
        lastKeys.set(style, key)
        open.push({ style, key })
      } else if (name === 'text:list-item') {
        const list = open.at(-1)
        if (list) labelOf(list.style, list.key, open.length - 1, attributes['text:start-value'])
      } else if (name === 'text:h' && open.length === 0 && attributes['text:is-list-header'] !== 'true')
        labelOf(outline, outline, Number(attributes['text:outline-level'] ?? 1) - 1)
    },
    close(name) {
      if (name === 'text:list') open.pop()
      if (name === 'text:list-item' || name === 'text:h') label = ''
    },
    takeLabel() {
      const taken = label
      label = ''
      return taken
    },
  }
}
