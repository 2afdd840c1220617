import type { PageImage } from '../../../src/ports/ocr-engine.ts'

/** Returns the page rotated clockwise by a multiple of 90 degrees. */
export function turned({ gray, width, height, dpi }: PageImage, degrees: number): PageImage {
  if (degrees === 0) return { gray, width, height, dpi }
  const once = new Uint8Array(gray.length)
  for (const [at, value] of gray.entries()) once[(at % width) * height + height - 1 - Math.floor(at / width)] = value
  return turned({ gray: once, width: height, height: width, dpi }, degrees - 90)
}
