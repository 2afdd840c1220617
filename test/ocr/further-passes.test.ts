import { expect, test } from 'vitest'
import { addMissingWords, mergePasses } from '../../src/ocr/merge-words.ts'
import { openPassBudget } from '../../src/ocr/pass-budget.ts'
import { recognizePage } from '../../src/ocr/recognize.ts'
import { joinWords } from '../../src/ocr/words.ts'
import type { OcrEngine, OcrLayout, OcrQuality, OcrWord, PageImage } from '../../src/ports/ocr-engine.ts'
import { pageImage } from '../support/data/page-image.ts'

const page = await pageImage(Array.from({ length: 8 }, () => 'Total amount payable within thirty days of receipt'))

const word = (text: string, confidence: number, left: number, line = 0): OcrWord => ({
  text,
  confidence,
  box: { left, top: 10 + line * 30, width: text.length * 10, height: 20 },
  line,
  paragraph: 0,
})

/** An engine with scripted results by layout, which records the requested layouts. */
function fakeEngine(answers: Partial<Record<OcrLayout, readonly OcrWord[]>>, onPass = () => {}) {
  const layouts: OcrLayout[] = []
  const engine: OcrEngine = {
    name: 'fake',
    async recognize(_: PageImage, __: string, { layout }) {
      layouts.push(layout)
      onPass()
      return joinWords(answers[layout] ?? [])
    },
    hasSecondModel: () => false,
    detectScript: async () => null,
    close: async () => {},
  }
  return { engine, layouts }
}

const covering = (confidence: number): OcrWord[] => [
  { text: 'everything', confidence, box: { left: 0, top: 0, width: page.width, height: page.height }, line: 0, paragraph: 0 },
]

test.each([
  ['fast', 0.7, ['auto']],
  ['balanced', 0.95, ['auto']],
  ['balanced', 0.7, ['auto', 'block', 'auto']],
  ['best', 0.95, ['auto', 'block', 'auto', 'sparse']],
] as [OcrQuality, number, OcrLayout[]][])('%s reads a page of confidence %d with layouts %j', async (quality, confidence, expected) => {
  const { engine, layouts } = fakeEngine({ auto: covering(confidence), block: covering(0.5), sparse: [] })
  const budget = openPassBudget()
  await recognizePage(engine, page, 'eng', { quality, budget })
  expect([layouts, budget.isExceeded]).toEqual([expected, false])
})

test('ink outside of all words is read in another pass', async () => {
  const { engine, layouts } = fakeEngine({
    auto: [word('Total', 0.95, 120)],
    sparse: [word('payable', 0.9, 600, 3), word('~', 0.9, 900, 3)],
  })
  const { text } = await recognizePage(engine, page, 'eng')
  expect(layouts).toEqual(['auto', 'sparse'])
  expect(text).toBe('Total\npayable')
})

test.each([
  [119, ['auto'], true],
  [159, ['auto', 'auto'], true],
  [201, ['auto', 'auto', 'block', 'auto'], true],
  [241, ['auto', 'auto', 'block', 'auto', 'sparse'], false],
] as [number, OcrLayout[], boolean][])(
  'of passes of 40 ms within %d ms only those with layouts %j; incomplete: %s',
  async (limitMs, expected, isIncomplete) => {
    let leftMs = limitMs
    const { engine, layouts } = fakeEngine({ auto: covering(0.3), block: covering(0.3) }, () => {
      leftMs -= 40
    })
    const budget = openPassBudget(() => leftMs)
    await recognizePage(engine, page, 'eng', { quality: 'best', budget })
    expect([layouts, budget.isExceeded]).toEqual([expected, isIncomplete])
  },
)

test('the more certain of two readings of a word wins', () => {
  const first = joinWords([word('T0ta1', 0.4, 0), word('amount', 0.93, 100), word('due', 0.7, 200)])
  const second = joinWords([word('Total', 0.8, 2), word('arnount', 0.9, 101), word('dve', 0.5, 200)])
  expect(mergePasses(first, [second]).text).toBe('Total amount due')
})

test('two passes that read the same word outvote a more certain third one', () => {
  const read = (text: string, confidence: number) => joinWords([word(text, confidence, 0), word('receipt', 0.9, 200)])
  const { text, confidence } = mergePasses(read('tnirty', 0.8), [read('thirty', 0.5), read('thirty', 0.6)])
  expect(text).toBe('thirty receipt')
  expect(confidence).toBeCloseTo((6 * 0.6 + 7 * 0.9) / 13)
})

test('a reading of half a word does not replace it', () => {
  expect(mergePasses(joinWords([word('receipt', 0.5, 0)]), [joinWords([word('rec', 0.9, 0)])]).text).toBe('receipt')
})

test.each([
  ['balanced', 0.7, 0.7, 'the second model joins the vote', 'thirty', ['auto', 'block', 'enlarged', 'second']],
  ['balanced', 0.7, 0.99, 'a page that is certain after the enlarged pass is left', 'tnirty', ['auto', 'block', 'enlarged']],
  ['balanced', 0.95, 0.95, 'a certain page is left', 'tnirty', ['auto']],
  ['best', 0.95, 0.7, 'every page is read', 'thirty', ['auto', 'block', 'enlarged', 'second', 'sparse']],
] as [OcrQuality, number, number, string, string, string[]][])(
  'with a second model, quality %s, confidence %d and %d enlarged, %s',
  async (quality, confidence, enlargedConfidence, _, expectedText, expectedPasses) => {
    const passes: string[] = []
    const read = (text: string, certainty: number) => joinWords(covering(certainty).map((one) => ({ ...one, text })))
    const engine: OcrEngine = {
      ...fakeEngine({}).engine,
      hasSecondModel: (language) => language === 'eng',
      async recognize({ width, height }, __, { layout, model = 'first' }) {
        const isEnlarged = width > page.width
        passes.push(isEnlarged ? 'enlarged' : model === 'second' ? 'second' : layout)
        if (model === 'second') return read('thirty', 0.9)
        if (layout === 'sparse') return joinWords([])
        if (layout === 'block') return read('thirty', confidence - 0.05)
        if (!isEnlarged) return read('tnirty', confidence)
        return joinWords([{ ...word('tnirty', enlargedConfidence, 0), box: { left: 0, top: 0, width, height } }])
      },
    }
    const { text } = await recognizePage(engine, page, 'eng', { quality, budget: openPassBudget() })
    expect(text).toBe(expectedText)
    expect(passes).toEqual(expectedPasses)
  },
)

test('words of the enlarged page are voted on at their place of the page', async () => {
  const lineAt = (text: string, confidence: number, left: number, scale: number): OcrWord => ({
    ...word(text, confidence, 0),
    box: { left: left * scale, top: 120 * scale, width: 60 * scale, height: 20 * scale },
  })
  const engine: OcrEngine = {
    ...fakeEngine({}).engine,
    async recognize({ width }, _, { layout }) {
      if (layout !== 'auto') return joinWords([])
      if (width === page.width) return joinWords([lineAt('arnount', 0.6, 200, 1), lineAt('payable', 0.9, 300, 1)])
      return joinWords([lineAt('amount', 0.8, 200, 1.5), lineAt('payable', 0.9, 300, 1.5)])
    },
  }
  const { text, words } = await recognizePage(engine, page, 'eng', { quality: 'balanced', budget: openPassBudget() })
  expect(text).toBe('amount payable')
  expect(words[0]?.box.left).toBeCloseTo(200 / page.width)
})

test('parts of Chinese and Japanese lines are joined, other words are separated', () => {
  const parts = ['\u5173\u4e8e', '\u7ea2', '\u519b', '\u3002', 'PDF', '\u306f', '\ud55c\uad6d', '\uc5b4']
  expect(joinWords(parts.map((part, i) => word(part, 0.9, i * 100))).text).toBe(
    '\u5173\u4e8e\u7ea2\u519b\u3002 PDF \u306f \ud55c\uad6d \uc5b4',
  )
})

test('two words that one pass joined are separated', () => {
  const first = joinWords([word('grandtotal', 0.4, 0), word('12.00', 0.9, 200)])
  const second = joinWords([word('grand', 0.8, 0), word('total', 0.9, 52), word('12.00', 0.7, 200)])
  expect(mergePasses(first, [second]).text).toBe('grand total 12.00')
})

test('words that one of three passes joined keep their order', () => {
  const apart = () => joinWords([word('grand', 0.8, 0), word('total', 0.8, 52), word('12.00', 0.9, 200)])
  const joined = joinWords([word('grandtotal', 0.9, 0), word('12.00', 0.9, 200)])
  expect(mergePasses(joined, [apart(), apart()]).text).toBe('grand total 12.00')
  expect(mergePasses(apart(), [apart(), joined]).text).toBe('grand total 12.00')
})

test('a rule beside two lines does not join them', () => {
  const rule: OcrWord = { ...word('|', 0.9, 0), box: { left: 0, top: 10, width: 5, height: 50 } }
  const lines = joinWords([word('Total', 0.8, 0), word('due', 0.8, 0, 1)])
  expect(mergePasses(lines, [joinWords([rule])]).text).toBe('Total\ndue')
})

test('missing words join the line at their height, or form a line below the one above them', () => {
  const first = joinWords([word('Chairs', 0.9, 0), word('36.00', 0.9, 300), word('Sum', 0.9, 0, 4)])
  const second = joinWords([
    word('Chairs', 0.8, 0),
    word('three', 0.9, 80),
    word('Tables', 0.9, 0, 2),
    word('??', 0.9, 400, 2),
    word('faint', 0.3, 0, 3),
  ])
  expect(addMissingWords(first, second).text).toBe('Chairs three 36.00\nTables\nSum')
})
