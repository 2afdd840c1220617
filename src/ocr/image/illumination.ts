/**
 * Even illumination of photographed pages. The image is divided into blocks; the brightness of the paper in each is estimated, smoothed, and
 * each pixel is divided by the brightness of the paper below it.
 */

/** Gray pixels, row by row. */
export interface GrayImage {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
}

/** Brightness of the paper in each block. */
interface PaperMap {
  readonly brightness: Float32Array
  readonly columns: number
  readonly rows: number
  /** side of a block, in pixels */
  readonly blockSize: number
}

/** Minimum ratio of the darkest to the brightest paper of an even page. Photos have 0.36, scans 1.00. */
const minEvenRatio = 0.8
/** Share of the brightest paper below which a block is ink, a picture or the desk. */
const minPaperRatio = 0.25
/** Brightness of the paper in the result. */
const paperWhite = 245

/** Makes the paper of a photographed page equally bright everywhere. Returns even pages unchanged. The block size depends on `dpi`. */
export function normalizeIllumination<T extends GrayImage>(image: T, dpi: number): T {
  return flatten(image, dpi, minEvenRatio)
}

/** Makes the paper white and ink black, however faint: divides by the paper, then stretches the contrast. */
export function enhanceContrast<T extends GrayImage>(image: T, dpi: number): T {
  const { gray } = flatten(image, dpi, 1.01)
  const histogram = new Uint32Array(256)
  for (let at = 0; at < gray.length; at += 7) histogram[gray[at]!]!++
  const ink = findInk(histogram)
  const table = Uint8Array.from({ length: 256 }, (_, value) => Math.min(255, Math.max(0, ((value - ink) * 255) / (paperWhite - 8 - ink))))
  return { ...image, gray: gray.map((value) => table[value]!) }
}

/** Returns the brightness of ink: the darkest 2 % of a page, which are strokes of letters. */
function findInk(histogram: Uint32Array): number {
  const count = histogram.reduce((sum, value) => sum + value, 0)
  let ink = 0
  for (let below = histogram[0]!; ink < 200 && below < count * 0.02; below += histogram[ink]!) ink++
  return ink
}

function flatten<T extends GrayImage>(image: T, dpi: number, evenRatio: number): T {
  const map = measurePaper(image, Math.max(8, Math.round(dpi / 9)))
  const sorted = map.brightness.toSorted()
  const [dark, bright] = [sorted[Math.floor(sorted.length * 0.05)]!, sorted[Math.floor(sorted.length * 0.95)]!]
  if (dark >= bright * evenRatio) return image
  return { ...image, gray: divideByPaper(image, smooth(fillBlocksWithoutPaper(map, bright * minPaperRatio))) }
}

/** Inverts pages with light text on a dark background: at least 70 % dark and at most 25 % bright pixels in a sample. */
export function invertIfDark<T extends GrayImage>(image: T): T {
  let dark = 0
  let bright = 0
  let count = 0
  for (let at = 0; at < image.gray.length; at += 61) {
    count++
    if (image.gray[at]! < 96) dark++
    else if (image.gray[at]! > 160) bright++
  }
  if (dark < count * 0.7 || bright > count * 0.25) return image
  return { ...image, gray: image.gray.map((value) => 255 - value) }
}

/** Takes the 90th percentile of each block, because ink covers less than nine tenths of it. Samples a quarter of the pixels. */
function measurePaper({ gray, width, height }: GrayImage, blockSize: number): PaperMap {
  const columns = Math.ceil(width / blockSize)
  const rows = Math.ceil(height / blockSize)
  const brightness = new Float32Array(columns * rows)
  const histogram = new Uint32Array(256)
  for (let row = 0; row < rows; row++) {
    const bottom = Math.min(height, (row + 1) * blockSize)
    for (let column = 0; column < columns; column++) {
      const right = Math.min(width, (column + 1) * blockSize)
      histogram.fill(0)
      let count = 0
      for (let y = row * blockSize; y < bottom; y += 2) {
        for (let at = y * width + column * blockSize; at < y * width + right; at += 2) {
          histogram[gray[at]!]!++
          count++
        }
      }
      let value = 255
      for (let above = histogram[255]!; value > 0 && above < count * 0.1; above += histogram[value]!) value--
      brightness[row * columns + column] = value
    }
  }
  return { brightness, columns, rows, blockSize }
}

/** Gives blocks without paper the mean brightness of their neighbours, from the edges inwards. */
function fillBlocksWithoutPaper(map: PaperMap, minBrightness: number): PaperMap {
  let brightness = map.brightness.map((value) => (value < minBrightness ? 0 : value))
  for (let ring = Math.max(map.columns, map.rows); ring > 0 && brightness.includes(0); ring--) {
    const means = combineNeighbours({ ...map, brightness }, 1, mean)
    brightness = brightness.map((value, index) => value || means[index]!)
  }
  return { ...map, brightness }
}

/** Smooths the map. The maximum of the neighbours keeps headlines from counting as shade; the mean then removes edges. */
function smooth(map: PaperMap): PaperMap {
  const brightness = combineNeighbours(map, 1, (values) => Math.max(...values))
  return { ...map, brightness: combineNeighbours({ ...map, brightness }, 2, mean) }
}

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

/** Applies `combine` to the non-zero blocks at most `distance` away from each block. */
function combineNeighbours(
  { brightness, columns, rows }: PaperMap,
  distance: number,
  combine: (values: number[]) => number,
): Float32Array<ArrayBuffer> {
  return Float32Array.from(brightness, (_, index) => {
    const [column, row] = [index % columns, Math.floor(index / columns)]
    const values: number[] = []
    for (let y = Math.max(0, row - distance); y <= Math.min(rows - 1, row + distance); y++) {
      for (let x = Math.max(0, column - distance); x <= Math.min(columns - 1, column + distance); x++) {
        const value = brightness[y * columns + x]!
        if (value > 0) values.push(value)
      }
    }
    return combine(values)
  })
}

/** Divides each pixel by the brightness of its paper, interpolated linearly between the centres of the blocks. */
function divideByPaper({ gray, width, height }: GrayImage, { brightness, columns, rows, blockSize }: PaperMap): Uint8Array {
  const out = new Uint8ClampedArray(gray.length)
  const line = new Float32Array(columns + 1)
  for (let y = 0; y < height; y++) {
    const position = Math.min(rows - 1, Math.max(0, (y + 0.5) / blockSize - 0.5))
    const above = Math.floor(position)
    const below = Math.min(rows - 1, above + 1)
    for (let column = 0; column <= columns; column++) {
      const at = Math.min(column, columns - 1)
      const [top, bottom] = [brightness[above * columns + at]!, brightness[below * columns + at]!]
      line[column] = top + (bottom - top) * (position - above)
    }
    for (let x = 0; x < width; x++) {
      const position = Math.max(0, (x + 0.5) / blockSize - 0.5)
      const column = Math.floor(position)
      const paper = line[column]! + (line[column + 1]! - line[column]!) * (position - column)
      out[y * width + x] = (gray[y * width + x]! * paperWhite) / paper
    }
  }
  return new Uint8Array(out.buffer)
}
