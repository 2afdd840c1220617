import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { type AdvancedQuery, noFilter, type SearchClause } from '../../src/ports/search-engine.ts'
import { isExpressible, toMeilisearchQuery } from '../../src/search/engines/meilisearch/query.ts'
import { engines } from '../../src/search/engines/registry.ts'
import { parse } from '../../src/search/query/parser.ts'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'

const clause = (field: SearchClause['field'], value: string, type: SearchClause['type'] = 'exact'): SearchClause => ({ field, value, type })
const query: AdvancedQuery = {
  ...{ must: [], should: [], mustNot: [], sort: [{ field: 'score', order: 'desc' }] },
  ...{ highlight: true, filter: noFilter, offset: 0, limit: 10, maxResults: 1000 },
}

interface Asked {
  q: string
  filter: string[]
  attributesToSearchOn?: string[]
}

/** The server finds nothing; PostgreSQL finds the document. */
async function start() {
  const asked: Asked[] = []
  const server = createServer(async (request, response) => {
    asked.push((await json(request)) as Asked)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ hits: [], estimatedTotalHits: 0, facetDistribution: {} }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { app, ada } = await startApp()
  const id = await insertDocument(app.db, ada.id, {
    title: 'Annual reports 2026',
    content: 'annual reports, no. 4711',
    mimeType: 'text/plain',
  })
  await app.search.refresh([id])
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const config = { ...app.config, search: { ...app.config.search, engine: 'meilisearch' as const, url } }
  const engine = await engines.meilisearch({ ...app, config })
  return { asked, engine, id, ownerId: ada.id }
}

test('Meilisearch answers conditions on phrases, codes, type, status and source, negated ones too, for the owner only', async () => {
  const { asked, engine, ownerId } = await start()
  const ask = async (conditions: Partial<AdvancedQuery>) => {
    expect((await engine.advanced({ ...query, ...conditions, filter: { ...noFilter, ownerId } })).total).toBe(0)
    const { q, filter, attributesToSearchOn } = asked.pop()!
    return [q.trim(), filter.slice(1), attributesToSearchOn?.[0] ?? 'all', filter[0]]
  }
  const own = `owner_id = "${ownerId}"`
  expect(await ask({ must: [clause('any', 'annual reports')] })).toEqual(['"qannual qreports"', [], 'all', own])
  expect(await ask({ must: [clause('any', '4711', 'match')], mustNot: [clause('any', 'no. 5')] })).toEqual([
    '"q4711" -"qno q5"',
    [],
    'all',
    own,
  ])
  expect(await ask({ must: [clause('title', '2026', 'match')] })).toEqual(['"q2026"', [], 'title', own])
  expect(await ask({ should: [clause('content', 'annual')] })).toEqual(['"qannual"', [], 'content_0', own])
  expect(await ask({ must: [clause('mime_type', 'text/plain')], mustNot: [clause('status', 'failed')] })).toEqual([
    '',
    ['mime_type = "text/plain"', 'NOT status = "failed"'],
    'all',
    own,
  ])
  expect(await ask({})).toEqual(['', [], 'all', own])
  expect(asked).toEqual([])
})

test('the embedded index answers what Meilisearch cannot express: stems, parts, whole fields, metadata, alternatives, other orders', async () => {
  const { asked, engine, id } = await start()
  const cases: Partial<AdvancedQuery>[] = [
    { must: [clause('any', 'report', 'match')] },
    { must: [clause('any', '471', 'contains')] },
    { must: [clause('title', 'annual reports 2026')] },
    { must: [clause('content', 'annual reports')] },
    { mustNot: [clause('metadata.a', 'b')] },
    { mustNot: [clause('any', '4711 5', 'match')] },
    { mustNot: [clause('mime_type', '" OR owner_id != "')] },
    { must: [clause('title', '2026', 'match'), clause('content', '4711', 'match')] },
    { should: [clause('any', '4711'), clause('any', '5')] },
    { must: [clause('any', '4711')], should: [clause('any', '5')] },
    { must: [clause('any', '4711')], sort: [{ field: 'created_at', order: 'asc' }] },
  ]
  for (const conditions of cases) {
    const { hits } = await engine.advanced({ ...query, ...conditions })
    expect(
      hits.map(({ document_id }) => document_id),
      JSON.stringify(conditions),
    ).toEqual([id])
  }
  expect(asked).toEqual([])
})

test('a search in one field asks Meilisearch for words without other forms', () => {
  for (const text of ['title:report', 'title:"annual report"', 'title:2026 content:4711', 'title:2026 4711'])
    expect(isExpressible(parse(text)), text).toBe(false)
  const ask = (text: string) => {
    const terms = parse(text)
    expect(isExpressible(terms), text).toBe(true)
    const { q, attributes } = toMeilisearchQuery(terms, true)
    return [q.trim(), attributes?.[0]]
  }
  expect(ask('title:2026 title:"report"')).toEqual(['"q2026" "qreport"', 'title'])
  expect(ask('filename:2026')).toEqual(['q2026', 'filename'])
  expect(ask('content:4711 -content:"5"')).toEqual(['"q4711" -"q5"', 'content_0'])
})
