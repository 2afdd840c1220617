/** A search needs little memory, whatever a document consists of. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { run } from '../support/processes/run.ts'
import { startServe } from '../support/processes/service.ts'
import { insertDocument } from '../support/search-suite.ts'
import { tokenFor } from '../support/servers/server.ts'

test('200 for many conditions that match a text at every character, with a heap of 300 MB', async () => {
  const dms = await startApp()
  const document = await insertDocument(dms.app.db, dms.ada.id, { content: '-'.repeat(3_000_000) })
  await dms.app.search.refresh([document])
  const { url, said } = await startServe(dms, { NODE_OPTIONS: '--max-old-space-size=300' })
  const should = Array.from({ length: 10 }, (_, nth) => ({ field: 'content', type: 'contains', value: '-'.repeat(nth + 1) }))
  const response = await fetch(new URL('/api/search/advanced', url), {
    method: 'POST',
    headers: { authorization: `Bearer ${await tokenFor(dms.app, dms.ada)}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query: { should } }),
  }).catch((error: Error) => error)
  expect(said).toEqual([expect.stringContaining('listening on')])
  expect(response).toMatchObject({ status: 200 })
  const { results } = (await (response as Response).json()) as { results: { document_id: string; highlights: unknown[] }[] }
  expect(results).toMatchObject([{ document_id: document, highlights: [{ field: 'content' }, { field: 'content' }, { field: 'content' }] }])
})

test('0 of search reindex for a text of one chain of three million words, with a heap of 200 MB', async () => {
  const { app, ada, asAda, dataDir, databaseUrl } = await startApp()
  await insertDocument(app.db, ada.id, { content: `${'a-'.repeat(3_000_000)}harbour` })
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, NODE_OPTIONS: '--max-old-space-size=200' }
  expect(await run(['search', 'reindex'], { env, timeout: 110_000 })).toMatchObject({ code: 0 })
  expect((await asAda.search.query('harbour')).total).toBe(1)
})
