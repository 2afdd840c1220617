/** Pictures of pages turned and straightened. */
import { chain, type Homography, invert, mapPoint, rotation, translation } from '../homography.ts'
import type { GrayImage } from './illumination.ts'

/** An image made from another one, and the map from its pixels to those of the other. */
export interface Warped extends GrayImage {
  readonly toSource: Homography
}

/** Returns the page with level lines, on a sheet that is large enough for its corners. `degrees`: by which the lines are turned clockwise. */
export function level(image: GrayImage, degrees: number): Warped {
  const centered = chain(translation(-image.width / 2, -image.height / 2), rotation(-degrees))
  const corners = [0, image.width].flatMap((x) => [0, image.height].map((y) => mapPoint(centered, { x, y })))
  const width = Math.ceil(2 * Math.max(...corners.map(({ x }) => x)))
  const height = Math.ceil(2 * Math.max(...corners.map(({ y }) => y)))
  return warp(image, invert(chain(centered, translation(width / 2, height / 2))), { width, height })
}

/** Samples `image` for each pixel of the result, with bilinear interpolation. Takes paper for what lies outside. */
export function warp({ gray, width, height }: GrayImage, toSource: Homography, size: { width: number; height: number }): Warped {
  const out = new Uint8Array(size.width * size.height).fill(paperOf(gray))
  const [a, b, c, d, e, f, g, h, i] = toSource
  for (let row = 0, at = 0; row < size.height; row++) {
    const y = row + 0.5
    for (let column = 0; column < size.width; column++, at++) {
      const x = column + 0.5
      const w = g * x + h * y + i
      const sourceX = (a * x + b * y + c) / w - 0.5
      const sourceY = (d * x + e * y + f) / w - 0.5
      if (!(sourceX >= 0 && sourceY >= 0 && sourceX < width - 1 && sourceY < height - 1)) continue
      const [left, top] = [sourceX | 0, sourceY | 0]
      const [right, bottom] = [sourceX - left, sourceY - top]
      const p = top * width + left
      const upper = gray[p]! + (gray[p + 1]! - gray[p]!) * right
      const lower = gray[p + width]! + (gray[p + width + 1]! - gray[p + width]!) * right
      out[at] = upper + (lower - upper) * bottom + 0.5
    }
  }
  return { gray: out, ...size, toSource }
}

/** Returns the brightness of the paper: the 80th percentile of a sample. */
function paperOf(gray: Uint8Array): number {
  const sample = gray.filter((_, at) => at % 997 === 0).sort()
  return sample[Math.floor(sample.length * 0.8)] ?? 255
}
