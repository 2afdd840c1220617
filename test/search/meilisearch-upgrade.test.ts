import { expect, test, vi } from 'vitest'
import { noFilter } from '../../src/ports/search-engine.ts'
import { settings } from '../../src/search/engines/meilisearch/settings.ts'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'
import { startLying } from '../support/servers/lying-server.ts'

test('an index of an earlier version, without an attribute for facets: PostgreSQL answers, and the settings are updated', async () => {
  let isCurrent = true
  const updates: string[] = []
  const { url } = await startLying('', ({ method, url = '' }, response) => {
    const say = (answer: unknown, code = 200) => {
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    }
    if (url.endsWith('/search'))
      return say({ message: 'not filterable', code: 'invalid_search_facets', type: 'invalid_request', link: '' }, 400)
    if (url === '/version') return say({ pkgVersion: '1.50.0' })
    if (url.endsWith('/settings') && method === 'GET')
      return say({ ...settings(1000), ...(isCurrent ? {} : { filterableAttributes: ['status'] }) })
    if (url.endsWith('/settings')) updates.push(url)
    if (url.startsWith('/tasks?')) return say({ results: [], total: 0 })
    if (url.startsWith('/tasks/')) return say({ uid: 1, status: 'succeeded' })
    say(method === 'GET' ? {} : { taskUid: 1 }, method === 'GET' ? 200 : 202)
  })
  const { app, ada } = await startApp({ 'search.engine': 'meilisearch', 'search.url': url })
  const id = await insertDocument(app.db, ada.id, { content: 'harbour', date: '2024-03-03' })
  await app.search.refresh([id])
  isCurrent = false
  const query = { text: 'harbour', fuzzy: false, highlight: false, offset: 0, limit: 10, maxResults: 1000 }
  const { hits, facets } = await app.search.search({ ...query, filter: { ...noFilter, datedFrom: '2024-01-01' } })
  expect([hits.map(({ document_id }) => document_id), facets.years]).toEqual([[id], { 2024: 1 }])
  await vi.waitFor(() => expect(updates).toHaveLength(1), 30_000)
})
