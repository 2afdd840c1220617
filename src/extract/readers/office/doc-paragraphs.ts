/** Properties of the paragraphs of Word 97 documents: list and row end. They are set by modifiers of the paragraph and of its style. */
import { viewOf } from '../../bytes.ts'

export interface ParagraphProperties {
  /** number of the list override (sprmPIlfo), 0 without a list */
  list?: number
  level?: number
  isRowEnd?: boolean
}

interface Run extends ParagraphProperties {
  start: number
  end: number
  style: number
}

const pageBytes = 512
const maxStyleDepth = 12

/** Returns a function from the position of the end mark of a paragraph in the stream to its properties. */
export function readParagraphProperties(document: Uint8Array, binTable: Uint8Array, styleSheet: Uint8Array) {
  const runs = readRuns(document, binTable).sort((a, b) => a.start - b.start)
  const styles = readStyles(styleSheet)
  return (position: number): ParagraphProperties => {
    const run = runs[findFirstAfter(runs, position)]
    return run && run.start <= position ? { ...styles(run.style), ...run } : {}
  }
}

/** Returns the index of the first of the sorted ranges that ends after a position. */
export function findFirstAfter(ranges: readonly { end: number }[], position: number): number {
  let low = 0
  let high = ranges.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (ranges[middle]!.end <= position) low = middle + 1
    else high = middle
  }
  return low
}

/** A run of text with the same properties, from `start` to `end` in the stream. */
interface PropertyRun {
  start: number
  end: number
  /** page of properties, and the position of those of the run in it; 0: none */
  page: Uint8Array
  offset: number
}

/**
 * Yields the runs in the pages of properties (Fkp) that the table lists. `maxRuns`: largest number of runs in a page. `entryBytes`: bytes of each
 * entry that refers to properties.
 */
export function* propertyRuns(document: Uint8Array, binTable: Uint8Array, maxRuns: number, entryBytes: number): Generator<PropertyRun> {
  const table = viewOf(binTable)
  const count = Math.min(Math.floor((binTable.length - 4) / 8), document.length / pageBytes)
  for (let i = 0; i < count; i++) {
    const at = (table.getUint32((count + 1) * 4 + i * 4, true) & 0x3fffff) * pageBytes
    if (at + pageBytes > document.length) continue
    const page = document.subarray(at, at + pageBytes)
    const view = viewOf(page)
    const runCount = Math.min(page[pageBytes - 1]!, maxRuns)
    for (let run = 0; run < runCount; run++) {
      const [start, end] = [view.getUint32(run * 4, true), view.getUint32(run * 4 + 4, true)]
      yield { start, end, page, offset: page[(runCount + 1) * 4 + run * entryBytes]! * 2 }
    }
  }
}

/** Reads the properties of paragraphs (PapxFkp). */
function readRuns(document: Uint8Array, binTable: Uint8Array): Run[] {
  const runs: Run[] = []
  for (const { start, end, page, offset } of propertyRuns(document, binTable, 29, 13)) {
    if (offset === 0 || offset >= pageBytes - 3) {
      runs.push({ start, end, style: 0 })
      continue
    }
    // The size in words counts its own byte unless it is 0; then it follows in the next byte.
    const isLong = page[offset] === 0
    const from = isLong ? offset + 2 : offset + 1
    const to = isLong ? from + page[offset + 1]! * 2 : offset + page[offset]! * 2
    runs.push({ start, end, style: viewOf(page).getUint16(from, true), ...readModifiers(page.subarray(from + 2, to)) })
  }
  return runs
}

/** Bytes of operands by the upper three bits of the code; 0: the operand begins with its length. */
const operandBytes = [1, 1, 2, 4, 2, 2, 0, 3]

/** Yields the modifiers (Sprm): the code of each and the position of its operand. */
export function* modifiersIn(bytes: Uint8Array): Generator<{ code: number; at: number }> {
  const view = viewOf(bytes)
  for (let at = 0; at + 3 <= bytes.length; ) {
    const code = view.getUint16(at, true)
    at += 2
    yield { code, at }
    // The length of a table definition has two bytes.
    if (code === 0xd608) at += 1 + (bytes[at]! | ((bytes[at + 1] ?? 0) << 8))
    else at += operandBytes[code >> 13] || 1 + bytes[at]!
  }
}

/** Reads the modifiers that matter. */
function readModifiers(bytes: Uint8Array): ParagraphProperties {
  const found: ParagraphProperties = {}
  for (const { code, at } of modifiersIn(bytes)) {
    if (code === 0x460b && at + 2 <= bytes.length) found.list = viewOf(bytes).getInt16(at, true)
    else if (code === 0x260a) found.level = bytes[at]!
    else if (code === 0x2417) found.isRowEnd = bytes[at] === 1
  }
  return found
}

interface Style extends ParagraphProperties {
  base: number
}

/** Reads the lists of paragraph styles. Returns the properties of a style with those that it inherits. */
function readStyles(bytes: Uint8Array): (style: number) => ParagraphProperties {
  const styles: Style[] = []
  const view = viewOf(bytes)
  const headerBytes = bytes.length >= 6 ? view.getUint16(0, true) : 0
  const baseBytes = headerBytes >= 4 ? view.getUint16(4, true) : 0
  for (let at = 2 + headerBytes; at + 2 <= bytes.length && styles.length < 4096; ) {
    const size = view.getUint16(at, true)
    styles.push(readStyle(bytes.subarray(at + 2, at + 2 + size), baseBytes))
    at += 2 + size
  }
  return (number) => {
    const found: ParagraphProperties = {}
    let style = styles[number]
    for (let depth = 0; style && depth < maxStyleDepth; depth++) {
      if (style.list !== undefined) found.list ??= style.list
      if (style.level !== undefined) found.level ??= style.level
      style = styles[style.base]
    }
    return found
  }
}

function readStyle(bytes: Uint8Array, baseBytes: number): Style {
  const view = viewOf(bytes)
  if (bytes.length < baseBytes + 4 || baseBytes < 10) return { base: 0xfff }
  const isParagraphStyle = (view.getUint16(2, true) & 15) === 1
  const base = view.getUint16(2, true) >> 4
  // The name ends with a zero.
  const at = baseBytes + 2 + view.getUint16(baseBytes, true) * 2 + 2
  if (!isParagraphStyle || at + 4 > bytes.length) return { base }
  const size = view.getUint16(at, true)
  return { base, ...readModifiers(bytes.subarray(at + 4, at + 2 + size)) }
}
