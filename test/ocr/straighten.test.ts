import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { engines } from '../../src/ocr/engines/registry.ts'
import { chain, fromUnitSquare, invert, scaling } from '../../src/ocr/homography.ts'
import type { GrayImage } from '../../src/ocr/image/illumination.ts'
import { findSheet, type Quadrilateral } from '../../src/ocr/image/perspective.ts'
import { eraseRuledLines } from '../../src/ocr/image/ruled-lines.ts'
import { findSkew } from '../../src/ocr/image/skew.ts'
import { level, warp } from '../../src/ocr/image/warp.ts'
import { findOcr } from '../../src/ocr/languages.ts'
import { prepareImage, recognizePage } from '../../src/ocr/recognize.ts'
import type { OcrEngine, PageImage } from '../../src/ports/ocr-engine.ts'
import { pageImage } from '../support/data/page-image.ts'
import { turned } from '../support/data/turned.ts'

const letter = Array.from({ length: 12 }, (_, at) => `Invoice ${at} for the delivery of furniture within thirty days of receipt`)
const page = await pageImage(letter, { size: 11 })
const tilted = (degrees: number): PageImage => ({ ...level(page, -degrees), dpi: page.dpi })

const corners: Quadrilateral = [
  { x: 150, y: 90 },
  { x: 1180, y: 210 },
  { x: 1290, y: 1700 },
  { x: 60, y: 1810 },
]
/** Returns the page on a dark table. */
function photograph(): GrayImage {
  const size = { width: 1350, height: 1900 }
  const toPage = chain(invert(fromUnitSquare(corners)), scaling(page.width, page.height))
  const sheet = warp({ ...page, gray: page.gray.map((value) => 60 + value * 0.7) }, toPage, size)
  return {
    ...size,
    gray: sheet.gray.map((value, at) => (isOnSheet(at % size.width, Math.floor(at / size.width)) ? value : 50 + ((at * 7) % 11))),
  }
}

const isOnSheet = (x: number, y: number): boolean =>
  corners.every((corner, i) => {
    const next = corners[(i + 1) % 4]!
    return (next.x - corner.x) * (y - corner.y) - (next.y - corner.y) * (x - corner.x) >= 0
  })

describe('the skew of a page', () => {
  test.each([0.4, -1.3, 5, -9.5, 15])('%d degrees', (degrees) => {
    expect(Math.abs(findSkew(tilted(degrees)) - degrees)).toBeLessThan(0.15)
  })

  test('of a page that is rotated by a quarter', () => {
    expect(Math.abs(findSkew({ ...level(turned(page, 90), -3) }) - 3)).toBeLessThan(0.15)
  })

  test.each([
    ['a level page', page],
    ['an empty page', { gray: new Uint8Array(500 * 700).fill(240), width: 500, height: 700 }],
    ['noise', { gray: Uint8Array.from({ length: 500 * 700 }, (_, at) => Math.imul(at, 2654435761) >>> 24), width: 500, height: 700 }],
    [
      'a picture with one slanting edge',
      {
        gray: Uint8Array.from({ length: 800 * 800 }, (_, at) => (Math.floor(at / 800) > (at % 800) * 0.1 + 200 ? 220 : 40)),
        width: 800,
        height: 800,
      },
    ],
  ])('is none of %s', (_, image) => {
    expect(findSkew(image)).toBe(0)
  })
})

describe('the sheet of a photographed page', () => {
  test('is found by its corners', () => {
    const found = findSheet(photograph())
    for (const [i, corner] of corners.entries()) expect(Math.hypot(found![i]!.x - corner.x, found![i]!.y - corner.y)).toBeLessThan(12)
  })

  test.each([
    ['a scan', page],
    ['a dark page', { ...page, gray: page.gray.map((value) => 255 - value) }],
    [
      'a picture without a sheet',
      { gray: Uint8Array.from({ length: 400 * 400 }, (_, at) => ((at % 400) + Math.floor(at / 400)) / 4), width: 400, height: 400 },
    ],
  ])('is none in %s', (_, image) => {
    expect(findSheet(image)).toBeNull()
  })
})

describe('ruled lines', () => {
  const ruled = (rows: number): PageImage => {
    const gray = new Uint8Array(page.gray)
    for (let row = 0; row < rows; row++) {
      for (const y of [40 + row * 90, 41 + row * 90]) gray.fill(30, y * page.width + 60, y * page.width + page.width - 60)
    }
    return { ...page, gray }
  }

  test('of a table are erased, without its letters', () => {
    const table = ruled(12)
    const erased = eraseRuledLines(table, table.dpi)
    const darkOf = ({ gray }: GrayImage) => gray.reduce((sum, value) => sum + Number(value < 128), 0)
    expect(darkOf(erased)).toBeLessThan(darkOf(page) * 1.02)
    expect(darkOf(erased)).toBeGreaterThan(darkOf(page) * 0.97)
    expect(darkOf(table)).toBeGreaterThan(darkOf(page) * 1.5)
  })

  test('that separate few parts of a page stay', () => {
    const letterhead = ruled(3)
    expect(eraseRuledLines(letterhead, letterhead.dpi)).toBe(letterhead)
    expect(eraseRuledLines(page, page.dpi)).toBe(page)
  })
})

/** Models misread one letter in a thousand, each a different one. A page that is not levelled has hardly any of its words. */
const countOf = (text: string, word: string): number => text.split(word).length - 1

describe('words of distorted pages', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-ocr-'))
  let engine: OcrEngine
  beforeAll(async () => {
    engine = await engines['tesseract-js'](await findOcr({ engine: 'tesseract-js', dataPath: '' }), folder)
  })
  afterAll(async () => {
    await engine.close()
    await rm(folder, { recursive: true, force: true })
  })

  test('a skewed page is read, and its boxes are at the words of the page as displayed', async () => {
    const { text, words, angle } = await recognizePage(engine, tilted(8), 'eng')
    expect(countOf(text, 'furniture')).toBeGreaterThanOrEqual(11)
    expect(angle).toBeCloseTo(8, 0)
    const lefts = words.filter((word) => word.text === 'Invoice').map(({ box }) => box.left)
    // Lines that rise to the left begin further left the further down they are.
    expect(lefts).toEqual(lefts.toSorted((a, b) => b - a))
  })

  test('a photographed page is read without its perspective', async () => {
    const { text, words } = await recognizePage(engine, await prepareImage({ ...photograph(), dpi: null }), 'eng')
    expect(countOf(text, 'furniture')).toBeGreaterThanOrEqual(11)
    for (const { box } of words.filter((word) => word.text === 'Invoice')) {
      expect(isOnSheet(box.left * 1350, box.top * 1900)).toBe(true)
      expect(box.left).toBeLessThan(0.3)
    }
  })
})
