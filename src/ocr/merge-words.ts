/** Merges the words of several OCR passes over a page. */
import type { OcrText, OcrWord, WordBox } from '../ports/ocr-engine.ts'
import { joinWords } from './words.ts'

/** Minimum confidence of a word in a place without words of the other pass. */
const minAdded = 0.6
/** Overlap of two boxes, as a share of the smaller one, above which their words are in the same place. */
const minOverlap = 0.4
/** Width of a reading, as a share of that of the words that it may replace. */
const minWidth = 0.6

/** Words of passes in the same place. */
interface Cluster {
  readonly ours: OcrWord[]
  readonly theirs: OcrWord[]
}

/**
 * Returns `base` with words of the `others` in places without words. Where the passes read different words, those with the largest sum of confidences win
 * (ROVER, Fiscus 1997). All passes have boxes in pixels of the same image.
 */
export function mergePasses(base: OcrText, others: readonly OcrText[]): OcrText {
  const { words } = others.reduce(addMissingWords, base)
  const passes = [base, ...others].map((pass) => pass.words)
  const passOf = new Map(passes.flatMap((pass) => pass.map((word) => [word, pass])))
  const replacements = new Map<OcrWord, readonly OcrWord[]>()
  for (const { ours, theirs } of findClusters(words, passes.flat())) {
    if (ours.length === 0) continue
    const readings = [...Map.groupBy(theirs, (word) => passOf.get(word)).values()]
    const winner = voteReading(readings.filter((reading) => widthOf(reading) >= widthOf(ours) * minWidth)) ?? ours
    for (const [index, word] of ours.entries()) {
      const { line, paragraph } = word
      const ownWords = winner.slice(index, index === ours.length - 1 ? undefined : index + 1)
      replacements.set(
        word,
        ownWords.map((their) => ({ ...their, line, paragraph })),
      )
    }
  }
  return joinWords(words.flatMap((word) => replacements.get(word) ?? [word]))
}

/** Returns the reading whose text has the largest sum of confidences, of equal texts the most certain one; undefined without readings. */
function voteReading(readings: readonly (readonly OcrWord[])[]): readonly OcrWord[] | undefined {
  const confidenceOf = (words: readonly OcrWord[]): number => joinWords(words).confidence ?? 0
  const byText = Map.groupBy(
    readings.toSorted((a, b) => confidenceOf(b) - confidenceOf(a)),
    (words) => words.map(({ text }) => text).join(' '),
  )
  const sumOf = (equal: readonly (readonly OcrWord[])[]): number => equal.reduce((sum, words) => sum + confidenceOf(words), 0)
  return [...byText.values()].toSorted((a, b) => sumOf(b) - sumOf(a))[0]?.[0]
}

/** Returns `base` with the words of `other` in places without words. */
export function addMissingWords(base: OcrText, other: OcrText): OcrText {
  const clusters = findClusters(base.words, other.words)
  const added = clusters.flatMap(({ ours, theirs }) => (ours.length === 0 ? theirs.filter(isPlausible) : []))
  return joinWords(addWords(base.words, added))
}

const isPlausible = ({ text, confidence }: OcrWord): boolean =>
  confidence >= minAdded && (/[\p{L}\p{N}].*[\p{L}\p{N}]/u.test(text) || /^\W*\p{N}\W*$/u.test(text))

const widthOf = (words: readonly OcrWord[]): number => words.reduce((sum, { box }) => sum + box.width, 0)

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
  const order = new Map([...ours, ...theirs].map((word, index) => [word, index]))
  const inOrder = (words: Iterable<OcrWord>): OcrWord[] => [...words].sort((a, b) => order.get(a)! - order.get(b)!)
  return [...all].map((cluster) => ({ ours: inOrder(cluster.ours), theirs: inOrder(cluster.theirs) }))
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
