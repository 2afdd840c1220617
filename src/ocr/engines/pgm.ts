import type { PageImage } from '../../ports.ts'

/** The page as a PGM file: a header in front of the pixels. Every Tesseract reads it, and nobody has to compress and decompress millions of pixels. */
export function toPgm({ gray, width, height }: PageImage): Buffer {
  return Buffer.concat([Buffer.from(`P5\n${width} ${height}\n255\n`), gray])
}
