/** The words of a query in one document. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { ReadPage } from '../../src/ports/document-reader.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { fakeReader } from '../support/fake-reader.ts'
import { insertDocument } from '../support/search-suite.ts'

type App = Awaited<ReturnType<typeof startApp>>['app']

const box = (left: number) => ({ left, top: 0.2, width: 0.1, height: 0.02 })

/** Reads a scan of two pages, with a box for each word. */
async function readScan(app: App, texts: readonly string[]) {
  const page = async (_file: unknown, number: number): Promise<ReadPage> => ({
    ...{ text: texts[number - 1]!, confidence: 0.91, angle: 0, language: 'deu', width: 100, height: 200 },
    words: texts[number - 1]!.split(/\s+/).map((text, nth) => ({ text, confidence: 0.9, box: box(nth / 10) })),
  })
  const worker = await startWorker(
    { ...app, reader: { ...fakeReader(texts.length), page } },
    { queues: ['ocr', 'index'], concurrency: 1, name: 'here/1' },
  )
  await worker.idle()
  await worker.stop(60_000)
}

test('a scan: the pages, the places in their texts and the boxes of OCR; divided words, stems, phrases and typos match as in snippets', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await readScan(app, ['Die Rech-\nnung vom März', 'Rechnungen und <b>Quittung</b>, Rechnung'])
  const find = async (q: string, more = {}) => (await asAda.search.matches(id, { q, boxes: true, ...more })).pages
  const lefts = async (q: string, more = {}) => (await find(q, more)).map(({ page, boxes }) => [page, boxes?.map(({ left }) => left)])
  expect(await find('quittung rechnung ')).toEqual([
    { page: 1, terms: 1, matches: [{ start: 4, end: 14 }], boxes: [box(0.1), box(0.2)] },
    {
      page: 2,
      terms: 2,
      matches: [
        { start: 0, end: 10 },
        { start: 18, end: 26 },
        { start: 32, end: 40 },
      ],
      boxes: [box(0), box(0.2), box(0.3)],
    },
  ])
  expect(await lefts('"vom märz"')).toEqual([[1, [0.3, 0.4]]])
  expect(await lefts('type:pdf MARZ')).toEqual([[1, [0.4]]])
  expect(await lefts('title:märz')).toEqual([])
  expect(await lefts('-märz quittung')).toEqual([[2, [0.2]]])
  expect(await lefts('quitting x')).toEqual([])
  expect(await lefts('quitting x', { fuzzy: true })).toEqual([[2, [0.2]]])
  expect(await lefts('rechnung', { from: 2 })).toEqual([[2, [0, 0.3]]])
  expect((await asAda.search.matches(id, { q: 'märz' })).pages).toEqual([{ page: 1, terms: 1, matches: [{ start: 19, end: 23 }] }])
})

test('a PDF with text: boxes of its text layer on the page as displayed, also on a turned page', async () => {
  const { asAda, runJobs } = await startApp()
  const text = ['Nothing here', 'The harbour fee']
  const { id } = await upload(
    asAda,
    'a.pdf',
    pdf({
      pages: [
        { text, leading: 40 },
        { text, leading: 40, rotate: 90 },
      ],
    }),
  )
  await runJobs()
  const { pages } = await asAda.search.matches(id, { q: 'harbour', boxes: true })
  const [upright, turned] = pages.map(({ boxes }) => boxes?.[0])
  expect(upright).toMatchObject({ left: expect.closeTo(0.18, 1), top: expect.closeTo(0.1, 1) })
  expect(upright!.width).toBeGreaterThan(4 * upright!.height)
  expect(turned!.height).toBeGreaterThan(upright!.height)
  expect(turned!.left).toBeCloseTo(1 - upright!.top - upright!.height, 2)
  expect(turned!.top).toBeCloseTo(upright!.left, 2)
})

test('a long document: at most 100 pages of an answer, and the page from which the next one continues', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(
    asAda,
    'a.pdf',
    pdf({ pages: Array.from({ length: 120 }, (_, i) => ({ text: [i === 3 ? 'none' : 'harbour'] })) }),
  )
  await runJobs()
  const first = await asAda.search.matches(id, { q: 'harbour' })
  expect([first.pages.length, first.next]).toEqual([100, 102])
  expect((await asAda.search.matches(id, { q: 'harbour', from: 102 })).pages.map(({ page }) => page)).toEqual(
    Array.from({ length: 19 }, (_, i) => 102 + i),
  )
  expect((await asAda.search.matches(id, { q: 'harbour', from: 4, limit: 1 })).pages).toEqual([])
})

test('the event loop has turns while a page of a million characters without spaces is searched', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  await runJobs()
  expect((await asAda.search.matches(id, { q: 'hello' })).pages).toHaveLength(1)
  await sql`update document_pages set text = repeat('漢字仮名', 250000) where document_id = ${id}`.execute(app.db)
  let [longestMs, totalMs] = [0, 0]
  let before = process.cpuUsage()
  const measure = () => {
    const { user, system } = process.cpuUsage(before)
    longestMs = Math.max(longestMs, (user + system) / 1000)
    totalMs += (user + system) / 1000
    before = process.cpuUsage()
  }
  const timer = setInterval(measure, 1)
  expect(await asAda.search.matches(id, { q: '仮漢仮漢' })).toEqual({ pages: [], next: null })
  measure()
  clearInterval(timer)
  // Without turns, more than a second of processor time, and nearly all of it.
  expect(longestMs).toBeLessThan(Math.max(300, totalMs / 3))
})

test('stems and typos match without the embedded index too', async () => {
  const { app, ada, asAda } = await startApp({
    'search.engine': 'opensearch',
    'search.opensearch_urls': 'http://127.0.0.1:1',
    'search.keep_embedded': false,
  })
  const id = await insertDocument(app.db, ada.id)
  const texts = ['a house in Malmö', 'nothing', 'gardens']
  for (const [nth, text] of texts.entries())
    await sql`insert into document_pages (document_id, page, text) values (${id}, ${nth + 1}, ${text})`.execute(app.db)
  await sql`insert into search_languages (language) values ('eng')`.execute(app.db)
  const find = async (q: string, more = {}) => (await asAda.search.matches(id, { q, ...more })).pages
  expect(await find('houses garden ')).toEqual([
    { page: 1, terms: 1, matches: [{ start: 2, end: 7 }] },
    { page: 3, terms: 1, matches: [{ start: 0, end: 7 }] },
  ])
  expect(await find('houze ')).toEqual([])
  expect(await find('houze ', { fuzzy: true })).toEqual([{ page: 1, terms: 1, matches: [{ start: 2, end: 7 }] }])
})
