import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { lowestConfidence } from '../../src/documents/view.ts'
import type { AppError } from '../../src/errors.ts'
import { noFilter, type SearchFilter, type SearchQuery } from '../../src/ports/search-engine.ts'
import { entryOf, maxParts } from '../../src/search/engines/meilisearch/document.ts'
import { filterOf, isExpressible, toMeilisearchQuery } from '../../src/search/engines/meilisearch/query.ts'
import { exactAttributes, includesSettings, settings } from '../../src/search/engines/meilisearch/settings.ts'
import { decodeWord, encodeWord } from '../../src/search/engines/meilisearch/word-encoding.ts'
import { openPostgres } from '../../src/search/engines/postgres/engine.ts'
import { parse } from '../../src/search/query/parser.ts'
import { reindex, status } from '../../src/search/reindex.ts'
import { startApp, upload } from '../support/app.ts'
import { insertDocument, searchSuite } from '../support/search-suite.ts'
import { startLying } from '../support/servers/lying-server.ts'
import { record, replay } from '../support/servers/search-exchange.ts'

/** A server to test against; without one, only its recorded answers are used. */
const url = process.env.MEILI_URL ?? ''
const key = process.env.MEILI_API_KEY ?? ''

const plainly: Omit<SearchQuery, 'text'> = { fuzzy: false, highlight: true, filter: noFilter, offset: 0, limit: 10, maxResults: 1000 }

describe.skipIf(url === '')(`Meilisearch itself${url === '' ? ' (skipped: MEILI_URL names no server)' : ''}`, () => {
  async function startWithServer() {
    const index = `test-${randomUUID()}`
    const all = await startApp({ 'search.engine': 'meilisearch', 'search.url': url, 'search.api_key': key, 'search.index': index })
    onTestFinished(async () => {
      for (const one of [index, `${index}_next`])
        await fetch(`${url}/indexes/${one}`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } })
    })
    return all
  }

  searchSuite('meilisearch', async () => {
    const { app, ada, bob } = await startWithServer()
    return { db: app.db, engine: app.search, ownerId: ada.id, otherOwnerId: bob.id }
  })

  test('uploads, renames and deletions are searchable after their jobs; a reindex swaps without a gap', async () => {
    const { app, asAda, runJobs } = await startWithServer()
    const { id } = await upload(asAda, 'a.txt', 'alpha, last words')
    const gone = await upload(asAda, 'b.txt', 'alpha')
    await runJobs()
    expect((await asAda.search.query('alpha')).total).toBe(2)
    await asAda.call('PUT', `/api/documents/${id}`, { title: 'Omega' })
    await asAda.documents.delete(gone.id)
    await runJobs(['index'])
    expect((await asAda.search.query('omega alpha')).total).toBe(1)
    expect((await asAda.search.query('alpha')).total).toBe(1)
    expect(await status(app)).toMatchObject({ engine: 'meilisearch', documents: 1, outdated: 0, drift: 0 })
    expect(await reindex(app)).toEqual({ documents: 1, skipped: false, swapped: true, omitted: 0 })
    expect(await reindex(app, { ifNeeded: true })).toMatchObject({ skipped: true })
    expect((await asAda.search.query('omega')).total).toBe(1)
  })

  test('the last words of a text of 300 pages are found', async () => {
    const { app, ada } = await startWithServer()
    const pages = Array.from({ length: 300 }, (_, page) => Array.from({ length: 500 }, (_, nth) => `w${(page * 7 + nth) % 3000}`).join(' '))
    const id = await insertDocument(app.db, ada.id, { content: `${pages.join('\n')} and finally the colophon` })
    await app.search.refresh([id])
    for (const text of ['colophon', '"finally the colophon"', 'coloph', 'w2592 colophon'])
      expect(
        (await app.search.search({ ...plainly, text })).hits.map(({ document_id }) => document_id),
        text,
      ).toEqual([id])
  })
})

const ids = [1, 2, 3].map((nth) => `01900000-0000-7000-8000-00000000000${nth}`) as [string, string, string]
const [owner, other, red] = [
  '01900000-0000-7000-8000-0000000000a1',
  '01900000-0000-7000-8000-0000000000a2',
  '01900000-0000-7000-8000-0000000000b1',
]

test('requests to the server, and results from its recorded answers', async () => {
  const file = join(import.meta.dirname, '..', 'fixtures', 'meilisearch-exchange.json')
  const isRecording = process.env.MEILI_RECORD === '1'
  const apiKey = isRecording ? key : 'a key'
  const server = isRecording ? await record(url, file) : await replay(file, `Bearer ${apiKey}`)
  const { app } = await startApp({
    'search.engine': 'meilisearch',
    'search.url': server.url,
    'search.api_key': apiKey,
    'search.index': 'recorded',
  })
  const { db, search } = app
  const person = (id: string, name: string) => ({ id, username: name, username_key: name, email: `${name}@x`, email_key: `${name}@x` })
  await db
    .insertInto('users')
    .values([person(owner, 'one'), person(other, 'two')].map((user) => ({ ...user, role: 'user' as const })))
    .execute()
  await db.insertInto('labels').values({ id: red, name: 'Red & more', name_key: 'red & more', color: '#336699' }).execute()
  await db
    .insertInto('stored_files')
    .values({ sha256: '0'.repeat(64), address: '0'.repeat(64), size: 1 })
    .execute()
  const draft = {
    filename: 'a.txt',
    mime_type: 'text/plain',
    status: 'completed' as const,
    size: 1,
    sha256: '0'.repeat(64),
    language: 'eng',
    metadata: '{}',
  }
  const at = (day: number) => new Date(Date.UTC(2026, 0, day))
  await db
    .insertInto('documents')
    .values([
      {
        ...draft,
        id: ids[0],
        owner_id: owner,
        title: 'Annual report',
        content: 'Crème <brûlée> for the house, e-mail',
        created_at: at(1),
        document_date: '2026-02-01',
        ocr_confidence: 0.5,
      },
      {
        ...draft,
        id: ids[1],
        owner_id: owner,
        title: 'Plan',
        content: 'the annual house plan',
        created_at: at(2),
        mime_type: 'application/pdf',
      },
      { ...draft, id: ids[2], owner_id: other, title: 'House', content: '日本語 and Ёлка', created_at: at(3) },
    ])
    .execute()
  await db.insertInto('document_labels').values({ document_id: ids[0], label_id: red }).execute()

  const find = async (text: string, more: Partial<SearchQuery> = {}) => {
    const { hits, total, isCapped } = await search.search({ ...plainly, ...more, text })
    return { found: hits.map(({ document_id }) => ids.indexOf(document_id) + 1), total, isCapped }
  }
  await expect(search.search({ ...plainly, text: 'house' })).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
  await expect(search.check()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
  expect(await search.status()).toMatchObject({ index: 'recorded', documents: 0, updatedAt: null })
  // Another engine has searched so far. There is no index yet, so it begins with all that there is.
  await openPostgres(db).refresh(ids)
  await search.refresh([ids[0], '01900000-0000-7000-8000-000000000009'])
  await search.check()
  expect(await search.status()).toMatchObject({ index: 'recorded', documents: 3, outdated: 0, updatedAt: expect.any(Date) })

  const houses = await find('house')
  expect(houses).toMatchObject({ total: 3, isCapped: false })
  expect([houses.found[0], houses.found.toSorted()]).toEqual([3, [1, 2, 3]])
  expect((await find('annual hou')).found).toEqual([1, 2])
  expect((await find('"annual report"')).found).toEqual([1])
  expect((await find('house -"annual report"')).found).toEqual([3, 2])
  expect((await find('hoose')).found).toEqual([])
  expect((await find('hoose', { fuzzy: true })).found.sort()).toEqual([1, 2, 3])
  expect((await find('日本 елка')).found).toEqual([3])
  expect((await find('email')).found).toEqual([1])
  const capped = await search.search({ ...plainly, text: 'house', maxResults: 1, limit: 1 })
  expect([capped.total, capped.isCapped, capped.facets]).toEqual([1, true, { mime_types: { 'text/plain': 1 }, labels: {}, years: {} }])
  const filter: SearchFilter = {
    ownerId: owner,
    mimeTypes: ['text/*', 'image/png'],
    notMimeTypes: ['text/html'],
    labelIds: [red],
    notLabelIds: [ids[0]],
    status: ['completed'],
    sourceId: null,
    from: at(1),
    to: at(2),
    datedFrom: '2026-01-31',
    datedTo: '2026-02-28',
    minConfidence: 0.5,
  }
  const answer = await search.search({ ...plainly, text: 'creme', filter })
  expect(answer).toEqual({
    hits: [
      {
        document_id: ids[0],
        title: 'Annual report',
        filename: 'a.txt',
        mime_type: 'text/plain',
        status: 'completed',
        labels: ['Red & more'],
        created_at: at(1),
        document_date: '2026-02-01',
        score: expect.any(Number),
        highlights: [{ field: 'content', snippet: '<mark>Crème</mark> &lt;brûlée&gt; for the house, e-mail' }],
      },
    ],
    total: 1,
    isCapped: false,
    facets: { mime_types: { 'text/plain': 1 }, labels: { 'Red & more': 1 }, years: { 2026: 1 } },
  })
  expect((await find('creme', { filter: { ...noFilter, ownerId: other } })).found).toEqual([])

  await db.deleteFrom('documents').where('id', '=', ids[2]).execute()
  await search.refresh([ids[2]])
  expect((await find('house')).found.sort()).toEqual([1, 2])
  const made = await search.rebuild()
  await made.put([ids[0], ids[1]])
  expect(await made.complete()).toBe(2)
  await made.swap()
  await made.discard()
  expect((await find('plan')).found).toEqual([2])
  expect(server.unknown).toEqual([])
  expect(server.unsent()).toEqual([])
})

test('unreachable: 503 SERVICE_UNAVAILABLE for searches, uploads go on, readiness is degraded, and jobs wait', async () => {
  const { app, asAda, asStranger, runJobs } = await startApp({
    'search.engine': 'meilisearch',
    'search.url': 'http://127.0.0.1:1',
    'search.timeout': '500ms',
  })
  const { id } = await upload(asAda, 'a.txt', 'alpha and e-mail')
  await runJobs()
  expect((await asAda.documents.get(id)).status).toBe('completed')
  const refused = (await asAda.search.query('alpha').catch((error: unknown) => error)) as AppError
  expect([refused.status, refused.code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  const ready = await asStranger.call<{ status: string; checks: Record<string, string> }>('GET', '/readyz')
  expect(ready.status).toBe('degraded')
  expect(ready.checks.search).toBe('fail')
  const jobs = await app.db.selectFrom('jobs').select(['status', 'error_code']).where('kind', '=', 'index').execute()
  expect(jobs.length).toBeGreaterThan(0)
  for (const job of jobs) expect(job).toEqual({ status: 'pending', error_code: 'SERVICE_UNAVAILABLE' })
  await expect(reindex(app)).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
  // What the server could not be asked anyway does not need it.
  expect((await asAda.search.query('e-mail')).total).toBe(1)
  expect(
    (await asAda.call<{ total: number }>('POST', '/api/search/advanced', { query: { must: [{ field: 'content', value: 'alpha' }] } }))
      .total,
  ).toBe(1)
})

test('a failed, cancelled or unknown task does not count as completed; a silent server is 503 SERVICE_UNAVAILABLE in time', async () => {
  const ends = [
    { status: 'succeeded', error: null },
    { status: 'failed', error: { code: 'no_space_left_on_device', message: 'No space left on device' } },
    { status: 'canceled', error: null },
    null,
  ]
  const { url: lying } = await startLying('', ({ method, url = '' }, response) => {
    const say = (answer: unknown, code = 200) => {
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    }
    if (url.endsWith('/search')) return
    if (url === '/version') return say({ pkgVersion: '1.50.0' })
    if (url.endsWith('/settings')) return say(settings(1000))
    if (url.startsWith('/tasks?')) return say({ results: [], total: 0 })
    if (url.startsWith('/tasks/'))
      return ends[0] ? say({ uid: 1, ...ends[0] }) : say({ message: 'Task `1` not found.', code: 'task_not_found' }, 404)
    say(method === 'GET' ? {} : { taskUid: 1 }, method === 'GET' ? 200 : 202)
  })
  const { app, ada } = await startApp({ 'search.engine': 'meilisearch', 'search.url': lying, 'search.timeout': '200ms' })
  const id = await insertDocument(app.db, ada.id)
  await app.search.refresh([id])
  for (ends.shift(); ends.length > 0; ends.shift())
    await expect(app.search.refresh([id]), ends[0]?.status ?? 'unknown').rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
  await expect(app.search.search({ ...plainly, text: 'word' })).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
})

test('words are encoded so that no server divides them; prefixes stay prefixes', () => {
  expect(['house', 'élan', '2026', 'елка', 'οδοσ'].map(encodeWord)).toEqual(['qhouse', 'qélan', 'q2026', 'ѵелка', 'ϟοδοσ'])
  expect(encodeWord('日本')).toBe('z065e50672c')
  expect(encodeWord('日本').startsWith(encodeWord('日'))).toBe(true)
  expect(encodeWord('xелка')).toMatch(/^z[0-9a-f]+$/)
  for (const word of ['house', 'елка', 'οδοσ', '日本', '😀x']) expect(decodeWord(encodeWord(word))).toBe(word)
  for (const long of ['a'.repeat(255), 'ß'.repeat(255), '語'.repeat(255), '😀'.repeat(100)])
    expect(Buffer.byteLength(encodeWord(long))).toBeLessThanOrEqual(250)
})

test('a query has quotation marks around all words without typo tolerance or prefix', () => {
  const ask = (text: string, { fuzzy = false } = {}) => {
    const { q, attributes } = toMeilisearchQuery(parse(text), { fuzzy })
    return [q, attributes === null ? 'everywhere' : 'exact']
  }
  expect(ask('annual report')).toEqual(['"qannual" qreport', 'exact'])
  expect(ask('annual rep')).toEqual(['"qannual" qrep', 'everywhere'])
  expect(ask('annual report', { fuzzy: true })).toEqual(['qannual qreport', 'everywhere'])
  expect([ask('re2024'), ask('re2024', { fuzzy: true })]).toEqual([
    ['qre2024', 'exact'],
    ['qre2024', 'exact'],
  ])
  expect(ask('of annual "the house" -plan', { fuzzy: true })).toEqual(['qannual "qof" "qthe qhouse" -"qplan" ', 'everywhere'])
  expect(ask('annual !', { fuzzy: true })).toEqual(['qannual', 'everywhere'])
  expect(ask('annual -plan', { fuzzy: true })).toEqual(['qannual -"qplan" ', 'everywhere'])
  expect(ask('-plan')).toEqual(['-"qplan" ', 'everywhere'])
})

test('queries that the server cannot express are recognised', () => {
  for (const text of ['a OR b', 'title:a b', 'e-mail a', 'ada@example.org', 'RE-2026/0815', '日 本', 'a b c d e f g h i j'])
    expect(isExpressible(parse(text)), text).toBe(false)
  for (const text of ['a', 'a b', '"a b" -c', '日本語', '-"a b"', 'a b c d e f g h i']) expect(isExpressible(parse(text)), text).toBe(true)
})

test('a filter has the owner, and no character that ends a quotation', () => {
  expect(filterOf({ ...noFilter, ownerId: owner })).toEqual([`owner_id = "${owner}"`])
  expect(filterOf({ ...noFilter, ownerId: owner, mimeTypes: ['x" OR owner_id != "y'] })).toBeNull()
  expect(filterOf({ ...noFilter, ownerId: 'x" OR "', mimeTypes: [] })).toBeNull()
  expect(filterOf({ ...noFilter, ownerId: owner, mimeTypes: ['"', 'image/*'], notMimeTypes: ['\\"'] })).toEqual([
    `owner_id = "${owner}"`,
    '(mime_family = "image")',
  ])
})

test('a long text is divided into attributes that are all searched, including phrases across two of them', async () => {
  const words = Array.from({ length: 150_000 }, (_, index) => `w${index}`)
  const entry = await entryOf({
    id: ids[0],
    owner_id: owner,
    title: 'Long',
    filename: 'long.txt',
    content: words.join(' '),
    mime_type: 'text/plain',
    status: 'completed',
    language: 'eng',
    source_id: null,
    ocr_confidence: null,
    created_at: new Date(0),
    updated_at: new Date(0),
    size: 1,
    metadata: {},
    document_date: null,
    label_ids: [],
    label_names: [],
  })
  const parts = Object.keys(entry).filter((name) => name.startsWith('content_'))
  expect(parts).toEqual(['content_0', 'content_1', 'content_2'])
  for (const name of parts) expect(exactAttributes).toContain(name)
  const cut = parts.map((name) => String(entry[name]).split(' '))
  for (const part of cut) expect(part.length).toBeLessThanOrEqual(60_128)
  expect(cut[1]?.slice(0, 128)).toEqual(cut[0]?.slice(-128))
  expect(new Set(cut.flat()).size).toBe(150_000)
  expect(exactAttributes).toContain(`content_${maxParts - 1}`)
})

test('only settings that dms sets are compared', () => {
  const expected = settings(1000)
  expect(
    includesSettings(expected, {
      ...structuredClone(expected),
      stopWords: [],
      typoTolerance: { ...expected.typoTolerance, disableOnWords: [] },
    }),
  ).toBe(true)
  expect(includesSettings(expected, settings(2000))).toBe(false)
  expect(includesSettings(expected, { ...expected, rankingRules: ['words'] })).toBe(false)
  expect(includesSettings(expected, null)).toBe(false)
})

test('the filter by confidence includes what is displayed as that confidence', () => {
  const minConfidence = lowestConfidence(0.9234)
  expect(filterOf({ ...noFilter, minConfidence })).toEqual(['confidence >= 0.92335'])
})
