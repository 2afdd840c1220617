/** Words of pages with their boxes, through versions and repeated OCR. */
import { expect, test } from 'vitest'
import type { Client } from '../../src/client/client.ts'
import type { ReadPage } from '../../src/ports/document-reader.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { fakeReader } from '../support/fake-reader.ts'

interface PageWithWords {
  page: number
  text: string
  angle?: number
  words?: { text: string; confidence: number; box: object }[]
}

type App = Awaited<ReturnType<typeof startApp>>['app']

const box = { left: 0.1, top: 0.2, width: 0.25, height: 0.02 }

/** Reads pages with one word each, `word` and the number of the page. */
async function read(app: App, word: string, pages = 2) {
  const page = async (_file: unknown, number: number): Promise<ReadPage> => ({
    ...{ text: `${word}${number}`, confidence: 0.91, angle: 1.5, language: null, width: 100, height: 200 },
    words: word === '' ? [] : [{ text: `${word}${number}`, confidence: 0.914, box }],
  })
  const worker = await startWorker({ ...app, reader: { ...fakeReader(pages), page } }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await worker.idle()
  await worker.stop(60_000)
}

const pagesOf = async (client: Client, id: string, query = '?boxes=true') =>
  (await client.call<{ pages: PageWithWords[] }>('GET', `/api/documents/${id}/pages${query}`)).pages

const wordsOf = async (client: Client, id: string) =>
  (await pagesOf(client, id)).flatMap(({ words }) => words ?? []).map(({ text }) => text)

test('boxes=true adds the words of OCR in fractions of the page, and the angle of its lines', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await read(app, 'word')
  expect((await pagesOf(asAda, id))[0]).toMatchObject({
    page: 1,
    text: 'word1',
    angle: 1.5,
    words: [{ text: 'word1', confidence: 0.91, box }],
  })
  expect((await pagesOf(asAda, id, '?boxes=true&from=2')).map(({ words }) => words?.[0]?.text)).toEqual(['word2'])
  expect(Object.keys((await pagesOf(asAda, id, ''))[0] ?? {})).not.toContain('words')
})

test('more pages than one query reads come in order', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await read(app, 'word', 23)
  expect(await wordsOf(asAda, id)).toEqual(Array.from({ length: 23 }, (_, i) => `word${i + 1}`))
})

test('a page that is read again has its new words only', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await read(app, 'old')
  await asAda.call('POST', `/api/documents/${id}/ocr/retry`, {})
  expect(await wordsOf(asAda, id)).toEqual([])
  await read(app, '', 1)
  expect((await pagesOf(asAda, id)).map(({ words }) => words)).toEqual([[]])
})

test('a restored version has the words of its source, whose own stay', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await read(app, 'first')
  await asAda.documents.replace(id, { filename: 'a.pdf', size: 8, open: () => [Buffer.from('%PDF-1.5')] })
  expect(await wordsOf(asAda, id)).toEqual([])
  await read(app, 'second', 1)
  expect(await wordsOf(asAda, id)).toEqual(['second1'])
  await asAda.call('POST', `/api/documents/${id}/versions/1/restore`)
  expect(await wordsOf(asAda, id)).toEqual(['first1', 'first2'])
  const stored = await app.db
    .selectFrom('page_words')
    .select(['number', 'page'])
    .where('document_id', '=', id)
    .orderBy('number')
    .orderBy('page')
    .execute()
  expect(stored.map(({ number, page }) => `${number}.${page}`)).toEqual(['1.1', '1.2', '2.1', '3.1', '3.2'])
})
