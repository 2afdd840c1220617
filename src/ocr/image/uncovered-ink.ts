/** Ink that no recognized word covers. */
import type { OcrWord, PageImage } from '../../ports/ocr-engine.ts'
import { findEdges } from './skew.ts'

/** Words below it may be pictures or ruled lines that were taken for letters. */
const minConfidence = 0.5

/** Returns the share of edges of ink, 0 to 1, that lie outside of all words. 0 for pages almost without ink. */
export function shareOfUncoveredInk(page: PageImage, words: readonly OcrWord[]): number {
  const { along, across, factor, width, height } = findEdges(page)
  const covered = new Uint8Array(width * height)
  for (const { box, confidence } of words) {
    if (confidence < minConfidence) continue
    const [left, right] = [
      Math.max(0, Math.floor(box.left / factor) - 1),
      Math.min(width - 1, Math.ceil((box.left + box.width) / factor) + 1),
    ]
    const [top, bottom] = [
      Math.max(0, Math.floor(box.top / factor) - 2),
      Math.min(height - 1, Math.ceil((box.top + box.height) / factor) + 1),
    ]
    for (let y = top; y <= bottom; y++) covered.fill(1, y * width + left, y * width + right + 1)
  }
  let outside = 0
  for (let i = 0; i < along.length; i++) if (covered[across[i]! * width + along[i]!] === 0) outside++
  return along.length < 200 ? 0 : outside / along.length
}

/** Paints words over with paper. */
export function eraseWords<T extends PageImage>(page: T, words: readonly OcrWord[]): T {
  const gray = new Uint8Array(page.gray)
  for (const { box } of words) {
    const [left, right] = [Math.max(0, box.left - 2), Math.min(page.width, box.left + box.width + 2)]
    for (let y = Math.max(0, box.top - 2); y < Math.min(page.height, box.top + box.height + 2); y++)
      gray.fill(255, y * page.width + left, y * page.width + right)
  }
  return { ...page, gray }
}
