import { expect, test } from 'vitest'
import type { SearchResults } from '../../src/search/search.ts'
import { startApp } from '../support/app.ts'
import { seeded } from '../support/data/seeded.ts'
import { insertDocument } from '../support/search-suite.ts'

test('the displayed confidence of every document finds it, a higher one does not, in lists and searches', async () => {
  const { app, ada, asAda } = await startApp()
  const below = seeded(9)
  const drafts = [0.7, 0.92336, 0.92335, 0.99999, 0.1 + 0.2, 0.00005, 1, ...Array.from({ length: 5 }, below)]
  for (const confidence of drafts) await app.search.refresh([await insertDocument(app.db, ada.id, { content: 'word', confidence })])
  await app.search.refresh([await insertDocument(app.db, ada.id, { content: 'word' })])
  const list = async (query: string): Promise<{ id: string; ocr_confidence: number | null }[]> =>
    (await asAda.call<{ data: { id: string; ocr_confidence: number | null }[] }>('GET', `/api/documents?per_page=100${query}`)).data
  const all = await list('')
  expect(all).toHaveLength(drafts.length + 1)
  for (const { ocr_confidence: shown } of all) {
    const min_confidence = shown ?? 0
    const expected = all.filter(({ ocr_confidence }) => min_confidence === 0 || (ocr_confidence ?? 0) >= min_confidence)
    const ids = expected.map(({ id }) => id).sort()
    expect((await list(`&min_confidence=${min_confidence}`)).map(({ id }) => id).sort()).toEqual(ids)
    const filters = { min_confidence }
    const byWord = await asAda.call<SearchResults>('GET', `/api/search?q=word&per_page=100&filters=${JSON.stringify(filters)}`)
    const advanced = await asAda.call<SearchResults>('POST', '/api/search/advanced', { query: {}, filters, per_page: 100 })
    for (const { results } of [byWord, advanced]) expect(results.map(({ document_id }) => document_id).sort()).toEqual(ids)
  }
  for (const value of ['2', '-1', 'high', ''])
    expect((await asAda.send('GET', `/api/documents?min_confidence=${value}`)).status, value).toBe(400)
})
