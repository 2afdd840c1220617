import type { PageImage } from '../ports/ocr-engine.ts'
import { darkOnLight, evenLight, type Picture } from './illumination.ts'
import { scale } from './resample.ts'

/** inches of the longer side; a file whose page would be outside is not of the resolution that it claims */
const believable = { from: 4, to: 48 }
/** Programs write 72 or 96 when they do not know; so few dots are believed only of sheets that a scanner takes. */
const doubted = { below: 150, to: 17 }
/** inches */
const a4 = { short: 8.27, long: 11.69 }
/** how much of a picture the page takes up, as nobody holds a telephone exactly over it */
const filled = 0.8
/** dots per inch below which letters are too small for Tesseract, and what such pages are brought to: CER 16 to 0.3 % at 72 dpi, 0.8 to 0.1 at 96 */
const coarse = { below: 110, becomes: 150 }
/** and above which they only cost time: a fifth of it, while six-point print loses nothing */
const fine = { above: 240, becomes: 200 }
/** pixels */
const largest = 24_000_000

/** Makes gray pixels fit for OCR: of a resolution that suits, dark on light, evenly lit. `dpi` is what the file says, null where it says nothing. */
export function prepare({ dpi: claimed, ...picture }: Picture & { dpi: number | null }): PageImage {
  const dpi = resolution(picture, claimed)
  const wanted = dpi > fine.above ? fine.becomes / dpi : dpi < coarse.below ? coarse.becomes / dpi : 1
  const factor = Math.min(wanted, Math.sqrt(largest / (picture.width * picture.height)))
  const sized = factor === 1 ? picture : scale(picture, factor)
  const brought = Math.round(dpi * factor)
  return { ...evenLight(darkOnLight(sized), brought), dpi: brought }
}

/** The claimed resolution where it can be true, else that of a photographed page of A4. */
function resolution({ width, height }: Picture, claimed: number | null): number {
  const [short, long] = width < height ? [width, height] : [height, width]
  if (claimed !== null) {
    const to = claimed < doubted.below ? doubted.to : believable.to
    if (long >= claimed * believable.from && long <= claimed * to) return claimed
  }
  return Math.max(70, Math.round(Math.min(long / a4.long, short / a4.short) * filled))
}
