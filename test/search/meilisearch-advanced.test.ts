import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { type AdvancedQuery, noFilter, type SearchClause } from '../../src/ports/search-engine.ts'
import { openPostgres } from '../../src/search/engines/postgres/engine.ts'
import { engines } from '../../src/search/engines/registry.ts'
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
  return { app, asked, engine, id, ownerId: ada.id }
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
  expect(await ask({ should: [clause('any', 'annual')] })).toEqual(['"qannual"', [], 'all', own])
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
    { must: [clause('title', '2026', 'match')] },
    { must: [clause('content', 'annual')] },
    { mustNot: [clause('content', '5')] },
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

test('200 for words in one field that are joined in the text: the embedded index answers', async () => {
  const { app, engine, asked, ownerId } = await start()
  const iban = 'DE89370400440532013000'
  const id = await insertDocument(app.db, ownerId, {
    title: 'E-Mail of 2026-03-17',
    content: `IBAN ${iban.replaceAll(/.{4}(?=.)/g, '$& ')}`,
  })
  await openPostgres(app.db).refresh([id])
  const search = { ...query, fuzzy: false }
  for (const text of [`content:${iban}`, 'title:20260317', 'title:"email"', `${iban} title:"email"`])
    expect([text, (await engine.search({ ...search, text })).hits.map(({ document_id }) => document_id)]).toEqual([text, [id]])
  for (const one of [clause('content', iban, 'match'), clause('content', iban), clause('title', '20260317', 'match')])
    expect((await engine.advanced({ ...query, must: [one] })).total, JSON.stringify(one)).toBe(1)
  expect(asked).toEqual([])
})
