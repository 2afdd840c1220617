/** Highlighting and suggestions let other requests run, whatever the text. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'

async function start(settings?: Parameters<typeof startApp>[0]) {
  const all = await startApp(settings)
  const { app, ada } = all
  return {
    ...all,
    put: async (content: string) => {
      const id = await insertDocument(app.db, ada.id, { content })
      await app.search.refresh([id])
      return id
    },
  }
}

/** Returns the longest processor time of this thread between two turns of the event loop, in ms. */
async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0
  let before = process.threadCpuUsage()
  const measure = () => {
    const { user, system } = process.threadCpuUsage(before)
    longestMs = Math.max(longestMs, (user + system) / 1000)
    before = process.threadCpuUsage()
  }
  const timer = setInterval(measure, 1)
  await work()
  measure()
  clearInterval(timer)
  return longestMs
}

test('200 for a sign that is 60,000 times in a text, and for a hundred parts of it, without blocking other requests', async () => {
  const { put, asAda } = await start()
  await put('Die Räume gemäß § 12 BGB. '.repeat(60_000))
  const contains = (value: string) => ({ field: 'content', type: 'contains', value }) as const
  const search = (...should: ReturnType<typeof contains>[]) => asAda.search.advanced({ query: { should } })
  await search(contains('§'))
  const sign = await longestTurnMs(async () => expect((await search(contains('§'))).results[0]?.highlights).toHaveLength(3))
  const parts = Array.from({ length: 100 }, (_, nth) => contains(`gemäß § ${nth}`))
  const hundred = await longestTurnMs(async () => expect((await search(...parts)).total).toBe(1))
  // In one turn, they took 400 and 1,700 ms.
  expect(Math.max(sign, hundred)).toBeLessThan(200)
})

test('a page that is one chain of words is searched in turns, and not further than its matches are listed', async () => {
  const { app, put, asAda } = await start()
  const id = await put('a')
  await sql`insert into document_pages (document_id, page, text, source) values (${id}, 1, repeat('a-', 900000), 'text_layer')`.execute(
    app.db,
  )
  const longest = await longestTurnMs(async () => {
    expect((await asAda.search.matches(id, { q: 'b' })).pages).toEqual([])
    expect((await asAda.search.matches(id, { q: 'a' })).pages[0]?.matches).toHaveLength(1000)
  })
  expect(longest).toBeLessThan(200)
})

test('the words of ten pages are compared with a word in turns, without the embedded index', async () => {
  const { app, ada, asAda } = await start({
    'search.engine': 'opensearch',
    'search.opensearch_urls': 'http://127.0.0.1:1',
    'search.keep_embedded': false,
  })
  const id = await insertDocument(app.db, ada.id)
  const letters = (number: number) =>
    number
      .toString(26)
      .padStart(4, '0')
      .replace(/./g, (digit) => 'abcdefghijklmnopqrstuvwxyz'[Number.parseInt(digit, 26)]!)
  for (let page = 1; page <= 10; page++) {
    const text = Array.from({ length: 16_000 }, (_, nth) => `seven${letters(page * 16_000 + nth)}`).join(' ')
    await sql`insert into document_pages (document_id, page, text) values (${id}, ${page}, ${text})`.execute(app.db)
  }
  const longest = await longestTurnMs(async () => {
    expect((await asAda.search.matches(id, { q: 'sevenzzzz ', fuzzy: true })).pages.length).toBeGreaterThan(0)
  })
  // In one turn, the comparisons took 400 ms.
  expect(longest).toBeLessThan(200)
})
