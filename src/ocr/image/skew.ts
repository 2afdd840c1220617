/**
 * Skew of a page: the angle by which its lines of text are turned. docs/ocr.md explains the projection profile.
 */
import type { GrayImage } from './illumination.ts'

/** Angles beyond it are left to Tesseract, which turns pages by quarters. */
const maxDegrees = 20
/** Tesseract reads lines that rise less than this without loss. */
const minDegrees = 0.3
const coarse = { stepDegrees: 0.25, binPixels: 4 }
const fine = { stepDegrees: 0.05, binPixels: 1 }
/** Longer side of the reduced image, at least. */
const reducedSide = 1000
const maxPoints = 40_000
/** Pages with fewer points have no text. */
const minPoints = 300
/** Minimum ratio of the sharpest profile to the median one. Text has 1.5 to 20, pictures about 1.1. */
const minSharpness = 1.25
/** Sharpness above which the page is not tried on its side. */
const clearSharpness = 2.5
/** Maximum share of one bin in a profile. A single straight line in a picture exceeds it. */
const maxBinShare = 0.5

/** Points below which dark turns to light, the baselines of text among them. */
interface Points {
  readonly along: Float32Array
  readonly across: Float32Array
}

/** Returns the angle by which lines of text are turned clockwise, in degrees; 0 for level pages, for pictures, and when in doubt. */
export function findSkew(image: GrayImage): number {
  const small = reduce(image, reductionOf(image))
  const level = findAngle(lowerEdges(small))
  // Lines of pages that lie on their side run upwards or downwards.
  const upright = level.sharpness < clearSharpness ? findAngle(lowerEdges(transpose(small))) : level
  const degrees = upright.sharpness > level.sharpness ? -upright.degrees : level.degrees
  return Math.abs(degrees) < minDegrees ? 0 : Math.round(degrees * 100) / 100
}

/** Returns points below which dark turns to light, in an image of `width` × `height`, which was reduced by `factor`. */
export function findEdges(image: GrayImage): Points & { factor: number; width: number; height: number } {
  const factor = reductionOf(image)
  const small = reduce(image, factor)
  return { ...lowerEdges(small), factor, width: small.width, height: small.height }
}

const reductionOf = ({ width, height }: GrayImage): number => Math.max(1, Math.floor(Math.max(width, height) / reducedSide))

/** Averages squares of `factor` pixels. */
function reduce({ gray, width, height }: GrayImage, factor: number): GrayImage {
  if (factor === 1) return { gray, width, height }
  const [columns, rows] = [Math.floor(width / factor), Math.floor(height / factor)]
  const out = new Uint8Array(columns * rows)
  const sums = new Uint32Array(columns)
  for (let row = 0; row < rows; row++) {
    sums.fill(0)
    for (let y = row * factor; y < (row + 1) * factor; y++) {
      for (let column = 0, at = y * width; column < columns; column++) {
        for (let i = 0; i < factor; i++) sums[column]! += gray[at++]!
      }
    }
    for (let column = 0; column < columns; column++) out[row * columns + column] = sums[column]! / (factor * factor)
  }
  return { gray: out, width: columns, height: rows }
}

function transpose({ gray, width, height }: GrayImage): GrayImage {
  const out = new Uint8Array(gray.length)
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++) out[x * height + y] = gray[at++]!
  }
  return { gray: out, width: height, height: width }
}

function lowerEdges({ gray, width, height }: GrayImage): Points {
  const histogram = new Uint32Array(256)
  const distance = 2 * width
  for (let at = 0; at + distance < gray.length; at += 3) histogram[Math.max(0, gray[at + distance]! - gray[at]!)]!++
  const samples = gray.length / 3
  let strongest = 255
  for (let above = histogram[255]!; strongest > 0 && above < samples * 0.005; above += histogram[strongest]!) strongest--
  const threshold = Math.max(12, strongest * 0.4)
  const points: number[] = []
  for (let y = 0, at = 0; y < height - 2; y++) {
    for (let x = 0; x < width; x++, at++) if (gray[at + distance]! - gray[at]! > threshold) points.push(at)
  }
  const stride = Math.max(1, points.length / maxPoints)
  const count = Math.floor(points.length / stride)
  const [along, across] = [new Float32Array(count), new Float32Array(count)]
  for (let i = 0; i < count; i++) {
    const at = points[Math.floor(i * stride)]!
    along[i] = at % width
    across[i] = Math.floor(at / width)
  }
  return { along, across }
}

/** Returns the angle of the sharpest projection profile. Searches in coarse steps, then in fine ones around the maximum. */
function findAngle(points: Points): { degrees: number; sharpness: number } {
  if (points.along.length < minPoints) return { degrees: 0, sharpness: 0 }
  const angles = range(-maxDegrees, maxDegrees, coarse.stepDegrees)
  const scores = angles.map((degrees) => profileEnergy(points, degrees, coarse.binPixels).energy)
  const best = scores.indexOf(Math.max(...scores))
  const sharpness = scores[best]! / scores.toSorted((a, b) => a - b)[scores.length >> 1]!
  if (sharpness < minSharpness || best === 0 || best === scores.length - 1) return { degrees: 0, sharpness: 0 }
  let degrees = 0
  let maxEnergy = 0
  let share = 0
  for (const angle of range(angles[best]! - coarse.stepDegrees, angles[best]! + coarse.stepDegrees, fine.stepDegrees)) {
    const { energy, largest } = profileEnergy(points, angle, fine.binPixels)
    if (energy > maxEnergy) [degrees, maxEnergy, share] = [angle, energy, (largest * largest) / energy]
  }
  return share > maxBinShare ? { degrees: 0, sharpness: 0 } : { degrees, sharpness }
}

/** Sums the squares of a projection profile: the counts of points along each line at this angle. */
function profileEnergy({ along, across }: Points, degrees: number, binPixels: number): { energy: number; largest: number } {
  const slope = Math.tan((degrees * Math.PI) / 180)
  const offset = slope > 0 ? slope * 10_000 : 0
  const bins = new Uint16Array(Math.ceil((across.at(-1)! + Math.abs(slope) * 10_000) / binPixels) + 2)
  for (let i = 0; i < along.length; i++) bins[((across[i]! - along[i]! * slope + offset) / binPixels) | 0]!++
  let [energy, largest] = [0, 0]
  for (const count of bins) {
    energy += count * count
    if (count > largest) largest = count
  }
  return { energy, largest }
}

const range = (from: number, to: number, step: number): number[] =>
  Array.from({ length: Math.round((to - from) / step) + 1 }, (_, index) => from + index * step)
