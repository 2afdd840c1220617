/** A part of a page that is enough to detect its language. */
import type { PageImage } from '../../ports/ocr-engine.ts'

/** Height of a strip: four lines of usual print, about 300 letters across A4. */
const stripInches = 0.7
/** Minimum height of a page. Of a lower one, a strip is no cheaper than the whole. */
const minPageInches = 2.5
/** Distance of the rows and columns that are examined. */
const step = 2
/** Difference of brightness at the edge of a letter. */
const minContrast = 64

/** Returns the rows of the page with the most edges of letters; null for a page that is empty or too low. */
export function densestStrip({ gray, width, height, dpi }: PageImage): PageImage | null {
  const rows = Math.round(stripInches * dpi)
  if (height < minPageInches * dpi) return null
  const edges: number[] = []
  for (let y = 0; y < height; y += step) {
    let count = 0
    const end = (y + 1) * width
    for (let at = y * width + step; at < end; at += step) if (Math.abs(gray[at]! - gray[at - step]!) >= minContrast) count++
    edges.push(count)
  }
  const size = Math.round(rows / step)
  let sum = edges.slice(0, size).reduce((total, count) => total + count, 0)
  let best = { sum, top: 0 }
  for (let top = 1; top + size <= edges.length; top++) {
    sum += edges[top + size - 1]! - edges[top - 1]!
    if (sum > best.sum) best = { sum, top }
  }
  if (best.sum === 0) return null
  const start = best.top * step
  const end = Math.min(height, start + rows)
  return { gray: gray.subarray(start * width, end * width), width, height: end - start, dpi }
}
