import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { noFilter, type SearchQuery } from '../../src/ports/search-engine.ts'
import { openPostgres } from '../../src/search/engines/postgres/engine.ts'
import { reindex, status } from '../../src/search/reindex.ts'
import { verify } from '../../src/search/verify.ts'
import { startApp, upload } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'

const plainly: Omit<SearchQuery, 'text'> = { fuzzy: false, highlight: false, filter: noFilter, offset: 0, limit: 1000, maxResults: 1000 }

const url = process.env.OPENSEARCH_URL ?? ''

describe.skipIf(url === '')(`OpenSearch indexes${url === '' ? ' (skipped: OPENSEARCH_URL names no server)' : ''}`, () => {
  async function start(more: Parameters<typeof startApp>[0] = {}) {
    const index = `test-${crypto.randomUUID()}`
    onTestFinished(async () => {
      await fetch(`${url}/${index}-*`, { method: 'DELETE' })
    })
    const settings = { 'search.opensearch_urls': url, 'search.opensearch_index': index, 'search.opensearch_refresh_interval': '50ms' }
    const all = await startApp({ 'search.engine': 'opensearch', ...settings, ...more })
    const ask = async (method: string, path: string, body?: object) => {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${url}${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) })
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    }
    const indexes = async () => Object.keys((await ask('GET', `/${index}-*`)).body)
    return { ...all, index, ask, indexes }
  }

  test('a late write of an older version restores neither a text nor a deleted document', async () => {
    const { app, ada, index, ask } = await start()
    const id = await insertDocument(app.db, ada.id, { content: 'first' })
    await app.search.refresh([id])
    const { body } = await ask('GET', `/${index}/_doc/${id}`)
    const late = () =>
      ask('PUT', `/${index}/_doc/${id}?version=${Number(body._version)}&version_type=external&refresh=true`, body._source as object)
    await app.db.updateTable('documents').set({ content: 'second' }).where('id', '=', id).execute()
    await app.search.refresh([id])
    expect((await late()).status).toBe(409)
    await app.db.deleteFrom('documents').where('id', '=', id).execute()
    await app.search.refresh([id])
    expect((await late()).status).toBe(409)
    expect((await app.search.search({ ...plainly, text: 'first' })).total).toBe(0)
  })

  test('changes and deletions are found after the clock of the database was set back', async () => {
    const { app, ada, setDatabaseClock } = await start()
    const [changed, gone] = [
      await insertDocument(app.db, ada.id, { content: 'first' }),
      await insertDocument(app.db, ada.id, { content: 'first' }),
    ]
    await app.search.refresh([changed, gone])
    await setDatabaseClock(-3_600_000)
    for (const content of ['second', 'third']) {
      await app.db.updateTable('documents').set({ content }).where('id', '=', changed).execute()
      await app.search.refresh([changed])
      expect((await app.search.search({ ...plainly, text: content })).total).toBe(1)
    }
    await app.db.updateTable('documents').set({ deleted_at: app.now() }).where('id', '=', gone).execute()
    await app.search.refresh([gone])
    expect((await app.search.search({ ...plainly, text: 'first' })).total).toBe(0)
    await app.db.updateTable('documents').set({ deleted_at: null }).where('id', '=', gone).execute()
    await app.search.refresh([gone])
    expect((await app.search.search({ ...plainly, text: 'first' })).total).toBe(1)
  })

  test('a reindex moves the alias, removes indexes of killed ones, keeps the old index with --keep-old, and empties the embedded one', async () => {
    const { app, ada, index, ask, indexes } = await start({ 'search.keep_embedded': true })
    const ids = [await insertDocument(app.db, ada.id, { content: 'alpha' }), await insertDocument(app.db, ada.id, { content: 'alpha' })]
    await app.search.refresh(ids)
    const entries = async () => (await sql<{ n: number }>`select count(*)::integer as n from search_entries`.execute(app.db)).rows[0]!.n
    expect(await entries()).toBe(2)
    await ask('PUT', `/${index}-0123456789abcdef`)
    await ask('PUT', `/${index}-of-somebody-else`)
    const [old] = (await indexes()).filter((name) => name.endsWith('0'.repeat(16)))
    expect(await reindex(app, { keepOld: true })).toMatchObject({ documents: 2, swapped: true, kept: `${index}-old` })
    expect(await indexes()).not.toContain(`${index}-0123456789abcdef`)
    expect(await indexes()).toContain(old)
    expect(await reindex(app, { ifNeeded: true })).toMatchObject({ skipped: true })
    expect(await reindex(app)).toMatchObject({ documents: 2, swapped: true })
    expect(await indexes()).not.toContain(old)
    expect(await indexes()).toContain(`${index}-of-somebody-else`)
    expect(await indexes()).toHaveLength(2)
    expect((await app.search.search({ ...plainly, text: 'alpha' })).total).toBe(2)
    expect(await status(app)).toMatchObject({ engine: 'opensearch', documents: 2, drift: 0, outdated: 0 })
    expect(await entries()).toBe(2)
  })

  test('verify and status report missing, extra and stale entries', async () => {
    const { app, ada, index, ask } = await start({ 'search.keep_embedded': false })
    const ids: string[] = []
    for (const content of ['alpha beta', 'gamma', 'delta']) ids.push(await insertDocument(app.db, ada.id, { content }))
    await app.search.refresh(ids)
    expect(await Array.fromAsync(verify(app, { sample: 10 }))).toEqual([])
    const { body } = await ask('GET', `/${index}/_doc/${ids[0]}`)
    const entry = body._source as Record<string, unknown>
    const version = 'version=9999999999999999&version_type=external&refresh=true'
    await ask('PUT', `/${index}/_doc/${ids[0]}?${version}`, { ...entry, content: 'alpha zeta', any: 'alpha zeta' })
    await ask('DELETE', `/${index}/_doc/${ids[1]}?refresh=true`)
    const other = '01900000-0000-7000-8000-000000000001'
    await ask('PUT', `/${index}/_doc/${other}?refresh=true`, { ...entry, id: other })
    const faults = await Array.fromAsync(verify(app, { sample: 10 }))
    expect(
      faults
        .filter(({ problem }) => problem !== 'unfound')
        .map(({ document_id, problem, left, lacks }) => [document_id, problem, left, lacks])
        .sort(),
    ).toEqual(
      [
        [ids[0], 'stale', ['zeta'], ['beta']],
        [ids[1], 'missing', [], []],
        [other, 'extra', [], []],
      ].sort(),
    )
  })

  test('with keep_embedded = false a reindex empties the embedded index, and nothing writes it', async () => {
    const { app, asAda, ada, runJobs } = await start({ 'search.keep_embedded': false })
    await sql`insert into search_words (word) values ('leftover')`.execute(app.db)
    await upload(asAda, 'a.txt', 'Rechnungen und Verträge für die Wohnung, invoices and receipts')
    await insertDocument(app.db, ada.id, { content: 'more' })
    await runJobs()
    await reindex(app)
    const counts = await sql<{ n: number }>`
      select (select count(*) from search_entries)::integer + (select count(*) from search_words)::integer + (select count(*) from search_passages)::integer as n`.execute(
      app.db,
    )
    expect(counts.rows[0]!.n).toBe(0)
    const typo = await asAda.call<{ results: { highlights: { snippet: string }[] }[] }>('GET', '/api/search?q=reciepts%20and&fuzzy=true')
    expect(typo.results[0]?.highlights[0]?.snippet).toContain('<mark>receipts</mark>')
    expect((await asAda.call<{ suggestions: { text: string }[] }>('GET', '/api/search/suggest?q=invo')).suggestions[0]?.text).toBe(
      'invoices',
    )
  })

  test('without the embedded index, an archive that has one needs a reindex first: 503 SERVICE_UNAVAILABLE', async () => {
    const { app, ada } = await start({ 'search.keep_embedded': false })
    const id = await insertDocument(app.db, ada.id, { content: 'alpha' })
    await openPostgres(app.db).refresh([id])
    await expect(app.search.refresh([id])).rejects.toThrow('Fix: dms search reindex')
    await expect(app.search.search({ ...plainly, text: 'alpha' })).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
    await reindex(app)
    expect((await app.search.search({ ...plainly, text: 'alpha' })).total).toBe(1)
    expect(await openPostgres(app.db).count()).toBe(0)
  })

  test('a deletion as the first change creates the index with its alias; an index that has the name of the alias is named in the error', async () => {
    const { app, ada, index, ask, indexes } = await start({ 'search.keep_embedded': false })
    const id = await insertDocument(app.db, ada.id, { content: 'alpha' })
    await ask('PUT', `/${index}`)
    await expect(app.search.refresh([id])).rejects.toThrow('an index exists with the same name as the alias')
    await ask('DELETE', `/${index}`)
    await app.search.refresh(['01900000-0000-7000-8000-000000000009'])
    expect(await indexes()).toEqual([`${index}-${'0'.repeat(16)}`])
    expect((await app.search.search({ ...plainly, text: 'alpha' })).total).toBe(1)
  })

  test('queries at their limits are answered, or are 400 VALIDATION_ERROR if OpenSearch accepts no more words', async () => {
    const { app, asAda, ada } = await start({ 'search.keep_embedded': false })
    const id = await insertDocument(app.db, ada.id, { content: 'alpha' })
    await app.search.refresh([id])
    const letters = Array.from({ length: 500 }, (_, nth) => String.fromCodePoint(0x4e00 + nth))
    const texts = [letters.join(' '), letters.slice(0, 250).join('-a '), `${'-'.repeat(400)}${'x"*?\\ '.repeat(100)}`, 'a'.repeat(1000)]
    for (const q of texts)
      for (const fuzzy of [false, true])
        expect(
          (await asAda.send('GET', `/api/search?${new URLSearchParams({ q: [...q].slice(0, 1000).join(''), fuzzy: String(fuzzy) })}`))
            .status,
          q,
        ).toBe(200)
    const clauses = (type: string, value: string) =>
      Array.from({ length: 100 }, (_, nth) => ({ field: 'any', type, value: `${value}${nth}` }))
    for (const type of ['match', 'contains', 'exact'])
      expect((await asAda.send('POST', '/api/search/advanced', { query: { must: clauses(type, 'alp*?') } })).status, type).toBe(200)
    // Different conditions: equal ones count once.
    const words = Array.from({ length: 9 }, (_, nth) => ({ field: 'any', value: `${letters.join(' ')} ${nth}` }))
    const refused = await asAda.send('POST', '/api/search/advanced', { query: { must: words } })
    expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([400, 'VALIDATION_ERROR'])
  })

  test('conditions are literal and of any length: wildcards in names of metadata, 1,000 equal characters; typos of many words', async () => {
    const { app, asAda, ada } = await start({ 'search.keep_embedded': false })
    const [long, other] = ['a'.repeat(900), `${'a'.repeat(899)}b`]
    const words = ['archaeology', 'strawberry', 'watermelon', 'locomotive', 'basketball', 'adventurer', 'philosophy', 'harbourmaster']
    const letters = [...'bcdfghjklmnp']
    const typos = words.flatMap((word) => [...word].flatMap((_, at) => letters.map((one) => word.slice(0, at) + one + word.slice(at + 1))))
    const ids = [
      await insertDocument(app.db, ada.id, { title: 'One', content: `${words.join(' ')} ${typos.join(' ')}` }),
      await insertDocument(app.db, ada.id, { title: 'Two', content: long }),
    ]
    const metadata = JSON.stringify({ number: long, 'a*': 'x' })
    await app.db.updateTable('documents').set({ metadata }).where('id', '=', ids[1]!).execute()
    await app.search.refresh(ids)
    const total = async (field: string, value: string) =>
      (await asAda.call<{ total: number }>('POST', '/api/search/advanced', { query: { must: [{ field, value, type: 'contains' }] } })).total
    expect(await total('metadata.number', long.slice(1))).toBe(1)
    expect(await total('metadata.number', other)).toBe(0)
    expect(await total('content', long.slice(0, 250))).toBe(1)
    expect(await total('content', `b${long.slice(0, 250)}`)).toBe(0)
    expect(await total('metadata.a*', 'x')).toBe(1)
    expect(await total('metadata.*', 'a')).toBe(0)
    expect(await total('metadata.numbe?', 'a')).toBe(0)
    const mistyped = words.map((word) => `${word.slice(0, 2)}z${word.slice(3)}`).join(' ')
    expect((await asAda.search.query(`${mistyped} `, { fuzzy: true })).total).toBe(1)
  })

  test('503 SERVICE_UNAVAILABLE if the new index of a reindex is removed: it is not created again with another mapping', async () => {
    const { app, ada, index, ask, indexes } = await start({ 'search.keep_embedded': false })
    const ids = [await insertDocument(app.db, ada.id), await insertDocument(app.db, ada.id)] as const
    await app.search.refresh(ids)
    const before = await indexes()
    const next = await app.search.rebuild()
    await next.put([ids[0]])
    for (const name of await indexes()) if (!before.includes(name)) await ask('DELETE', `/${name}`)
    await expect(next.put([ids[1]])).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
    await expect(next.put(['01900000-0000-7000-8000-000000000009'])).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
    await expect(next.swap()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
    expect([await indexes(), (await ask('GET', `/_alias/${index}`)).status]).toEqual([before, 200])
  })

  test('more results than a window of OpenSearch has are read from a point in time', async () => {
    const { app, ada, index, ask } = await start()
    const id = await insertDocument(app.db, ada.id, { content: 'alpha' })
    await app.search.refresh([id])
    const { body } = await ask('GET', `/${index}/_doc/${id}`)
    const source = { ...(body._source as object), any: 'alpha' }
    const ids = Array.from({ length: 10_050 }, (_, nth) => `01900000-0000-7000-8000-${String(nth).padStart(12, '0')}`)
    const lines = ids.flatMap((id) => [{ index: { _id: id } }, { ...source, id }].map((line) => `${JSON.stringify(line)}\n`))
    await fetch(`${url}/${index}/_bulk?refresh=true`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: lines.join(''),
    })
    const answer = await app.search.search({ ...plainly, text: 'alpha', maxResults: 20_000, offset: 10_040, limit: 20 })
    expect([answer.total, answer.isCapped, answer.facets.mime_types]).toEqual([10_051, false, { 'text/plain': 10_051 }])
    expect((await app.search.search({ ...plainly, text: 'alpha', maxResults: 10_020 })).isCapped).toBe(true)
  })
})
