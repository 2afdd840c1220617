import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text as bodyOf } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import type { AppError } from '../../src/errors.ts'
import { noFilter, type SearchClause, type SearchFilter, type SearchQuery } from '../../src/ports/search-engine.ts'
import { openPostgres } from '../../src/search/engines/postgres/engine.ts'
import { engines } from '../../src/search/engines/registry.ts'
import { reindex } from '../../src/search/reindex.ts'
import { startApp, upload } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'
import { startLying } from '../support/servers/lying-server.ts'
import { record, replay } from '../support/servers/search-exchange.ts'

const plainly: Omit<SearchQuery, 'text'> = { fuzzy: false, highlight: true, filter: noFilter, offset: 0, limit: 10, maxResults: 1000 }
const ids = [1, 2, 3].map((nth) => `01900000-0000-7000-8000-00000000000${nth}`) as [string, string, string]
const [owner, other, red] = [
  '01900000-0000-7000-8000-0000000000a1',
  '01900000-0000-7000-8000-0000000000a2',
  '01900000-0000-7000-8000-0000000000b1',
]

/** Values that differ in each run: versions of entries and names of indexes. */
const variable = [/(?<="version":)\d{16}/g, /(?<=recorded-)[0-9a-f]{16}/g]

// OPENSEARCH_RECORD=1 OPENSEARCH_URL=… records it again.
test('requests to the server, and results from its recorded answers', async () => {
  const file = join(import.meta.dirname, '..', 'fixtures', 'opensearch-exchange.json')
  const { OPENSEARCH_RECORD, OPENSEARCH_URL = '' } = process.env
  const authorization = `Basic ${Buffer.from('dms:a password').toString('base64')}`
  const server = OPENSEARCH_RECORD === '1' ? await record(OPENSEARCH_URL, file) : await replay(file, authorization, variable)
  const { app } = await startApp({
    'search.engine': 'opensearch',
    'search.keep_embedded': false,
    'search.opensearch_urls': server.url,
    'search.opensearch_username': 'dms',
    'search.opensearch_password': 'a password',
    'search.opensearch_index': 'recorded',
    'search.opensearch_replicas': 0,
    'search.opensearch_refresh_interval': '50ms',
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
  const at = (day: number) => new Date(Date.UTC(2026, 0, day))
  const draft = (nth: number, more: { owner_id?: string; title: string; content: string; mime_type?: string }) => ({
    ...{ id: ids[nth - 1]!, owner_id: owner, filename: 'a.txt', mime_type: 'text/plain', status: 'completed' as const, size: nth },
    ...{ sha256: '0'.repeat(64), language: 'eng', created_at: at(nth), updated_at: at(nth), metadata: '{"number":["A-7"]}' },
    ...more,
  })
  await db
    .insertInto('documents')
    .values([
      {
        ...draft(1, { title: 'Annual report', content: 'Crème <brûlée> for the houses, e-mail' }),
        document_date: '2026-02-01',
        ocr_confidence: 0.5,
      },
      draft(2, { title: 'Plan', content: 'the annual house plan', mime_type: 'application/pdf' }),
      draft(3, { title: 'House', content: '日本語 and Ёлка', owner_id: other }),
    ])
    .execute()
  await db.insertInto('document_labels').values({ document_id: ids[0], label_id: red }).execute()
  const numbers = (hits: readonly { document_id: string }[]) => hits.map(({ document_id }) => ids.indexOf(document_id) + 1)
  const find = async (text: string, more: Partial<SearchQuery> = {}) => numbers((await search.search({ ...plainly, ...more, text })).hits)
  const meet = async (clause: SearchClause) => {
    const all = { ...plainly, should: [], mustNot: [], sort: [{ field: 'title', order: 'asc' }] } as const
    return numbers((await search.advanced({ ...all, must: [clause] })).hits)
  }

  await expect(search.search({ ...plainly, text: 'house' })).rejects.toMatchObject({
    code: 'SERVICE_UNAVAILABLE',
    details: { retry_after_secs: 5 },
  })
  await expect(search.check()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
  expect(await search.status()).toMatchObject({ index: 'recorded', documents: 0, missing: 3, updatedAt: null })
  // There is no index yet, so it begins with all that there is.
  await search.refresh([ids[0], '01900000-0000-7000-8000-000000000009'])
  await search.check()
  expect(await search.status()).toMatchObject({ documents: 3, outdated: 0, missing: 0, updatedAt: at(3) })

  expect((await find('house')).toSorted()).toEqual([1, 2, 3])
  expect(await find('"annual report"')).toEqual([1])
  expect((await find('house -"annual report"')).toSorted()).toEqual([2, 3])
  expect(await find('hoose')).toEqual([])
  expect((await find('hoose', { fuzzy: true })).toSorted()).toEqual([2, 3])
  expect(await find('日本 елка')).toEqual([3])
  expect(await find('email')).toEqual([1])
  expect(await find('title:annual OR title:plan')).toEqual([2, 1])
  const [hit] = (await search.search({ ...plainly, text: 'house ', filter: { ...noFilter, ownerId: owner } })).hits
  expect(hit?.highlights.map(({ snippet }) => snippet).join()).toContain('<mark>house')
  expect(await meet({ field: 'content', type: 'contains', value: 'rûlée> for t' })).toEqual([1])
  expect(await meet({ field: 'labels', type: 'exact', value: 'red & MORE' })).toEqual([1])
  expect(await meet({ field: 'metadata.number', type: 'contains', value: 'a-' })).toEqual([1, 3, 2])
  expect(numbers(await search.similar({ documentId: ids[0], filter: { ...noFilter, ownerId: owner }, limit: 5 }))).toEqual([2])
  const filter: SearchFilter = {
    ...{ ownerId: owner, mimeTypes: ['text/*', 'image/png'], notMimeTypes: ['text/html'], labelIds: [red], notLabelIds: [ids[0]] },
    ...{
      status: ['completed'],
      sourceId: null,
      from: at(1),
      to: at(2),
      datedFrom: '2026-01-31',
      datedTo: '2026-02-28',
      minConfidence: 0.5,
    },
  }
  expect(await search.search({ ...plainly, text: 'creme', filter })).toMatchObject({
    hits: [
      { document_id: ids[0], highlights: [{ field: 'content', snippet: '<mark>Crème</mark> &lt;brûlée&gt; for the houses, e-mail' }] },
    ],
    total: 1,
    isCapped: false,
    facets: { mime_types: { 'text/plain': 1 }, labels: { 'Red & more': 1 }, years: { 2026: 1 } },
  })
  for (const hostile of [other, '"', '*', `${owner}" OR "`])
    expect(await find('creme', { filter: { ...noFilter, ownerId: hostile } }), hostile).toEqual([])

  await db.deleteFrom('documents').where('id', '=', ids[2]).execute()
  await search.refresh([ids[2]])
  expect((await find('house')).toSorted()).toEqual([1, 2])
  expect(await reindex(app)).toMatchObject({ documents: 2, swapped: true })
  expect(await find('plan')).toEqual([2])
  expect(server.unknown).toEqual([])
  expect(server.unsent()).toEqual([])
})

test('unreachable: 503 SERVICE_UNAVAILABLE for searches, uploads go on, readiness is degraded, and jobs wait', async () => {
  const { app, asAda, asStranger, runJobs } = await startApp({
    'search.engine': 'opensearch',
    'search.opensearch_urls': 'http://127.0.0.1:1,http://127.0.0.1:2',
    'search.opensearch_timeout': '500ms',
  })
  const waits: number[] = []
  Object.assign(app, { search: await engines.opensearch({ ...app, wait: async (ms) => waits.push(ms) }) })
  const { id } = await upload(asAda, 'a.txt', 'alpha')
  await runJobs()
  expect((await asAda.documents.get(id)).status).toBe('completed')
  waits.length = 0
  const refused = (await asAda.search.query('alpha').catch((error: unknown) => error)) as AppError
  expect([refused.status, refused.code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  expect(waits).toEqual([100, 400, 1000])
  const ready = await asStranger.call<{ status: string; checks: Record<string, string> }>('GET', '/readyz')
  expect([ready.status, ready.checks.search]).toEqual(['degraded', 'fail'])
  const jobs = await app.db.selectFrom('jobs').select(['status', 'error_code']).where('kind', '=', 'index').execute()
  // Two on a machine that takes more than 30 s for the text.
  expect(jobs.length).toBeGreaterThan(0)
  for (const job of jobs) expect(job).toEqual({ status: 'pending', error_code: 'SERVICE_UNAVAILABLE' })
})

test('a document that a busy cluster rejects is sent again; one that it refuses is named, and the others are written', async () => {
  const rounds = [[429, 400, 200], [200]]
  const { url, seen } = await startLying('', (_request, response, count) => {
    const round = rounds[count - 1] ?? []
    const items = round.map((status, nth) => {
      const error = status === 200 ? {} : { error: { type: status === 429 ? 'rejected' : 'refused', reason: 'why' } }
      return { index: { _id: String(nth), status, ...error } }
    })
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ errors: round.some((status) => status !== 200), items }))
  })
  const { app, ada } = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url, 'search.keep_embedded': false })
  const drafts = [await insertDocument(app.db, ada.id), await insertDocument(app.db, ada.id), await insertDocument(app.db, ada.id)]
  await expect(app.search.refresh(drafts)).rejects.toThrow(/it rejected 1 of 3 documents: 1: refused: why/)
  expect(seen).toHaveLength(rounds.length)
})

test('503 SERVICE_UNAVAILABLE for a deletion without an index; no index with the name of the alias is created', async () => {
  const { url, seen } = await startLying('', (request, response) => {
    response.writeHead(request.url === '/' ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ version: { distribution: 'opensearch', number: '3.3.2' } }))
  })
  const { app, ada } = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url, 'search.keep_embedded': false })
  await openPostgres(app.db).refresh([await insertDocument(app.db, ada.id)])
  await expect(app.search.refresh(['01900000-0000-7000-8000-000000000009'])).rejects.toThrow('Fix: dms search reindex')
  expect(seen).toEqual(['GET /_alias/dms', 'GET /'])
})

test('200 with a snippet of a long text, from whatever part the match is, beside the embedded index', async () => {
  const hits: object[] = []
  const { url } = await startLying('', (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ hits: { total: { value: hits.length }, hits } }))
  })
  const { app, ada, asAda } = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url })
  const id = await insertDocument(app.db, ada.id, { content: `${'amber brook '.repeat(20_000)} the harbours of Malmö` })
  await openPostgres(app.db).refresh([id])
  hits.push({ _score: 1, sort: [1, id], fields: { mime_type: ['text/plain'] } })
  const snippets = async (q: string) =>
    (await asAda.search.query(q)).results.flatMap(({ highlights }) => highlights.map(({ snippet }) => snippet))
  expect(await snippets('malmö')).toEqual([expect.stringContaining('harbours of <mark>Malmö</mark>')])
})

test('a document is read and written again with a higher version if the index has one from before the clock was set back', async () => {
  const ahead = (Date.now() + 3_600_000) * 1000
  const index = new Map<string, { version: number; content: string | undefined }>()
  let rewrite = async (): Promise<unknown> => undefined
  const server = createServer(async (request, response) => {
    const lines = (await bodyOf(request)).split('\n')
    await rewrite()
    const items: object[] = []
    for (let line = 0; lines[line]; line++) {
      const [kind, { _id, version }] = Object.entries(JSON.parse(lines[line]!) as Record<string, { _id: string; version: number }>)[0]!
      const content = kind === 'index' ? (JSON.parse(lines[++line]!) as { content: string }).content : undefined
      const current = index.get(_id)?.version ?? 0
      const reason = `[${_id}]: version conflict, current version [${current}] is higher or equal to the one provided [${version}]`
      if (version > current) index.set(_id, { version, content })
      items.push({ [kind]: { _id, ...(version > current ? { status: 200 } : { status: 409, error: { type: 'conflict', reason } }) } })
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ errors: true, items }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { app, ada } = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url, 'search.keep_embedded': false })
  const [changed, gone] = [await insertDocument(app.db, ada.id, { content: 'new' }), ids[0]]
  for (const id of [changed, gone]) index.set(id, { version: ahead, content: 'old' })
  rewrite = () => app.db.updateTable('documents').set({ content: 'newest' }).where('id', '=', changed).execute()
  await app.search.refresh([changed, gone])
  expect([index.get(changed), index.get(gone)]).toEqual([
    { version: ahead + 1, content: 'newest' },
    { version: ahead + 1, content: undefined },
  ])
})
