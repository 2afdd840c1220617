import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { engines } from '../../src/ocr/engines/registry.ts'
import { chain, type Homography, invert, mapBox, mapPoint, rotation, scaling, translation } from '../../src/ocr/homography.ts'
import { findOcr } from '../../src/ocr/languages.ts'
import { recognizePage } from '../../src/ocr/recognize.ts'
import { findTesseract } from '../../src/ocr/tesseract-program.ts'
import type { OcrEngine, OcrSetup } from '../../src/ports/ocr-engine.ts'
import { pageImage } from '../support/data/page-image.ts'
import { turned } from '../support/data/turned.ts'

const folder = await mkdtemp(join(tmpdir(), 'dms-ocr-'))
afterAll(() => rm(folder, { recursive: true, force: true }))
const program = await findTesseract()
const letter = [
  'Invoice for the delivery of furniture',
  'Four tables, twelve chairs, one bookcase',
  'payable within thirty days of receipt',
]

describe.each(Object.keys(engines) as OcrSetup['engine'][])('%s', (name) => {
  describe.skipIf(name === 'tesseract-native' && !program)('gives boxes of words', () => {
    let engine: OcrEngine
    beforeAll(async () => {
      engine = await engines[name](await findOcr({ engine: name, dataPath: '' }), folder)
    })
    afterAll(() => engine?.close())

    test.each(['auto', 'block', 'sparse'] as const)('in pixels, in lines and paragraphs, with layout %s', async (layout) => {
      const page = await pageImage(letter)
      const { words } = await engine.recognize(page, 'eng', { layout })
      expect(words.map(({ text }) => text)).toContain('furniture')
      const [invoice, payable] = ['Invoice', 'payable'].map((text) => words.find((word) => word.text === text))
      // The letter begins 56 points from the left and from the top; a line takes 15.6 points.
      const pixels = 150 / 72
      expect(invoice?.box.left).toBeCloseTo(56 * pixels, -1)
      expect((payable?.box.top ?? 0) - (invoice?.box.top ?? 0)).toBeCloseTo(2 * 15.6 * pixels, -1)
      expect(invoice?.confidence).toBeGreaterThan(0.8)
      expect(invoice?.confidence).toBeLessThanOrEqual(1)
      expect(payable?.line).toBeGreaterThan(invoice?.line ?? 9)
    })

    test.each([
      [0, 0],
      [90, 90],
      [180, 180],
      [270, -90],
    ])('in fractions of the displayed page, which is rotated by %i degrees', async (degrees, angle) => {
      const page = turned(await pageImage(letter), degrees)
      const { words, angle: found } = await recognizePage(engine, page, 'eng')
      expect(found).toBe(angle)
      for (const word of ['Invoice', 'furniture', 'receipt']) {
        const box = words.find(({ text }) => text === word)?.box ?? { left: 0, top: 0, width: 0, height: 0 }
        expect(inkInside(page, box)).toBeGreaterThan(0.1)
        expect(Math.max(box.width * page.width, box.height * page.height)).toBeGreaterThan(60)
        expect(Math.min(box.width * page.width, box.height * page.height)).toBeLessThan(40)
      }
    })
  })
})

describe('homographies', () => {
  const tilt: Homography = [1.1, 0.2, 30, -0.1, 0.9, 12, 0.0002, 0.0001, 1]

  test('the inverse maps back to the point', () => {
    const { x, y } = mapPoint(invert(tilt), mapPoint(tilt, { x: 120, y: 340 }))
    expect([x, y]).toEqual([expect.closeTo(120, 6), expect.closeTo(340, 6)])
  })

  test('a chain applies one after the other', () => {
    const map = chain(chain(scaling(2, 2), rotation(90)), translation(100, 0))
    const { x, y } = mapPoint(map, { x: 10, y: 20 })
    expect([x, y]).toEqual([expect.closeTo(60, 6), expect.closeTo(20, 6)])
  })

  test('a rotated box becomes its bounding box', () => {
    const { left, top, width, height } = mapBox(rotation(90), { left: 10, top: 20, width: 30, height: 5 })
    expect([left, top, width, height].map(Math.round)).toEqual([-25, 10, 5, 30])
  })
})

/** Returns the share of dark pixels in a box of fractions. */
function inkInside(
  page: { gray: Uint8Array; width: number; height: number },
  box: { left: number; top: number; width: number; height: number },
) {
  let [dark, count] = [0, 0]
  for (let y = Math.ceil(box.top * page.height); y < (box.top + box.height) * page.height; y++) {
    for (let x = Math.ceil(box.left * page.width); x < (box.left + box.width) * page.width; x++) {
      count++
      if ((page.gray[y * page.width + x] ?? 255) < 128) dark++
    }
  }
  return dark / count
}
