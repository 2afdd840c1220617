/**
 * Sheets of paper on a darker background: finds the four corners of photographed pages. docs/ocr.md explains the steps.
 */
import type { Point } from '../homography.ts'
import type { GrayImage } from './illumination.ts'

export type Quadrilateral = readonly [Point, Point, Point, Point]

/** Longer side of the sample in which the sheet is sought, in pixels. */
const sampleSide = 400
/** Maximum share of paper on the border of the picture. Scans have 0.9 and more. */
const maxBorderPaper = 0.25
/** Minimum difference in brightness of paper and background. */
const minContrast = 40
/** Minimum share of the picture that the sheet covers. */
const minArea = 0.2
/** Minimum shares of the convex hull: the part that the quadrilateral covers, and the part that is paper. Flat sheets have 0.9 and more of both. */
const minFit = 0.94
const minPaper = 0.7
/** Cosine of the sharpest corner that perspective explains: 50 degrees. */
const maxCosine = 0.64
/**
 * Minimum distance of a corner from the upright rectangle around the sheet, as a share of the longer side. Sheets with less distortion stay
 * unchanged.
 */
const minDistortion = 0.012

/** Returns the corners of the sheet in pixels, clockwise from the upper left one; null if no distorted sheet is certain. */
export function findSheet(image: GrayImage): Quadrilateral | null {
  const step = Math.max(1, Math.floor(Math.max(image.width, image.height) / sampleSide))
  const sample = takeSample(image, step)
  const split = splitBrightness(sample.gray)
  if (split.contrast < minContrast || shareOfBorder(sample, split.threshold) > maxBorderPaper) return null
  const sheet = largestRegion(sample, split.threshold)
  if (sheet.length < sample.gray.length * minArea * minPaper) return null
  const hull = convexHull(sheet.map((at) => ({ x: at % sample.width, y: Math.floor(at / sample.width) })))
  const corners = simplify(hull)
  if (!corners) return null
  const [hullArea, area] = [areaOf(hull), areaOf(corners)]
  if (area < sample.gray.length * minArea || area < hullArea * minFit || sheet.length < hullArea * minPaper) return null
  if (!hasPlausibleCorners(corners) || !isDistorted(corners)) return null
  return scaleUp(corners, step)
}

function takeSample({ gray, width, height }: GrayImage, step: number): GrayImage {
  const size = { width: Math.floor(width / step), height: Math.floor(height / step) }
  const out = new Uint8Array(size.width * size.height)
  for (let y = 0, at = 0; y < size.height; y++) {
    // The brighter of two pixels, because letters are not the background.
    for (let x = 0, p = y * step * width; x < size.width; x++, p += step) out[at++] = Math.max(gray[p]!, gray[p + (step >> 1)]!)
  }
  return { gray: out, ...size }
}

/** Returns the threshold that separates bright from dark best (Otsu 1979), and the difference of their means. */
function splitBrightness(gray: Uint8Array): { threshold: number; contrast: number } {
  const histogram = new Uint32Array(256)
  for (const value of gray) histogram[value]!++
  const total = histogram.reduce((sum, count, value) => sum + count * value, 0)
  let dark = 0
  let darkSum = 0
  let best = 0
  let threshold = 0
  let contrast = 0
  for (let value = 0; value < 255; value++) {
    dark += histogram[value]!
    darkSum += histogram[value]! * value
    const bright = gray.length - dark
    if (dark === 0 || bright === 0) continue
    const difference = (total - darkSum) / bright - darkSum / dark
    const variance = dark * bright * difference * difference
    if (variance > best) [best, threshold, contrast] = [variance, value, difference]
  }
  return { threshold, contrast }
}

function shareOfBorder({ gray, width, height }: GrayImage, threshold: number): number {
  let bright = 0
  for (let x = 0; x < width; x++) bright += Number(gray[x]! > threshold) + Number(gray[gray.length - 1 - x]! > threshold)
  for (let y = 0; y < height; y++) bright += Number(gray[y * width]! > threshold) + Number(gray[(y + 1) * width - 1]! > threshold)
  return bright / (2 * (width + height))
}

/** Returns the pixels of the largest connected bright region. */
function largestRegion({ gray, width }: GrayImage, threshold: number): number[] {
  const visited = Uint8Array.from(gray, (value) => (value > threshold ? 0 : 1))
  let largest: number[] = []
  for (let start = 0; start < visited.length; start++) {
    if (visited[start]) continue
    const region = [start]
    visited[start] = 1
    for (let i = 0; i < region.length; i++) {
      const at = region[i]!
      const column = at % width
      for (const next of [at - width, at + width, column > 0 ? at - 1 : -1, column < width - 1 ? at + 1 : -1]) {
        if (next < 0 || next >= visited.length || visited[next]) continue
        visited[next] = 1
        region.push(next)
      }
    }
    if (region.length > largest.length) largest = region
  }
  return largest
}

const cross = (o: Point, a: Point, b: Point): number => (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x)

/** Returns the convex hull, clockwise on a page whose y axis points down (Andrew 1979). */
function convexHull(points: readonly Point[]): Point[] {
  const sorted = points.toSorted((a, b) => a.x - b.x || a.y - b.y)
  const halfOf = (ordered: readonly Point[]): Point[] => {
    const half: Point[] = []
    for (const point of ordered) {
      while (half.length >= 2 && cross(half.at(-2)!, half.at(-1)!, point) <= 0) half.pop()
      half.push(point)
    }
    return half.slice(0, -1)
  }
  return [...halfOf(sorted), ...halfOf(sorted.toReversed())]
}

/** Removes the least significant vertex until four are left (Visvalingam and Whyatt 1993). Returns them clockwise from the upper left one. */
function simplify(hull: readonly Point[]): Quadrilateral | null {
  const left = [...hull]
  while (left.length > 4) {
    const areas = left.map((point, i) => Math.abs(cross(left.at(i - 1)!, point, left[(i + 1) % left.length]!)))
    left.splice(areas.indexOf(Math.min(...areas)), 1)
  }
  if (left.length < 4) return null
  // The last vertex of a side may have replaced the corner beside it.
  for (let i = 0; i < 8; i++) left[i % 4] = farthest(hull, left[(i + 1) % 4]!, left[(i + 3) % 4]!)
  const first = left.indexOf(left.reduce((best, point) => (point.x + point.y < best.x + best.y ? point : best)))
  return [...left.slice(first), ...left.slice(0, first)] as unknown as Quadrilateral
}

/** Returns the point farthest from the line from `a` to `b`, on its right. */
const farthest = (hull: readonly Point[], a: Point, b: Point): Point =>
  hull.reduce((best, point) => (cross(a, b, point) > cross(a, b, best) ? point : best))

const areaOf = (polygon: readonly Point[]): number =>
  Math.abs(polygon.reduce((sum, { x, y }, i) => sum + x * polygon.at(i - 1)!.y - polygon.at(i - 1)!.x * y, 0)) / 2

function hasPlausibleCorners(corners: Quadrilateral): boolean {
  return corners.every((corner, i) => {
    const [before, after] = [corners.at(i - 1)!, corners[(i + 1) % 4]!]
    const [a, b] = [
      { x: before.x - corner.x, y: before.y - corner.y },
      { x: after.x - corner.x, y: after.y - corner.y },
    ]
    return Math.abs(a.x * b.x + a.y * b.y) <= maxCosine * Math.hypot(a.x, a.y) * Math.hypot(b.x, b.y)
  })
}

function isDistorted(corners: Quadrilateral): boolean {
  const [xs, ys] = [corners.map(({ x }) => x), corners.map(({ y }) => y)]
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)]
  const upright = [left, top, right, top, right, bottom, left, bottom]
  const distances = corners.flatMap(({ x, y }, i) => [Math.abs(x - upright[2 * i]!), Math.abs(y - upright[2 * i + 1]!)])
  return Math.max(...distances) > minDistortion * Math.max(right - left, bottom - top)
}

const scaleUp = (corners: Quadrilateral, step: number): Quadrilateral =>
  corners.map(({ x, y }) => ({ x: (x + 0.5) * step, y: (y + 0.5) * step })) as unknown as Quadrilateral
