import type { Picture } from './illumination.ts'

/** Which neighbouring pixels make up one pixel of the new row or column, and how much each counts. */
interface Mix {
  readonly first: number
  readonly shares: Float32Array
}

/** The picture at `factor` of its size: averaged where it shrinks, curved (Catmull-Rom) where it grows. */
export function scale({ gray, width, height }: Picture, factor: number): Picture {
  const across = mixes(width, Math.max(1, Math.round(width * factor)))
  const down = mixes(height, Math.max(1, Math.round(height * factor)))
  const out = new Uint8ClampedArray(across.length * down.length)
  const line = new Float32Array(width)
  for (const [y, rows] of down.entries()) {
    line.fill(0)
    for (const [step, share] of rows.shares.entries()) {
      const start = (rows.first + step) * width
      for (let x = 0; x < width; x++) line[x]! += gray[start + x]! * share
    }
    for (let x = 0; x < across.length; x++) {
      const { first, shares } = across[x]!
      let sum = 0
      for (let step = 0; step < shares.length; step++) sum += line[first + step]! * shares[step]!
      out[y * across.length + x] = sum
    }
  }
  return { gray: new Uint8Array(out.buffer), width: across.length, height: down.length }
}

function mixes(from: number, to: number): Mix[] {
  const step = from / to
  const reach = step > 1 ? step / 2 + 0.5 : 2
  const weigh = step > 1 ? (distance: number) => Math.min(1, reach - distance) : curve
  return Array.from({ length: to }, (_, index) => {
    const center = (index + 0.5) * step - 0.5
    const first = Math.max(0, Math.ceil(center - reach))
    const last = Math.min(from - 1, Math.floor(center + reach))
    const shares = Float32Array.from({ length: last - first + 1 }, (_, at) => weigh(Math.abs(first + at - center)))
    const total = shares.reduce((sum, share) => sum + share, 0)
    return { first, shares: shares.map((share) => share / total) }
  })
}

/** The Catmull-Rom curve: keeps edges sharp, where straight interpolation would blur small letters. */
function curve(distance: number): number {
  if (distance < 1) return 1.5 * distance ** 3 - 2.5 * distance ** 2 + 1
  return -0.5 * distance ** 3 + 2.5 * distance ** 2 - 4 * distance + 2
}
