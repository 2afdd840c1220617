/** Ruled lines of tables and forms, which Tesseract takes for letters or for borders of pictures. */
import type { GrayImage } from './illumination.ts'

/** Lengths and thicknesses in inches. Strokes of letters are shorter, bars of charts thicker. */
const minLength = 0.5
const maxThickness = 0.03
/** Minimum number of lines of a table. Fewer lines underline words, or separate columns, and Tesseract needs those. */
const minLines = 8
/** Brightness below which a pixel is ink, as a share of the paper. */
const inkRatio = 0.7
const paper = 255

/** Pixels of ink side by side. */
interface Run {
  /** number of the row or column */
  readonly line: number
  readonly start: number
  readonly length: number
}

/** Erases ruled lines if the page has enough of them for a table or a form. Returns other pages unchanged. */
export function eraseRuledLines<T extends GrayImage>(page: T, dpi: number): T {
  const { gray, width, height } = page
  const threshold = inkThreshold(gray)
  const thickness = Math.max(3, Math.round(dpi * maxThickness))
  const length = Math.round(dpi * minLength)
  const rows = { lines: height, size: width, along: 1, across: width, threshold, length }
  const columns = { lines: width, size: height, along: width, across: 1, threshold, length }
  const erased = new Uint8Array(gray)
  let count = 0
  for (const direction of [rows, columns]) {
    const runs = findRuns(erased, direction).filter((run) => isThin(erased, run, direction, thickness))
    for (const run of runs) eraseRun(erased, run, direction, thickness)
    count += countLines(runs)
  }
  return count < minLines ? page : { ...page, gray: erased }
}

/** Returns a brightness between ink and paper. */
function inkThreshold(gray: Uint8Array): number {
  const sample = gray.filter((_, at) => at % 199 === 0).sort()
  return (sample[Math.floor(sample.length * 0.8)] ?? 255) * inkRatio
}

interface Direction {
  /** number of rows or columns, and their length */
  readonly lines: number
  readonly size: number
  /** distances in memory of neighbours in the line and of neighbouring lines */
  readonly along: number
  readonly across: number
  readonly threshold: number
  /** minimum length of a run */
  readonly length: number
}

/** Finds runs of dark pixels, with gaps of one. */
function findRuns(gray: Uint8Array, { lines, size, along, across, threshold, length }: Direction): Run[] {
  const runs: Run[] = []
  for (let line = 0; line < lines; line++) {
    let [start, end] = [-1, -1]
    for (let i = 0, at = line * across; i <= size; i++, at += along) {
      if (i < size && gray[at]! < threshold) {
        if (start < 0) start = i
        end = i
      } else if (start >= 0 && (i - end > 1 || i === size)) {
        if (end - start >= length) runs.push({ line, start, length: end - start + 1 })
        start = -1
      }
    }
  }
  return runs
}

/** Counts runs that do not continue a run of the line before. */
function countLines(runs: readonly Run[]): number {
  let count = 0
  let last: Run | undefined
  for (const run of runs) {
    if (!last || run.line > last.line + 1 || run.start > last.start + last.length) count++
    last = run
  }
  return count
}

/** Returns whether a run is a line. Bars, pictures and rows of bold letters are thicker. */
function isThin(gray: Uint8Array, { line, start, length }: Run, direction: Direction, thickness: number): boolean {
  let thin = 0
  for (let i = start; i < start + length; i++) {
    const at = line * direction.across + i * direction.along
    if (
      inkBeside(gray, at, -direction.across, direction, thickness) + inkBeside(gray, at, direction.across, direction, thickness) <
      thickness
    )
      thin++
  }
  return thin >= length * 0.7
}

/** Counts ink pixels from `at` in a direction, up to more than `thickness`. */
function inkBeside(gray: Uint8Array, at: number, step: number, { threshold }: Direction, thickness: number): number {
  let distance = 0
  while (distance <= thickness && (gray[at + step * (distance + 1)] ?? paper) < threshold) distance++
  return distance
}

/** Paints a run over with paper, except where a letter or another line crosses it. */
function eraseRun(gray: Uint8Array, { line, start, length }: Run, direction: Direction, thickness: number): void {
  for (let i = start; i < start + length; i++) {
    const at = line * direction.across + i * direction.along
    const before = inkBeside(gray, at, -direction.across, direction, thickness)
    const after = inkBeside(gray, at, direction.across, direction, thickness)
    if (before + after >= thickness) continue
    // One more pixel at each side, because edges are gray.
    for (let side = -before - 1; side <= after + 1; side++) {
      const pixel = at + side * direction.across
      if (pixel >= 0 && pixel < gray.length) gray[pixel] = paper
    }
  }
}
