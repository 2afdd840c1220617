/** Codes black and white pictures as JBIG2 without loss: ITU-T T.88, in the form for PDF (ISO 32000-1, 7.4.7). */

/** Segment types: T.88, 7.3. */
const [pageInformation, losslessGenericRegion] = [48, 39]
/** Flags: the page is lossless (T.88, 7.4.8.5), the generic region uses typical prediction (7.4.6.2). */
const [lossless, typicalPrediction] = [1, 8]
/** Places of the adaptive pixels of template 0, relative to the coded pixel: T.88, 6.2.5.3. */
const adaptivePixels = [3, -1, -3, -1, 2, -2, -2, -2]
/** Context of the bit that says whether a row equals the one above: T.88, 6.2.5.7. */
const typicalContext = 0x9b25
/** Columns beyond the end of a row that the contexts read. */
const margin = 4

/** Returns the stream of a picture with one byte for each pixel, row by row: 0 is black, all others are white. */
export function encodeJbig2(pixels: Uint8Array, width: number, height: number): Uint8Array<ArrayBuffer> {
  const page = [...uint32(width), ...uint32(height), ...uint32(0), ...uint32(0), lossless, 0, 0]
  const region = [...uint32(width), ...uint32(height), ...uint32(0), ...uint32(0), 0, typicalPrediction, ...adaptivePixels]
  const coded = encodeRows(pixels, width, height)
  return new Uint8Array(
    Buffer.concat([
      segment(0, pageInformation, page.length),
      new Uint8Array(page),
      segment(1, losslessGenericRegion, region.length + coded.length),
      new Uint8Array(region.map((byte) => byte & 0xff)),
      coded,
    ]),
  )
}

/** Returns the header of a segment of page 1 that refers to no other: T.88, 7.2. */
const segment = (index: number, type: number, length: number) => new Uint8Array([...uint32(index), type, 0, 1, ...uint32(length)])

const uint32 = (value: number): number[] => [24, 16, 8, 0].map((shift) => (value >>> shift) & 0xff)

/** Codes the rows with template 0 and typical prediction: T.88, 6.2.5. */
function encodeRows(pixels: Uint8Array, width: number, height: number): Uint8Array {
  const coder = new ArithmeticCoder()
  let [secondAbove, above, row] = [new Uint8Array(width + margin), new Uint8Array(width + margin), new Uint8Array(width + margin)] as const
  let wasTypical = 0
  for (let y = 0; y < height; y++) {
    const start = y * width
    for (let x = 0; x < width; x++) row[x] = pixels[start + x] === 0 ? 1 : 0
    const isTypical = Buffer.compare(row, above) === 0 ? 1 : 0
    coder.encode(typicalContext, isTypical ^ wasTypical)
    wasTypical = isTypical
    if (isTypical === 0) encodeRow(coder, width, secondAbove, above, row)
    ;[secondAbove, above, row] = [above, row, secondAbove]
  }
  return coder.finish()
}

/** The context of a pixel: five pixels two rows above, seven of the row above, and the four before it. */
function encodeRow(coder: ArithmeticCoder, width: number, secondAbove: Uint8Array, above: Uint8Array, row: Uint8Array): void {
  let top = (secondAbove[0]! << 2) | (secondAbove[1]! << 1) | secondAbove[2]!
  let middle = (above[0]! << 3) | (above[1]! << 2) | (above[2]! << 1) | above[3]!
  let before = 0
  for (let x = 0; x < width; x++) {
    const pixel = row[x]!
    coder.encode((top << 11) | (middle << 4) | before, pixel)
    top = ((top << 1) & 31) | secondAbove[x + 3]!
    middle = ((middle << 1) & 127) | above[x + 4]!
    before = ((before << 1) & 15) | pixel
  }
}

/** Probability states: estimated probability of the less probable symbol, and the states that follow it or the more probable one. T.88, table E.1. */
const probabilities = Uint16Array.of(
  ...[0x5601, 0x3401, 0x1801, 0x0ac1, 0x0521, 0x0221, 0x5601, 0x5401, 0x4801, 0x3801, 0x3001, 0x2401, 0x1c01, 0x1601, 0x5601, 0x5401],
  ...[0x5101, 0x4801, 0x3801, 0x3401, 0x3001, 0x2801, 0x2401, 0x2201, 0x1c01, 0x1801, 0x1601, 0x1401, 0x1201, 0x1101, 0x0ac1, 0x09c1],
  ...[0x08a1, 0x0521, 0x0441, 0x02a1, 0x0221, 0x0141, 0x0111, 0x0085, 0x0049, 0x0025, 0x0015, 0x0009, 0x0005, 0x0001, 0x5601],
)
const afterMoreProbable = Uint8Array.of(
  ...[1, 2, 3, 4, 5, 38, 7, 8, 9, 10, 11, 12, 13, 29, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24],
  ...[25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 45, 46],
)
const afterLessProbable = Uint8Array.of(
  ...[1, 6, 9, 12, 29, 33, 6, 14, 14, 14, 17, 18, 20, 21, 14, 14, 15, 16, 17, 18, 19, 19, 20, 21],
  ...[22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 46],
)
/** States in which the less probable symbol becomes the more probable one. */
const switching = new Set([0, 6, 14])

/** The arithmetic coder with adaptive contexts: T.88, annex E.2, whose names of registers are A, C, CT and B. */
class ArithmeticCoder {
  readonly #states = new Uint8Array(1 << 16)
  readonly #moreProbable = new Uint8Array(1 << 16)
  #interval = 0x8000
  #code = 0
  #shiftsLeft = 12
  /** The first byte does not belong to the output: it precedes the first one. */
  #output = new Uint8Array(1 << 16)
  #last = 0

  encode(context: number, bit: number): void {
    const state = this.#states[context]!
    const probability = probabilities[state]!
    this.#interval -= probability
    if (bit === this.#moreProbable[context]) {
      if (this.#interval & 0x8000) {
        this.#code += probability
        return
      }
      if (this.#interval < probability) this.#interval = probability
      else this.#code += probability
      this.#states[context] = afterMoreProbable[state]!
    } else {
      if (this.#interval < probability) this.#code += probability
      else this.#interval = probability
      if (switching.has(state)) this.#moreProbable[context] = bit
      this.#states[context] = afterLessProbable[state]!
    }
    do {
      this.#interval <<= 1
      this.#code <<= 1
      if (--this.#shiftsLeft === 0) this.#writeByte()
    } while ((this.#interval & 0x8000) === 0)
  }

  /** Returns the coded bytes with their end marker. */
  finish(): Uint8Array {
    const limit = this.#code + this.#interval
    this.#code |= 0xffff
    if (this.#code >= limit) this.#code -= 0x8000
    for (let i = 0; i < 2; i++) {
      this.#code <<= this.#shiftsLeft
      this.#writeByte()
    }
    const end = this.#output[this.#last] === 0xff ? this.#last : this.#last + 1
    return Buffer.concat([this.#output.subarray(1, end), new Uint8Array([0xff, 0xac])])
  }

  /** Moves the upper bits of the code to the output. A carry increments the last byte; a byte after 0xFF has seven bits to take one. */
  #writeByte(): void {
    if (this.#output[this.#last] !== 0xff && this.#code >= 0x8000000) {
      this.#output[this.#last]!++
      this.#code &= 0x7ffffff
    }
    const bits = this.#output[this.#last] === 0xff ? 7 : 8
    if (++this.#last === this.#output.length) this.#output = Buffer.concat([this.#output, new Uint8Array(this.#output.length)])
    this.#output[this.#last] = this.#code >>> (27 - bits)
    this.#code &= (1 << (27 - bits)) - 1
    this.#shiftsLeft = bits
  }
}
