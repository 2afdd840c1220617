/** The text of a page as invisible text at the places of its words, for searching and copying. */
import type { WordRow } from '../../ports/document-reader.ts'
import { advance, fontName, type GlyphlessFont } from './glyphless-font.ts'

const boxUnits = 10_000
/** Units of the text per point. */
const perPoint = 4
/** Steps of the horizontal scaling, in percent, and of moves, in thousandths: the fewer different numbers, the better they are compressed. */
const [stretchStep, moveStep] = [4, 20]
/** Characters that are written from right to left. */
const rightToLeft = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u
/** Share of the height that two words of a line overlap. */
const minOverlap = 0.5

/** A word in a frame whose x axis is the direction of the text; y points down. */
interface PlacedWord {
  readonly text: string
  readonly x: number
  readonly bottom: number
  readonly width: number
  readonly height: number
}

/**
 * Returns the operators for a page of `width` × `height` points, in Latin-1. `angle`: direction of the lines, clockwise in degrees. Words keep their order.
 */
export function invisibleText(font: GlyphlessFont, words: readonly WordRow[], width: number, height: number, angle: number): string {
  const [cos, sin] = [Math.cos((angle * Math.PI) / 180), Math.sin((angle * Math.PI) / 180)]
  const placed = words.flatMap((word) => place(word, width, height, cos, sin))
  if (placed.length === 0) return ''
  const lines = joinLines(placed).map((line) => {
    const bottom = Math.round(median(line.map((word) => word.bottom)))
    const size = Math.max(1, Math.round(median(line.map((word) => word.height))))
    const start = Math.round(line[0]!.x)
    // From the frame of the text to that of the page, whose y axis points up.
    const [x, y] = [start * cos - bottom * sin, height * perPoint - (start * sin + bottom * cos)]
    const matrix = angle === 0 ? '1 0 0 1' : [cos, -sin, sin, cos].map((number) => number.toFixed(5)).join(' ')
    return `/${fontName} ${size} Tf ${matrix} ${x.toFixed(0)} ${y.toFixed(0)} Tm\n${showLine(font, line, start, size)}`
  })
  return `q ${1 / perPoint} 0 0 ${1 / perPoint} 0 0 cm BT 3 Tr\n${lines.join('\n')}\nET Q\n`
}

/** Returns the operators that show the words of a line of this font size from `start`. */
function showLine(font: GlyphlessFont, line: readonly PlacedWord[], start: number, size: number): string {
  let shown = ''
  let at = start
  let current = 0
  for (const [i, word] of line.entries()) {
    const isLast = i === line.length - 1
    const { string, length } = font.encode(`${word.text}${isLast ? '' : ' '}`)
    const count = Math.max(1, length - (isLast ? 0 : 1))
    const exact = (100 * word.width) / (count * advance * size)
    const stretch = Math.max(1, Math.round(exact / stretchStep) * stretchStep)
    if (stretch !== current) shown += `${current === 0 ? '' : ']TJ\n'}${stretch} Tz[`
    current = stretch
    // TJ moves to the left, in thousandths of the stretched font size.
    const thousandth = (size * stretch) / 100_000
    const move = Math.round((at - word.x) / thousandth / moveStep) * moveStep
    shown += `${i === 0 || move === 0 ? '' : move}${string}`
    at += (length * advance * 1000 - (i === 0 ? 0 : move)) * thousandth
  }
  return `${shown}]TJ`
}

/** Returns the word in the frame of the text; none for an empty word. The upright box of a tilted word is larger than the word. */
function place(
  [raw, , left, top, boxWidth, boxHeight]: WordRow,
  pageWidth: number,
  pageHeight: number,
  cos: number,
  sin: number,
): PlacedWord[] {
  // Control characters, and those that PDF/A forbids in Unicode maps.
  const text = raw.normalize('NFC').replace(/[\p{Cc}\p{Cs}\p{Cn}\uFEFF]/gu, '')
  if (text === '') return []
  const scaleX = (pageWidth * perPoint) / boxUnits
  const scaleY = (pageHeight * perPoint) / boxUnits
  const [w, h] = [Math.max(1, boxWidth * scaleX), Math.max(1, boxHeight * scaleY)]
  const [centerX, centerY] = [left * scaleX + w / 2, top * scaleY + h / 2]
  // w = width·|cos| + height·|sin|, h = width·|sin| + height·|cos|, solved unless the text is nearly diagonal.
  const [c, s] = [Math.abs(cos), Math.abs(sin)]
  const determinant = c * c - s * s
  const isSolvable = Math.abs(determinant) > 0.2
  const solved = isSolvable ? [(w * c - h * s) / determinant, (h * c - w * s) / determinant] : [w, h]
  const width = Math.max(1, solved[0]!)
  const height = Math.max((isSolvable && s > c ? w : h) * 0.3, solved[1]!)
  const [x, y] = [centerX * cos + centerY * sin, centerY * cos - centerX * sin]
  return [{ text: rightToLeft.test(text) ? reverse(text) : text, x: x - width / 2, bottom: y + height / 2, width, height }]
}

/** Reverses a right-to-left word, since a PDF shows text from left to right. Combining marks stay with their letters. */
const reverse = (text: string): string =>
  Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment)
    .reverse()
    .join('')

/** Joins successive words that follow each other at the same height. */
function joinLines(words: readonly PlacedWord[]): PlacedWord[][] {
  const lines: PlacedWord[][] = []
  for (const word of words) {
    const last = lines.at(-1)?.at(-1)
    const overlap = last ? Math.min(last.bottom, word.bottom) - Math.max(last.bottom - last.height, word.bottom - word.height) : 0
    const isSame = last && word.x >= last.x + last.width * 0.5 && overlap >= minOverlap * Math.min(last.height, word.height)
    if (isSame && isSimilar(last.height, word.height)) lines.at(-1)!.push(word)
    else lines.push([word])
  }
  return lines
}

const isSimilar = (a: number, b: number): boolean => Math.max(a, b) <= 2.5 * Math.min(a, b)

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0
