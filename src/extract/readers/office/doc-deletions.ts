/** Deleted text of tracked changes in Word 97 documents, which is in the text and marked by a modifier of its characters. */
import { findFirstAfter, modifiersIn, propertyRuns } from './doc-paragraphs.ts'

/** Bytes of the stream. */
interface Range {
  start: number
  end: number
}

/** Maximum number of runs in a page. */
const maxRuns = 101
/** Code of the modifier (sprmCFRMarkDel). */
const deletionMark = 0x0800
/** Values of a modifier for yes, and for the opposite of the style, which never has the mark. */
const trueValues: ReadonlySet<number> = new Set([1, 0x81])

/**
 * Returns a function that overwrites the deleted characters of a text with NUL, except the ends of table cells. Its arguments are the text, its
 * position in the stream, and the number of bytes of each character.
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

/** Reads the properties of characters (ChpxFkp). */
function readDeletedRanges(document: Uint8Array, binTable: Uint8Array): Range[] {
  const ranges: Range[] = []
  for (const { start, end, page, offset } of propertyRuns(document, binTable, maxRuns, 1)) {
    // The size counts the bytes after its own.
    if (offset > 0 && hasDeletionMark(page.subarray(offset + 1, offset + 1 + page[offset]!))) ranges.push({ start, end })
  }
  return ranges
}

function hasDeletionMark(modifiers: Uint8Array): boolean {
  for (const { code, at } of modifiersIn(modifiers)) if (code === deletionMark) return trueValues.has(modifiers[at]!)
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
