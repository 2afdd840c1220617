import { expect, test } from 'vitest'
import { noFilter, type SearchQuery } from '../../src/ports/search-engine.ts'
import type { Entry } from '../../src/search/engines/entries.ts'
import { entryOf } from '../../src/search/engines/opensearch/entry.ts'
import { requestsOf } from '../../src/search/engines/opensearch/index-documents.ts'
import { engines } from '../../src/search/engines/registry.ts'
import { reindex } from '../../src/search/reindex.ts'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'
import { startLying } from '../support/servers/lying-server.ts'

const query: SearchQuery = { text: 'alpha', fuzzy: false, highlight: false, filter: noFilter, offset: 0, limit: 10, maxResults: 1000 }

/** A cluster with the alias `dms`. `swap`: the answer to the request that moves the alias; null breaks the connection. */
async function startCluster(swap: (move: () => void) => { status: number; type: string } | null) {
  let [active, next] = [`dms-${'0'.repeat(16)}`, '']
  const bulks: string[] = []
  const { url, seen } = await startLying('', ({ method, url = '' }, response) => {
    const [path = '', parameters = ''] = url.split('?')
    const say = (answer: unknown, status = 200) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    if (path === '/') return say({ version: { distribution: 'opensearch', number: '2.19.1' } })
    if (method === 'GET' && path === '/dms-*/_alias') return say({ [active]: { aliases: { dms: {} } } })
    if (method === 'GET' && path.startsWith('/_alias/')) return say({ [active]: {} })
    if (method === 'PUT' && /^\/dms-\w+$/.test(path)) next = path.slice(1)
    if (path.endsWith('/_bulk')) {
      bulks.push(parameters)
      return say({ errors: true, items: [{ index: { _id: '1', status: 404, error: { type: 'index_not_found_exception', reason: '' } } }] })
    }
    if (path.endsWith('/_search')) return say({ hits: { total: { value: 0 }, hits: [] } })
    if (path !== '/_aliases') return say({ timed_out: false })
    const answer = swap(() => {
      active = next
    })
    if (answer === null) return void response.destroy()
    say({ error: { root_cause: [{ type: answer.type, reason: answer.type }] } }, answer.status)
  })
  const all = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url, 'search.keep_embedded': false })
  Object.assign(all.app, { search: await engines.opensearch({ ...all.app, wait: async () => {} }) })
  return { ...all, bulks, active: () => active, next: () => next, removed: () => seen.filter((line) => line.startsWith('DELETE')) }
}

test('a reindex whose swap took place is complete, although its answer was lost and its repetition refused', async () => {
  let attempts = 0
  const { app, active, next, removed } = await startCluster((move) => {
    if (++attempts > 1) return { status: 404, type: 'index_not_found_exception' }
    move()
    return null
  })
  expect(await reindex(app)).toMatchObject({ swapped: true })
  expect([attempts, active()]).toEqual([2, next()])
  expect(removed()).toEqual([])
})

test('503 SERVICE_UNAVAILABLE for a swap without an answer, and the new index stays, because the swap may still take place', async () => {
  const { app, active, next, removed } = await startCluster(() => null)
  await expect(reindex(app)).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' })
  expect(active()).not.toBe(next())
  expect(removed()).toEqual([])
})

test('503 SERVICE_UNAVAILABLE if the new index is removed while it is filled: a write creates none', async () => {
  const { app, ada, bulks } = await startCluster(() => null)
  await insertDocument(app.db, ada.id)
  await expect(reindex(app)).rejects.toThrow('the new index was removed while it was filled')
  expect(bulks).toEqual(['require_alias=true'])
})

test('a search that OpenSearch has cancelled after search.opensearch_timeout is 503 SERVICE_UNAVAILABLE, and is not repeated', async () => {
  const { url, seen } = await startLying('', (_request, response) => {
    const error = { root_cause: [{ type: 'task_cancelled_exception', reason: 'cancelled task' }], type: 'search_phase_execution_exception' }
    response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify({ error, status: 500 }))
  })
  const { app } = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url, 'search.opensearch_timeout': '3s' })
  await expect(app.search.search(query)).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE', details: { retry_after_secs: 5 } })
  expect(seen).toEqual([expect.stringMatching(/^POST \/dms\/_search\?.*cancel_after_time_interval=3000ms/)])
})

test.each([
  [404, 'search_context_missing_exception'],
  [500, 'illegal_state_exception'],
])('a search begins again if a point in time is lost with its node: %i %s', async (status, type) => {
  let opened = 0
  const { url, seen } = await startLying('', ({ method, url: path = '' }, response) => {
    const say = (answer: unknown, code = 200) =>
      void response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    if (method === 'DELETE') return say({})
    if (path.includes('point_in_time')) return say({ pit_id: `pit-${++opened}` })
    if (opened === 1)
      return say({ error: { root_cause: [{ type, reason: 'lost' }], type: 'search_phase_execution_exception' }, status }, status)
    say({ hits: { total: { value: 0 }, hits: [] } })
  })
  const { app } = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url })
  expect(await app.search.search({ ...query, maxResults: 20_000 })).toMatchObject({ total: 0 })
  const reading = [/^POST .*point_in_time\?.*allow_partial_pit_creation=false/, /^POST \/_search\?/, /^DELETE \/_search\/point_in_time/]
  expect(seen).toEqual([...reading, ...reading].map((line) => expect.stringMatching(line)))
})

test('an entry has at most so many bytes of words and of stems: the end of a long text is left out, title and labels are not', async () => {
  const content = Array.from(
    { length: 2000 },
    (_, nth) => `word${String.fromCharCode(97 + (nth % 26))}${'abcdefghij'[nth % 10]}${nth}`,
  ).join(' ')
  const letters = content.replaceAll(/\d/g, (digit) => 'klmnopqrst'[Number(digit)]!)
  const long = {
    ...{ id: '', owner_id: '', source_id: null, created_at: new Date(0), updated_at: new Date(0), document_date: null, size: 1 },
    ...{ ocr_confidence: null, mime_type: 'text/plain', status: 'completed' as const, label_ids: [], label_names: ['Lasting'] },
    ...{ title: 'Title', filename: 'a.txt', content: letters, language: 'deu+eng+fra+eng', metadata: {} },
  }
  const size = (entry: Entry, ...names: string[]) => names.reduce((sum, name) => sum + JSON.stringify(entry[name]).length, 0)
  const [whole, cut] = [await entryOf(long), await entryOf(long, 10_000)]
  expect([size(whole, 'content', 'any') > 40_000, size(whole, 'stems') > 60_000]).toEqual([true, true])
  expect([size(cut, 'content', 'any') < 10_000, size(cut, 'stems') < 11_000]).toEqual([true, true])
  expect([cut.title, cut.labels, letters.startsWith(String(cut.content))]).toEqual(['title', ['lasting'], true])
  expect(Object.keys(cut.stems as object)).toEqual(['deu', 'eng', 'fra'])
})

test('a bulk request with several documents has at most so many bytes', () => {
  const actions = [1, 50, 10, 200, 1, 1].map((length) => ['{}', 'x'.repeat(length)] as const)
  const sizes = requestsOf(actions, 70).map((request) => request.map(([, entry]) => entry?.length))
  expect(sizes).toEqual([[1, 50], [10], [200], [1, 1]])
})
