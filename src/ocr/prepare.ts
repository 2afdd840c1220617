import type { PageImage } from '../ports.ts'
import { darkOnLight, evenLight, type Picture } from './light.ts'
import { scale } from './scale.ts'

/** inches; no scanner takes larger sheets, so a file that claims more holds the 72 or 96 that programs write when they do not know */
const longestSheet = 17
const a4 = { short: 8.27, long: 11.69 }
/** dots per inch below which letters are too small for Tesseract, and what such pages are brought to (CER 16 to 0.3 % at 72 dpi, 0.8 to 0.1 at 96) */
const coarse = 110
const enlarged = 150
/** finer scans only cost time */
const finest = 300
/** pixels; what Tesseract takes in about 600 MB */
const largest = 24_000_000

/** Makes gray pixels fit for OCR: of a resolution that suits, dark on light, evenly lit. `dpi` is what the file says, null where it says nothing. */
export function prepare({ dpi: claimed, ...picture }: Picture & { dpi: number | null }): PageImage {
  const dpi = resolution(picture, claimed)
  const wanted = dpi > finest ? finest / dpi : dpi < coarse ? enlarged / dpi : 1
  const factor = Math.min(wanted, Math.sqrt(largest / (picture.width * picture.height)))
  const sized = factor === 1 ? picture : scale(picture, factor)
  const usable = Math.round(dpi * factor)
  return { ...evenLight(darkOnLight(sized), usable), dpi: usable }
}

/** The claimed resolution where it can be true, else that of a page of A4; Tesseract takes 70 to 2400. */
function resolution({ width, height }: Picture, claimed: number | null): number {
  const [short, long] = width < height ? [width, height] : [height, width]
  const credible = claimed !== null && claimed >= 70 && claimed <= 2400 && long / claimed <= longestSheet
  return credible ? claimed : Math.min(600, Math.max(70, Math.round(Math.min(long / a4.long, short / a4.short))))
}
