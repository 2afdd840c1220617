/** Queries that conditions become in OpenSearch. A scripted server answers them. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { entryOf } from '../../src/search/engines/opensearch/entry.ts'
import { loadDocuments } from '../../src/search/indexed-documents.ts'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'

type Body = { query: { bool: { filter: Record<string, object>[] } } }

/** The server finds all of `found`. */
async function start() {
  const asked: Body[] = []
  const found: string[] = []
  const server = createServer(async (request, response) => {
    asked.push((await json(request)) as Body)
    const hits = found.map((id) => ({ _score: 1, sort: [1, id], fields: { mime_type: ['text/plain'] } }))
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ hits: { total: { value: hits.length }, hits } }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const all = await startApp({ 'search.engine': 'opensearch', 'search.opensearch_urls': url, 'search.keep_embedded': false })
  const search = (field: string, value: string, type: string) =>
    all.asAda.call<{ total: number }>('POST', '/api/search/advanced', { query: { must: [{ field, value, type }] } })
  return { ...all, asked, found, search }
}

test('match on metadata asks for terms that the entry of a value without spaces has', async () => {
  const { app, ada, asked, search } = await start()
  const id = await insertDocument(app.db, ada.id, { metadata: { note: '東京日本語' } })
  const [document] = await app.db.transaction().execute((trx) => loadDocuments(trx, [id]))
  const terms = (await entryOf(document!)).value_words as string[]
  const isMet = (query: Record<string, object>) => {
    const { term, prefix } = query as { term?: { value_words: string }; prefix?: { value_words: string } }
    return terms.some((one) => one === term?.value_words || (prefix && one.startsWith(prefix.value_words)))
  }
  for (const [value, expected] of [
    ['日本', true],
    ['東京', true],
    ['日', true],
    ['語', true],
    ['本日', false],
  ] as const) {
    await search('metadata.note', value, 'match')
    const queries = asked.pop()!.query.bool.filter.filter((query) => !('term' in query && 'owner_id' in query.term!))
    expect([value, queries.length > 0 && queries.every(isMet)]).toEqual([value, expected])
  }
})
