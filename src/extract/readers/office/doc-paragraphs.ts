/** Properties of the paragraphs of Word 97 documents: list and row end. They are set by modifiers of the paragraph and of its style. */

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
    let low = 0
    let high = runs.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (runs[middle]!.end <= position) low = middle + 1
      else high = middle
    }
    const run = runs[low]
    return run && run.start <= position ? { ...styles(run.style), ...run } : {}
  }
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length)

/** Reads the pages of paragraph properties (PapxFkp) that the table lists. */
function readRuns(document: Uint8Array, binTable: Uint8Array): Run[] {
  const table = viewOf(binTable)
  const view = viewOf(document)
  const runs: Run[] = []
  const count = Math.min(Math.floor((binTable.length - 4) / 8), document.length / pageBytes)
  for (let i = 0; i < count; i++) {
    const page = (table.getUint32((count + 1) * 4 + i * 4, true) & 0x3fffff) * pageBytes
    if (page + pageBytes > document.length) continue
    const runCount = Math.min(document[page + pageBytes - 1]!, 29)
    for (let run = 0; run < runCount; run++) {
      const offset = document[page + (runCount + 1) * 4 + run * 13]! * 2
      const [start, end] = [view.getUint32(page + run * 4, true), view.getUint32(page + run * 4 + 4, true)]
      if (offset === 0 || offset >= pageBytes - 3) {
        runs.push({ start, end, style: 0 })
        continue
      }
      const at = page + offset
      // The size in words counts its own byte unless it is 0; then it follows in the next byte.
      const isLong = document[at] === 0
      const from = isLong ? at + 2 : at + 1
      const to = Math.min(isLong ? from + document[at + 1]! * 2 : at + document[at]! * 2, page + pageBytes)
      runs.push({ start, end, style: view.getUint16(from, true), ...readModifiers(document.subarray(from + 2, to)) })
    }
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
