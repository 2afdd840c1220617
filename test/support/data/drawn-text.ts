/** Pictures of text in any script of one free font: the one that PDF.js has for PDFs without fonts. */
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'

const font = fileURLToPath(new URL('standard_fonts/LiberationSans-Regular.ttf', import.meta.resolve('pdfjs-dist/package.json')))

export interface DrawnText {
  dpi?: number
  /** points */
  size?: number
  /** width of the column of text in inches */
  width?: number
}

/** A black on white PNG with margins, like a perfect scan. Lines break at `width`. */
export async function drawText(text: string, { dpi = 150, size = 12, width = 6 }: DrawnText = {}): Promise<Buffer> {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const mask = sharp({ text: { text: escaped, font: `Liberation Sans ${size}`, fontfile: font, width: Math.round(width * dpi), dpi } })
  const margin = Math.round(dpi * 0.7)
  // The library turns the letters white on black and adds margins before it inverts, so that the margins are black until then.
  const letters = await mask
    .toColourspace('b-w')
    .extend({ top: margin, bottom: margin, left: margin, right: margin, background: '#000' })
    .raw()
    .toBuffer({ resolveWithObject: true })
  const { width: pixels, height, channels } = letters.info
  return sharp(letters.data, { raw: { width: pixels, height, channels } })
    .negate({ alpha: false })
    .toColourspace('b-w')
    .withMetadata({ density: dpi })
    .png()
    .toBuffer()
}
