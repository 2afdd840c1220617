/** Lists of Word documents: numbering.xml and the numbering of paragraph styles (ECMA-376 part 1, 17.9). */
import { walkXml } from '../../markup.ts'
import { createListCounters, type ListItem, type ListLevel } from './list-labels.ts'

type Levels = Map<number, ListLevel>
interface AbstractList {
  readonly levels: Levels
  /** Style that defines the list instead. */
  styleLink?: string
}
interface NumberedList {
  abstractId: string
  readonly overrides: Levels
  readonly starts: Map<number, number>
}
interface Numbering {
  /** w:numId */
  list?: string
  /** from 0 */
  level?: number
}
interface ParagraphStyle extends Numbering {
  basedOn?: string
}

/** Returns the label of a paragraph by its style and its own properties, which win; '' without a list. */
export type ListLabels = (paragraph: ParagraphNumbering) => string

export interface ParagraphNumbering extends Numbering {
  style?: string
}

export interface LabelledParagraphs {
  open(name: string, attributes: Record<string, string>): void
  close(name: string): void
  /** Whether the parser is in the properties of a paragraph. */
  readonly isInProperties: boolean
  /** Whether the paragraph that was closed last ends a line. If its mark is deleted in a tracked change, the next paragraph continues it. */
  readonly endsLine: boolean
  /** Returns the label of the current paragraph at the first call, then ''. */
  takeLabel(): string
}

interface OpenParagraph {
  /** Returns the label, and counts it. */
  label(): string
  isContinuation: boolean
  isMarkDeleted: boolean
  hasText: boolean
}

/** Follows the paragraphs of a part, which text boxes nest. */
export function followParagraphs(labels: ListLabels): LabelledParagraphs {
  const openParagraphs: OpenParagraph[] = []
  let numbering: ParagraphNumbering = {}
  let propertiesDepth = 0
  let closed: OpenParagraph | undefined
  return {
    open(name, attributes) {
      const value = attributes['w:val'] ?? ''
      const paragraph = openParagraphs.at(-1)
      if (name === 'w:p') {
        const isContinuation = closed?.isMarkDeleted === true && (closed.hasText || closed.isContinuation)
        openParagraphs.push({ label: () => '', isContinuation, isMarkDeleted: false, hasText: false })
      } else if (name === 'w:pPr') {
        // The former properties (w:pPrChange) are inside of the current ones.
        if (propertiesDepth++ === 0) numbering = {}
      } else if (propertiesDepth !== 1) return
      else if (name === 'w:pStyle') numbering.style = value
      else if (name === 'w:numId') numbering.list = value
      else if (name === 'w:ilvl') numbering.level = Number(value)
      else if (paragraph && (name === 'w:del' || name === 'w:moveFrom')) paragraph.isMarkDeleted = true
    },
    close(name) {
      if (name === 'w:p') closed = openParagraphs.pop()
      if (name !== 'w:pPr' || --propertiesDepth > 0) return
      const paragraph = openParagraphs.at(-1)
      if (!paragraph || paragraph.isContinuation) return
      const own = numbering
      // A deleted item counts only if text is left.
      const label = paragraph.isMarkDeleted ? null : labels(own)
      paragraph.label = () => label ?? labels(own)
    },
    get isInProperties() {
      return propertiesDepth > 0
    },
    get endsLine() {
      return !closed?.isMarkDeleted
    },
    takeLabel() {
      const paragraph = openParagraphs.at(-1)
      if (!paragraph || paragraph.hasText) return ''
      paragraph.hasText = true
      return paragraph.label()
    },
  }
}

/** Returns a function that numbers the paragraphs of a document, which it takes in their order. Both parts may be empty. */
export function readListLabels(numberingXml: string, stylesXml: string): ListLabels {
  const { abstracts, lists } = readNumbering(numberingXml)
  const styles = readStyles(stylesXml)
  const nextLabel = createListCounters()

  function numberingOfStyle(id: string | undefined): Numbering {
    const found: Numbering = {}
    const visited = new Set<string>()
    for (let at = id; at !== undefined && !visited.has(at); at = styles.get(at)?.basedOn) {
      visited.add(at)
      const { list, level } = styles.get(at) ?? {}
      if (list !== undefined) found.list ??= list
      if (level !== undefined) found.level ??= level
    }
    return found
  }

  function resolveAbstract(id: string): AbstractList | undefined {
    const abstract = abstracts.get(id)
    const linked = abstract?.styleLink && lists.get(styles.get(abstract.styleLink)?.list ?? '')
    return (linked && abstracts.get(linked.abstractId)) || abstract
  }

  const resolved = new Map<string, Omit<ListItem, 'level'>>()
  function resolveList(id: string): Omit<ListItem, 'level'> | null {
    const numbered = lists.get(id)
    if (!numbered) return null
    const known = resolved.get(id)
    if (known) return known
    const levels = new Map([...(resolveAbstract(numbered.abstractId)?.levels ?? []), ...numbered.overrides])
    const list = { list: numbered.abstractId, levels, overrides: { key: id, starts: numbered.starts } }
    resolved.set(id, list)
    return list
  }

  return ({ style, list, level }) => {
    const inherited = list !== undefined && level !== undefined ? {} : numberingOfStyle(style)
    const item = resolveList(list ?? inherited.list ?? '')
    return item ? nextLabel({ ...item, level: level ?? inherited.level ?? 0 }) : ''
  }
}

function readNumbering(xml: string): { abstracts: Map<string, AbstractList>; lists: Map<string, NumberedList> } {
  const abstracts = new Map<string, AbstractList>()
  const lists = new Map<string, NumberedList>()
  let abstract: AbstractList | undefined
  let list: NumberedList | undefined
  let override = 0
  let level: MutableLevel | undefined
  walkXml(xml, {
    open(name, attributes) {
      const value = attributes['w:val'] ?? ''
      if (name === 'w:abstractNum') {
        abstract = { levels: new Map() }
        abstracts.set(attributes['w:abstractNumId'] ?? '', abstract)
      } else if (name === 'w:num') {
        abstract = undefined
        list = { abstractId: '', overrides: new Map(), starts: new Map() }
        lists.set(attributes['w:numId'] ?? '', list)
      } else if (name === 'w:abstractNumId' && list) list.abstractId = value
      else if (name === 'w:numStyleLink' && abstract) abstract.styleLink = value
      else if (name === 'w:lvlOverride') override = Number(attributes['w:ilvl'])
      else if (name === 'w:startOverride' && list) list.starts.set(override, Number(value) || 0)
      else if (name === 'w:lvl') {
        // The default of the start is 0.
        level = { start: 0, format: 'decimal', text: '' }
        const levels = abstract?.levels ?? list?.overrides
        levels?.set(Number(attributes['w:ilvl']), level)
      } else if (level) setLevelProperty(level, name, value)
    },
    close(name) {
      if (name === 'w:lvl') level = undefined
    },
  })
  return { abstracts, lists }
}

type MutableLevel = { -readonly [Key in keyof ListLevel]: ListLevel[Key] }

function setLevelProperty(level: MutableLevel, name: string, value: string): void {
  if (name === 'w:start') level.start = Number(value) || 0
  else if (name === 'w:numFmt') level.format = value
  else if (name === 'w:lvlText') level.text = value
  else if (name === 'w:lvlRestart') level.restartAfter = Number(value)
  else if (name === 'w:isLgl') level.isLegal = !/^(0|false|off)$/.test(value)
}

function readStyles(xml: string): Map<string, ParagraphStyle> {
  const styles = new Map<string, ParagraphStyle>()
  let style: ParagraphStyle = {}
  walkXml(xml, {
    open(name, attributes) {
      const value = attributes['w:val'] ?? ''
      if (name === 'w:style') {
        style = {}
        styles.set(attributes['w:styleId'] ?? '', style)
      } else if (name === 'w:basedOn') style.basedOn = value
      else if (name === 'w:numId') style.list = value
      else if (name === 'w:ilvl') style.level = Number(value)
    },
  })
  return styles
}
