/** Gray pixels, row by row. */
export interface Picture {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
}

/** How bright the paper is in each block of pixels. */
interface Paper {
  readonly light: Float32Array
  readonly columns: number
  readonly rows: number
  /** pixels */
  readonly block: number
}

/** Below this ratio of the darkest to the brightest paper the light is uneven: 0.36 on photos of pages, 1.00 on scans. */
const evenRatio = 0.8
/** What is darker than this share of the brightest paper is ink, a picture or the table that the page lies on. */
const paperRatio = 0.25
const white = 245

/** Makes the paper equally bright everywhere, as in photos of a page it is not. Evenly lit pages come back untouched. `dpi` sizes what counts as local. */
export function evenLight<T extends Picture>(picture: T, dpi: number): T {
  const paper = findPaper(picture, Math.max(8, Math.round(dpi / 9)))
  const sorted = paper.light.toSorted()
  const [dark, bright] = [sorted[Math.floor(sorted.length * 0.05)]!, sorted[Math.floor(sorted.length * 0.95)]!]
  if (dark >= bright * evenRatio) return picture
  return { ...picture, gray: divide(picture, smooth(fillHoles(paper, bright * paperRatio))) }
}

/** White on black becomes black on white: a page that is nearly all dark, with a little that is bright. */
export function darkOnLight<T extends Picture>(picture: T): T {
  const { gray } = picture
  let [dark, bright, seen] = [0, 0, 0]
  for (let at = 0; at < gray.length; at += 61) {
    seen++
    if (gray[at]! < 96) dark++
    else if (gray[at]! > 160) bright++
  }
  if (dark < seen * 0.7 || bright > seen * 0.25) return picture
  return { ...picture, gray: gray.map((value) => 255 - value) }
}

/** The paper of a block is its 90th percentile: ink covers less than nine tenths of it. Every second pixel of every second row is enough. */
function findPaper({ gray, width, height }: Picture, block: number): Paper {
  const columns = Math.ceil(width / block)
  const rows = Math.ceil(height / block)
  const light = new Float32Array(columns * rows)
  const histogram = new Uint32Array(256)
  for (let row = 0; row < rows; row++) {
    const bottom = Math.min(height, (row + 1) * block)
    for (let column = 0; column < columns; column++) {
      const right = Math.min(width, (column + 1) * block)
      histogram.fill(0)
      let count = 0
      for (let y = row * block; y < bottom; y += 2) {
        for (let at = y * width + column * block; at < y * width + right; at += 2) {
          histogram[gray[at]!]!++
          count++
        }
      }
      let value = 255
      for (let above = histogram[255]!; value > 0 && above < count * 0.1; above += histogram[value]!) value--
      light[row * columns + column] = value
    }
  }
  return { light, columns, rows, block }
}

/** Blocks without paper take the light of their neighbours, ring by ring. */
function fillHoles(paper: Paper, darkest: number): Paper {
  let light = paper.light.map((value) => (value < darkest ? 0 : value))
  for (let ring = Math.max(paper.columns, paper.rows); ring > 0 && light.includes(0); ring--) {
    const filled = around({ ...paper, light }, 1, mean)
    light = light.map((value, index) => value || filled[index]!)
  }
  return { ...paper, light }
}

/** The brightest of the neighbours, so that a headline's ink does not count as shade; then an average, so that no edge is left. */
function smooth(paper: Paper): Paper {
  const light = around(paper, 1, (values) => Math.max(...values))
  return { ...paper, light: around({ ...paper, light }, 2, mean) }
}

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

/** For each block, `combine` of the known blocks at most `reach` away. */
function around({ light, columns, rows }: Paper, reach: number, combine: (values: number[]) => number): Float32Array<ArrayBuffer> {
  return Float32Array.from(light, (_, index) => {
    const [column, row] = [index % columns, Math.floor(index / columns)]
    const values: number[] = []
    for (let y = Math.max(0, row - reach); y <= Math.min(rows - 1, row + reach); y++) {
      for (let x = Math.max(0, column - reach); x <= Math.min(columns - 1, column + reach); x++) {
        const value = light[y * columns + x]!
        if (value > 0) values.push(value)
      }
    }
    return combine(values)
  })
}

/** Each pixel as a share of the paper under it; between the blocks' centres the paper is taken as sloping. */
function divide({ gray, width, height }: Picture, { light, columns, rows, block }: Paper): Uint8Array {
  const out = new Uint8ClampedArray(gray.length)
  const line = new Float32Array(columns + 1)
  for (let y = 0; y < height; y++) {
    const [above, below, down] = between(y, block, rows)
    for (let column = 0; column <= columns; column++) {
      const at = Math.min(column, columns - 1)
      line[column] = light[above * columns + at]! * (1 - down) + light[below * columns + at]! * down
    }
    for (let x = 0; x < width; x++) {
      const place = Math.max(0, (x + 0.5) / block - 0.5)
      const column = Math.floor(place)
      const paper = line[column]! + (line[column + 1]! - line[column]!) * (place - column)
      out[y * width + x] = (gray[y * width + x]! * white) / paper
    }
  }
  return new Uint8Array(out.buffer)
}

/** The two blocks whose centres lie around this pixel, and how far it is from the first to the second. */
function between(pixel: number, block: number, count: number): [first: number, second: number, share: number] {
  const place = Math.min(count - 1, Math.max(0, (pixel + 0.5) / block - 0.5))
  const first = Math.floor(place)
  return [first, Math.min(count - 1, first + 1), place - first]
}
