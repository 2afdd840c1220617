/** Searches for words that no document has together. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'

type Query = Parameters<Awaited<ReturnType<typeof startApp>>['asAda']['search']['query']>

async function start() {
  const { app, ada, asAda, asBob } = await startApp()
  for (const [title, content] of [
    ['Fee', 'harbour dues of the brigantine in Bremen'],
    ['Log', 'the brigantine left the harbour of Kiel'],
    ['Menu', 'soup of the day'],
  ] as const)
    await app.search.refresh([await insertDocument(app.db, ada.id, { title, content })])
  const find = async (...[q, options]: Query) => {
    const { results, total, relaxed, warnings } = await asAda.search.query(q, { relax: true, ...options })
    return { titles: results.map(({ title }) => title), total, relaxed, warnings: warnings.length }
  }
  return { find, asBob }
}

const none = { titles: [], total: 0, relaxed: undefined, warnings: 0 }

test('three words that no document has together: typos first, then documents without one of them, best first; the answer says so', async () => {
  const { find, asBob } = await start()
  expect(await find('harbour brigantine bremen')).toEqual({ ...none, titles: ['Fee'], total: 1 })
  expect(await find('harbour brigantyne bremen')).toEqual({ titles: ['Fee'], total: 1, relaxed: 'typos', warnings: 1 })
  const missing = { titles: ['Fee', 'Log'], total: 2, relaxed: 'missing_word', warnings: 1 }
  expect(await find('hamburg harbour brigantine')).toEqual({ ...missing, titles: expect.arrayContaining(missing.titles) })
  expect(await find('harbour dues soup')).toEqual({ ...missing, titles: ['Fee'], total: 1 })
  expect(await find('harbour brigantine hamburg', { page: 2, per_page: 1 })).toMatchObject({ titles: [expect.any(String)], total: 2 })
  expect((await find('harbour brigantine dues bremen kiel hamburg')).titles).toEqual([])
  expect((await find('harbour brigantine dues bremen kiel')).titles).toEqual(['Fee'])
  expect((await find('harbour dues of the brigantine in bremen hamburg')).titles).toEqual(['Fee'])
  expect((await find('of the harbour brigantine left dues kiel bremen menu')).titles).toEqual([])
  expect((await asBob.search.query('hamburg harbour brigantine', { relax: true })).total).toBe(0)
})

test('all words must match without relax, and with a phrase, an operator, a field, a filter in the query, and in one or two words', async () => {
  const { find } = await start()
  for (const q of [
    'hamburg',
    'hamburg harbour',
    '"hamburg" harbour brigantine',
    'harbour -soup brigantine hamburg',
    'title:fee harbour hamburg',
  ])
    expect([q, await find(q)]).toEqual([q, none])
  for (const q of ['harbour brigantine hamburg type:text', 'harbour OR soup brigantine hamburg'])
    expect([q, (await find(q)).total]).toEqual([q, 0])
  expect(await find('hamburg harbour brigantine', { relax: false })).toEqual(none)
})

test('relax keeps the filters', async () => {
  const { find } = await start()
  const query = 'hamburg harbour brigantine'
  expect((await find(query, { filters: { mime_types: ['text/plain'] } })).total).toBe((await find(query)).total)
  expect(await find(query, { filters: { mime_types: ['application/pdf'] } })).toEqual(none)
})
