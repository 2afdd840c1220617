/** Merges the words of several OCR passes over a page. */
import type { OcrText, OcrWord, WordBox } from '../ports/ocr-engine.ts'
import { joinWords } from './words.ts'

/** Words above it are never replaced. */
const certain = 0.9
/** Minimum confidence of a word in a place without words of the other pass. */
const minAdded = 0.6
/** Overlap of two boxes, as a share of the smaller one, above which their words are in the same place. */
const minOverlap = 0.4
/** Advantage in confidence that a replacement needs. */
const margin = 0.03

/** Words of both passes in the same place. */
interface Cluster {
  readonly ours: OcrWord[]
  readonly theirs: OcrWord[]
}

/**
 * Returns `base` with words of `other` in places without words in `base`, and with words of `other` that have a higher confidence. Both have boxes in
 * pixels of the same image.
 */
export function mergeWords(base: OcrText, other: OcrText): OcrText {
  const replacements = new Map<OcrWord, readonly OcrWord[]>()
  const added: OcrWord[] = []
  for (const { ours, theirs } of findClusters(base.words, other.words)) {
    if (ours.length === 0) added.push(...theirs.filter(isPlausible))
    else if (isBetter(theirs, ours)) {
      for (const [index, word] of ours.entries()) {
        replacements.set(word, index > 0 ? [] : theirs.map((their) => ({ ...their, line: word.line, paragraph: word.paragraph })))
      }
    }
  }
  const replaced = base.words.flatMap((word) => replacements.get(word) ?? [word])
  return joinWords(addWords(replaced, added))
}

/** Returns `base` with the words of `other` in places without words. */
export function addMissingWords(base: OcrText, other: OcrText): OcrText {
  const clusters = findClusters(base.words, other.words)
  const added = clusters.flatMap(({ ours, theirs }) => (ours.length === 0 ? theirs.filter(isPlausible) : []))
  return joinWords(addWords(base.words, added))
}

const isPlausible = ({ text, confidence }: OcrWord): boolean =>
  confidence >= minAdded && (/[\p{L}\p{N}].*[\p{L}\p{N}]/u.test(text) || /^\W*\p{N}\W*$/u.test(text))

function isBetter(theirs: readonly OcrWord[], ours: readonly OcrWord[]): boolean {
  const [their, our] = [joinWords(theirs), joinWords(ours)]
  if (our.confidence === null || their.confidence === null) return false
  if (ours.every(({ confidence }) => confidence >= certain)) return false
  return their.confidence > our.confidence + margin && lettersOf(theirs) >= lettersOf(ours) * 0.6
}

const lettersOf = (words: readonly OcrWord[]): number =>
  words.reduce((sum, { text }) => sum + (text.match(/[\p{L}\p{N}]/gu)?.length ?? 0), 0)

/** Groups words that overlap. Words of `theirs` without counterpart are clusters of their own; so are lone words of `ours` left out. */
function findClusters(ours: readonly OcrWord[], theirs: readonly OcrWord[]): Cluster[] {
  const byTop = ours.toSorted((a, b) => a.box.top - b.box.top)
  const maxHeight = Math.max(0, ...ours.map(({ box }) => box.height))
  const clusters = new Map<OcrWord, { ours: Set<OcrWord>; theirs: OcrWord[] }>()
  const all = new Set<{ ours: Set<OcrWord>; theirs: OcrWord[] }>()
  for (const their of theirs) {
    const joined = { ours: new Set<OcrWord>(), theirs: [their] }
    for (
      let i = lowerBound(byTop, their.box.top - maxHeight);
      i < byTop.length && byTop[i]!.box.top < their.box.top + their.box.height;
      i++
    ) {
      if (overlap(byTop[i]!.box, their.box) < minOverlap) continue
      const word = byTop[i]!
      joined.ours.add(word)
      const earlier = clusters.get(word)
      if (!earlier || !all.delete(earlier)) continue
      joined.theirs.unshift(...earlier.theirs)
      for (const one of earlier.ours) joined.ours.add(one)
    }
    for (const word of joined.ours) clusters.set(word, joined)
    all.add(joined)
  }
  const order = new Map(ours.map((word, index) => [word, index]))
  return [...all].map((cluster) => ({ ...cluster, ours: [...cluster.ours].sort((a, b) => order.get(a)! - order.get(b)!) }))
}

/** Returns the index of the first word that begins at `top` or below. */
function lowerBound(byTop: readonly OcrWord[], top: number): number {
  let [low, high] = [0, byTop.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (byTop[middle]!.box.top < top) low = middle + 1
    else high = middle
  }
  return low
}

/** Returns the share of the smaller box that both cover. */
function overlap(a: WordBox, b: WordBox): number {
  const width = Math.min(a.left + a.width, b.left + b.width) - Math.max(a.left, b.left)
  const height = Math.min(a.top + a.height, b.top + b.height) - Math.max(a.top, b.top)
  if (width <= 0 || height <= 0) return 0
  return (width * height) / Math.max(1, Math.min(a.width * a.height, b.width * b.height))
}

/** Adds words to the lines at their height, from left to right. Without such a line, adds a new line below the line above. */
function addWords(words: readonly OcrWord[], added: readonly OcrWord[]): OcrWord[] {
  if (added.length === 0) return [...words]
  const lines = [...Map.groupBy(words, ({ line }) => line).values()].map((line) => [...line])
  for (const group of Map.groupBy(added, ({ line }) => line).values()) {
    const own: OcrWord[] = []
    for (const word of group) {
      const line = lines.find((line) => isBeside(line, word))
      if (!line) own.push(word)
      else {
        const after = line.findIndex(({ box }) => box.left > word.box.left)
        line.splice(after < 0 ? line.length : after, 0, word)
      }
    }
    if (own.length > 0) lines.splice(lineAbove(lines, own[0]!.box) + 1, 0, own)
  }
  return renumber(lines)
}

/** Returns whether a word continues a line: at the same height, of similar size, at most a few letters away. */
function isBeside(line: readonly OcrWord[], { box }: OcrWord): boolean {
  return line.some(({ box: other }) => {
    const shared = Math.min(box.top + box.height, other.top + other.height) - Math.max(box.top, other.top)
    const gap = Math.max(box.left - other.left - other.width, other.left - box.left - box.width)
    return shared > 0.5 * Math.max(box.height, other.height) && gap < 3 * Math.max(box.height, other.height)
  })
}

/** Returns the index of the lowest line above `box` that shares columns with it, else of the last line above; -1 if there is none. */
function lineAbove(lines: readonly (readonly OcrWord[])[], box: WordBox): number {
  let found = -1
  let bottom = Number.NEGATIVE_INFINITY
  let isShared = false
  for (const [index, line] of lines.entries()) {
    const lineBottom = Math.max(...line.map((word) => word.box.top + word.box.height))
    if (lineBottom > box.top + box.height / 2) continue
    const shares = line.some((word) => word.box.left < box.left + box.width && box.left < word.box.left + word.box.width)
    if (Number(shares) < Number(isShared) || (shares === isShared && lineBottom < bottom)) continue
    ;[found, bottom, isShared] = [index, lineBottom, shares]
  }
  return found
}

/** Numbers the lines by their new order. Words between two lines of a paragraph join it. */
function renumber(lines: readonly (readonly OcrWord[])[]): OcrWord[] {
  return lines.flatMap((line, number) => line.map((word) => ({ ...word, line: number })))
}
