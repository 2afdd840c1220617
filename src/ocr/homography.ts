/** Homographies: 3 × 3 matrices, row by row, that map points of one picture of a page to those of another. */
import type { WordBox } from '../ports/ocr-engine.ts'

export type Homography = readonly [number, number, number, number, number, number, number, number, number]

export interface Point {
  readonly x: number
  readonly y: number
}

export const identity: Homography = [1, 0, 0, 0, 1, 0, 0, 0, 1]

export const scaling = (x: number, y: number): Homography => [x, 0, 0, 0, y, 0, 0, 0, 1]

export const translation = (x: number, y: number): Homography => [1, 0, x, 0, 1, y, 0, 0, 1]

/** Returns the rotation about the origin, clockwise on a page whose y axis points down. */
export function rotation(degrees: number): Homography {
  const [sin, cos] = [Math.sin((degrees * Math.PI) / 180), Math.cos((degrees * Math.PI) / 180)]
  return [cos, -sin, 0, sin, cos, 0, 0, 0, 1]
}

/** Returns the map of the square from (0, 0) to (1, 1) to a quadrilateral whose corners go clockwise from the upper left one (Heckbert 1989). */
export function fromUnitSquare([p0, p1, p2, p3]: readonly [Point, Point, Point, Point]): Homography {
  const [dx1, dx2, dx3] = [p1.x - p2.x, p3.x - p2.x, p0.x - p1.x + p2.x - p3.x]
  const [dy1, dy2, dy3] = [p1.y - p2.y, p3.y - p2.y, p0.y - p1.y + p2.y - p3.y]
  const determinant = dx1 * dy2 - dx2 * dy1
  const g = (dx3 * dy2 - dx2 * dy3) / determinant
  const h = (dx1 * dy3 - dx3 * dy1) / determinant
  return [p1.x - p0.x + g * p1.x, p3.x - p0.x + h * p3.x, p0.x, p1.y - p0.y + g * p1.y, p3.y - p0.y + h * p3.y, p0.y, g, h, 1]
}

/** Returns the homography that applies `second` to the result of `first`. */
export function chain(first: Homography, second: Homography): Homography {
  const cell = (row: number, column: number): number =>
    second[row * 3]! * first[column]! + second[row * 3 + 1]! * first[column + 3]! + second[row * 3 + 2]! * first[column + 6]!
  return [cell(0, 0), cell(0, 1), cell(0, 2), cell(1, 0), cell(1, 1), cell(1, 2), cell(2, 0), cell(2, 1), cell(2, 2)]
}

/** Returns the inverse, up to a factor, which a homography does not have. */
export function invert([a, b, c, d, e, f, g, h, i]: Homography): Homography {
  return [
    e * i - f * h,
    c * h - b * i,
    b * f - c * e,
    f * g - d * i,
    a * i - c * g,
    c * d - a * f,
    d * h - e * g,
    b * g - a * h,
    a * e - b * d,
  ]
}

/** Returns the place of a point after the transformation. */
export function mapPoint([a, b, c, d, e, f, g, h, i]: Homography, { x, y }: Point): Point {
  const w = g * x + h * y + i
  return { x: (a * x + b * y + c) / w, y: (d * x + e * y + f) / w }
}

/** Returns the smallest upright box around the mapped corners of `box`. */
export function mapBox(map: Homography, { left, top, width, height }: WordBox): WordBox {
  const [right, bottom] = [left + width, top + height]
  const corners = [
    { x: left, y: top },
    { x: right, y: top },
    { x: left, y: bottom },
    { x: right, y: bottom },
  ].map((corner) => mapPoint(map, corner))
  const [xs, ys] = [corners.map(({ x }) => x), corners.map(({ y }) => y)]
  const [minX, minY] = [Math.min(...xs), Math.min(...ys)]
  return { left: minX, top: minY, width: Math.max(...xs) - minX, height: Math.max(...ys) - minY }
}
