/** Deleted text of tracked changes in Word 97 documents, which is in the text and marked by a modifier of its characters. */
import { modifiersIn } from './doc-paragraphs.ts'

/** Bytes of the stream. */
interface Range {
  start: number
  end: number
}

const pageBytes = 512
/** Maximum number of runs in a page. */
const maxRuns = 101
/** Code of the modifier (sprmCFRMarkDel). */
const deletionMark = 0x0800

/**
 * Returns a function that overwrites the deleted characters of a text with NUL, except the ends of table cells. `at`: position of the text in
 * the stream; `width`: bytes of each character.
 */
export function readDeletions(document: Uint8Array, binTable: Uint8Array): (text: string, at: number, width: number) => string {
  const ranges = mergeRanges(readDeletedRanges(document, binTable))
  return (text, at, width) => {
    let visible = ''
    let from = 0
    for (let i = findFirstAfter(ranges, at); i < ranges.length && from < text.length; i++) {
      const { start, end } = ranges[i]!
      const [first, last] = [Math.max(0, Math.ceil((start - at) / width)), Math.ceil((end - at) / width)]
      if (first >= text.length) break
      visible += text.slice(from, first) + eraseText(text.slice(first, last))
      from = last
    }
    return visible + text.slice(from)
  }
}

const eraseText = (text: string): string =>
  text
    .split('\x07')
    .map(({ length }) => '\0'.repeat(length))
    .join('\x07')

/** Reads the pages of character properties (ChpxFkp) that the table lists. */
function readDeletedRanges(document: Uint8Array, binTable: Uint8Array): Range[] {
  const table = new DataView(binTable.buffer, binTable.byteOffset, binTable.length)
  const view = new DataView(document.buffer, document.byteOffset, document.length)
  const ranges: Range[] = []
  const count = Math.min(Math.floor((binTable.length - 4) / 8), document.length / pageBytes)
  for (let i = 0; i < count; i++) {
    const page = (table.getUint32((count + 1) * 4 + i * 4, true) & 0x3fffff) * pageBytes
    if (page + pageBytes > document.length) continue
    const runCount = Math.min(document[page + pageBytes - 1]!, maxRuns)
    for (let run = 0; run < runCount; run++) {
      const at = page + document[page + (runCount + 1) * 4 + run]! * 2
      const isDeleted = at > page && hasDeletionMark(document.subarray(at + 1, Math.min(at + 1 + document[at]!, page + pageBytes)))
      if (isDeleted) ranges.push({ start: view.getUint32(page + run * 4, true), end: view.getUint32(page + run * 4 + 4, true) })
    }
  }
  return ranges
}

function hasDeletionMark(modifiers: Uint8Array): boolean {
  for (const { code, at } of modifiersIn(modifiers)) if (code === deletionMark) return modifiers[at] === 1
  return false
}

/** Returns the ranges in order, joined where they overlap. */
function mergeRanges(ranges: Range[]): Range[] {
  const merged: Range[] = []
  for (const range of ranges.sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1)
    if (last && range.start <= last.end) last.end = Math.max(last.end, range.end)
    else if (range.start < range.end) merged.push(range)
  }
  return merged
}

/** Returns the index of the first range that ends after a position. */
function findFirstAfter(ranges: readonly Range[], position: number): number {
  let low = 0
  let high = ranges.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (ranges[middle]!.end <= position) low = middle + 1
    else high = middle
  }
  return low
}
