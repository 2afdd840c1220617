import sharp from 'sharp'
import type { PageImage } from '../src/ports/ocr-engine.ts'
import { renderPages, textPdf } from '../test/support/data/page-image.ts'

export const variants = ['clean', 'noise', 'photo'] as const
export type Variant = (typeof variants)[number]

export interface Scan {
  readonly truth: string
  /** a gray JPEG, as written by scanners and phones */
  readonly jpeg: Buffer
  readonly width: number
  readonly height: number
  readonly dpi: number
}

const words =
  `the committee of public works has decided after long debate that every document which arrives at an office should be read stored and
  found again without delay because nobody remembers where paper goes when several people share one archive invoices contracts letters minutes
  reports plans receipts tables and short notes all belong together reference amount payable before date signed approved rejected delivered
  ordered quantity price total tax account street city department chief secretary quarter annual budget review between however therefore
  insurance premium claim policy holder tenant landlord deposit heating water meter reading previous current balance transfer bank branch
  judge hearing appeal witness statement under oath whereas hereby agreement parties clause notice period termination liability warranty`.split(
    /\s+/,
  )

/** Dense A4 pages of our own text in two typefaces; equal for an equal seed. */
export async function makeScans(count: number, variant: Variant, dpi = 300, seed = 7): Promise<Scan[]> {
  const random = randomness(seed)
  const texts = Array.from({ length: count }, () => Array.from({ length: 48 }, () => lineOf(random)))
  const scans = texts.map(async (lines, index) => {
    const layout = index % 2 === 0 ? ({ font: 'Times-Roman', size: 11 } as const) : ({ font: 'Helvetica', size: 9.5 } as const)
    const [page] = await renderPages(textPdf([lines], layout), dpi)
    const gray = { clean: cleanScan, noise: noisyScan, photo: uneven }[variant](page!, random)
    const { width, height } = page!
    const blurred = sharp(gray, { raw: { width, height, channels: 1 } }).blur(variant === 'clean' ? 0.5 : 0.8)
    const jpeg = await blurred
      .toColourspace('b-w')

      .jpeg({ quality: variant === 'clean' ? 85 : 70 })
      .toBuffer()
    return { truth: lines.join(' '), jpeg, width, height, dpi }
  })
  return Promise.all(scans)
}

/** Returns a seeded random number generator (mulberry32), so that each run has equal pages. */
function randomness(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

function lineOf(random: () => number): string {
  let line = ''
  while (line.length < 82) {
    const kind = random()
    const word = words[Math.floor(random() * words.length)]!
    const formatted = kind < 0.06 ? amount(random) : kind < 0.16 ? word[0]!.toUpperCase() + word.slice(1) : word
    line += `${line ? ' ' : ''}${formatted}${random() < 0.08 ? ',' : ''}`
  }
  return `${line}.`
}

const amount = (random: () => number): string => (random() * 10_000).toFixed(random() < 0.5 ? 2 : 0)

const noisy = (value: number, strength: number, random: () => number): number => value + (random() + random() + random() - 1.5) * strength

const each = ({ gray, width }: PageImage, change: (value: number, x: number, y: number) => number): Uint8ClampedArray =>
  Uint8ClampedArray.from(gray, (value, at) => change(value, at % width, Math.floor(at / width)))

const cleanScan = (page: PageImage, random: () => number) => each(page, (value) => noisy(20 + value * 0.9, 6, random))

/** Draws a worn copy: gray paper, pale ink, grain and specks. */
const noisyScan = (page: PageImage, random: () => number) =>
  each(page, (value) => (random() < 0.0015 ? 40 : noisy(60 + value * 0.68, 70, random)))

/** Draws a photo in lamp light: bright in one corner, a third as bright in the opposite one, with the shadow of a hand. */
const uneven = (page: PageImage, random: () => number) =>
  each(page, (value, x, y) => {
    const [right, down] = [x / page.width, y / page.height]
    const lamp = 1 - 0.72 * ((right + down) / 2) ** 0.8
    const shadow = 1 - 0.4 / (1 + Math.exp(((right - 0.75) ** 2 + (down - 0.6) ** 2 - 0.09) * 60))
    return noisy((25 + value * 0.85) * lamp * shadow, 12, random)
  })
