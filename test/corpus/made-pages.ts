/** Damaged pages with known text: skewed, photographed, inverted, faint, dotted, coarse, and tables with rules. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp, { type Sharp } from 'sharp'
import { makeScans } from '../../bench/scans.ts'
import { chain, fromUnitSquare, invert, scaling } from '../../src/ocr/homography.ts'
import { warp } from '../../src/ocr/image/warp.ts'
import { pageImage } from '../support/data/page-image.ts'

interface Gray {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
}

type Damage = (page: Gray) => Promise<Gray> | Gray

const each = (page: Gray, change: (value: number, x: number, y: number) => number): Gray => ({
  ...page,
  gray: new Uint8Array(
    Uint8ClampedArray.from(page.gray, (value, at) => change(value, at % page.width, Math.floor(at / page.width))).buffer,
  ),
})

/** Returns a hash instead of a random number: the pages are equal in each run. */
const grain = (x: number, y: number): number => ((Math.imul(x * 7919 + y * 104729 + 12345, 2654435761) >>> 16) & 255) / 255 - 0.5

const toSharp = ({ gray, width, height }: Gray) => sharp(gray, { raw: { width, height, channels: 1 } })

async function toGray(image: Sharp): Promise<Gray> {
  const { data, info } = await image.toColourspace('b-w').raw().toBuffer({ resolveWithObject: true })
  return { gray: data, width: info.width, height: info.height }
}

const rotated =
  (degrees: number): Damage =>
  (page) =>
    toGray(toSharp(page).rotate(degrees, { background: '#f0f0f0' }))

/** A photo on a dark table, in perspective and lamp light. */
const photographed: Damage = (page) => {
  const size = { width: Math.round(page.width * 1.25), height: Math.round(page.height * 1.2) }
  const corners = [
    { x: 0.14, y: 0.06 },
    { x: 0.88, y: 0.11 },
    { x: 0.96, y: 0.93 },
    { x: 0.05, y: 0.97 },
  ].map(({ x, y }) => ({ x: x * size.width, y: y * size.height })) as Parameters<typeof fromUnitSquare>[0] & { x: number; y: number }[]
  const toPage = chain(invert(fromUnitSquare(corners)), scaling(page.width, page.height))
  const sheet = warp(page, toPage, size)
  const isOnSheet = (x: number, y: number) =>
    corners.every((corner, i) => {
      const next = corners[(i + 1) % 4]!
      return (next.x - corner.x) * (y - corner.y) - (next.y - corner.y) * (x - corner.x) >= 0
    })
  return each(
    sheet,
    (value, x, y) => (isOnSheet(x, y) ? value * (1 - (0.3 * x) / size.width) : 60 + 12 * Math.sin(x / 50)) + grain(x, y) * 8,
  )
}

const inverted: Damage = (page) => each(page, (value) => 255 - value)

/** Light letters in a dark band across the middle, whose edges run between lines of text. */
const partlyInverted: Damage = (page) => {
  const isBlank = (y: number) => page.gray.subarray(y * page.width, (y + 1) * page.width).every((value) => value > 140)
  const blankRows = Array.from({ length: page.height }, (_, y) => y).filter(isBlank)
  const [top, bottom] = [0.3, 0.6].map((share) => blankRows.find((y) => y > page.height * share)! + 1)
  return each(page, (value, _, y) => (y > top! && y < bottom! ? 255 - value : value))
}

/** Faint gray on gray paper, fading towards one side. */
const thermal: Damage = (page) => each(page, (value, x, y) => 205 - (1 - value / 255) * (75 - (30 * x) / page.width) + grain(x, y) * 14)

/** Dots of a dot matrix printer with gaps between them. */
const dotted: Damage = async (page) => {
  const dots = each(page, (value, x, y) => (value < 150 && Math.hypot((x % 3) - 1, (y % 3) - 1) < 1.2 ? 40 : 235))
  return toGray(toSharp(dots).blur(0.6))
}

const coarse: Damage = (page) => toGray(toSharp(page).resize({ width: Math.round(page.width / 2) }))

const scanned: Readonly<Record<string, Damage>> = {
  'skew-2': rotated(2),
  'skew-7': rotated(-7),
  'skew-14': rotated(14),
  'quarter-turn': rotated(90),
  'quarter-turn-skewed': rotated(-93),
  'upside-down': rotated(180),
  photographed,
  inverted,
  'partly-inverted': partlyInverted,
  thermal,
  dotted,
  coarse,
}

/** A table of amounts, with lines around all cells. */
async function ruledTable(rows: number): Promise<{ page: Gray; lines: string[] }> {
  const columns = ['Article', 'Quantity', 'Unit price', 'Discount', 'Amount']
  const articles = ['oak table', 'office chair', 'desk lamp', 'bookcase', 'cupboard', 'carpet']
  const cells = Array.from({ length: rows }, (_, row) => [
    articles[row % articles.length]!,
    String(2 + ((row * 7) % 40)),
    `${(12 + row * 3.7).toFixed(2)}`,
    `${(row * 3) % 15}%`,
    `${(140 + row * 31.45).toFixed(2)}`,
  ])
  const lines = [columns, ...cells].flatMap((line) => [line.map((cell) => cell.padEnd(14)).join(''), ''])
  const page = await pageImage(lines, { font: 'Courier', size: 9, dpi: 200 })
  const [pixels, gray] = [200 / 72, new Uint8Array(page.gray)]
  // Courier is 0.6 em wide; a row takes two lines of 1.3 em.
  const [left, top, width, height] = [56 - 6, 56 - 4, 14 * 9 * 0.6, 2 * 9 * 1.3]
  const lineAt = (x0: number, y0: number, x1: number, y1: number) => {
    for (let y = Math.round(y0 * pixels); y <= Math.round(y1 * pixels) + 2; y++)
      gray.fill(30, y * page.width + Math.round(x0 * pixels), y * page.width + Math.round(x1 * pixels) + 3)
  }
  for (let row = 0; row <= rows + 1; row++) lineAt(left, top + row * height, left + columns.length * width, top + row * height)
  for (let column = 0; column <= columns.length; column++)
    lineAt(left + column * width, top, left + column * width, top + (rows + 1) * height)
  return { page: { ...page, gray }, lines: [columns, ...cells].map((line) => line.join(' ')) }
}

/** Writes the pages as JPEGs, each with its text beside it. */
export async function makePages(folder: string): Promise<void> {
  const write = async (name: string, page: Gray, text: string) => {
    await writeFile(join(folder, `${name}.jpg`), await toSharp(page).withMetadata({ density: 200 }).jpeg({ quality: 90 }).toBuffer())
    await writeFile(join(folder, `${name}.txt`), text)
  }
  const scans = await makeScans(2, 'clean', 200)
  for (const [name, damage] of Object.entries(scanned)) {
    for (const [index, { jpeg, truth }] of scans.entries()) {
      await write(`${name}-${index + 1}`, await damage(await toGray(sharp(jpeg))), truth)
    }
  }
  const { page, lines } = await ruledTable(26)
  await write('table', page, lines.join('\n'))
  await write('table-skewed', await toGray(toSharp(page).rotate(3, { background: '#ffffff' })), lines.join('\n'))
}
