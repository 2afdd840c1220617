import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { enqueueIndex } from '../../src/documents/revisions.ts'
import * as jobs from '../../src/jobs/queue.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { fakeReader, forever } from '../support/fake-reader.ts'
import { insertDocument } from '../support/search-suite.ts'

async function start(documents: number) {
  const all = await startApp()
  const { app, ada } = all
  const ids: string[] = []
  for (let count = 0; count < documents; count++) ids.push(await insertDocument(app.db, ada.id, { content: 'before' }))
  const changed = (id: string) =>
    app.db.transaction().execute((trx) => jobs.enqueue(trx, 'index', { document_id: id }, { dedupeKey: `index:${id}` }))
  for (const id of ids) await changed(id)
  const refreshed: (readonly string[])[] = []
  const refresh = app.search.refresh
  /** called while the index is written, with the ids */
  const during = { now: async (_ids: readonly string[]) => {} }
  Object.assign(app.search, {
    refresh: async (ids: readonly string[]) => {
      refreshed.push(ids)
      await refresh(ids)
      await during.now(ids)
    },
  })
  const left = () => app.db.selectFrom('jobs').select('id').where('kind', '=', 'index').execute()
  return { ...all, ids, changed, refreshed, during, left }
}

test('waiting index jobs run together', async () => {
  const { runJobs, refreshed, ids, left } = await start(5)
  await runJobs(['index'])
  expect(refreshed).toEqual([ids.toSorted()])
  expect(await left()).toEqual([])
})

test('a document that changes while it is indexed with others is indexed again', async () => {
  const { app, runJobs, refreshed, ids, changed, during, left, asAda } = await start(4)
  const last = ids.at(-1)!
  during.now = async () => {
    during.now = async () => {}
    await app.db.updateTable('documents').set({ content: 'after' }).where('id', '=', last).execute()
    await changed(last)
  }
  await runJobs(['index'])
  expect(refreshed).toEqual([ids.toSorted(), [last]])
  expect((await asAda.search.query('after')).total).toBe(1)
  expect(await left()).toEqual([])
})

test('index jobs end while a long transaction enqueues one of them again, and that one runs after it', async () => {
  const { app, runJobs, refreshed, ids, left } = await start(4)
  const last = ids.at(-1)!
  await app.db.transaction().execute(async (trx) => {
    await enqueueIndex(trx, [last])
    await runJobs(['index'])
    expect(await left()).toHaveLength(1)
  })
  await runJobs(['index'])
  expect(refreshed).toEqual([ids.toSorted(), [last]])
  expect(await left()).toEqual([])
})

test('a document that cannot be indexed delays no other, and waits for its next attempt', async () => {
  const { app, runJobs, ids, during, left, asAda } = await start(3)
  const bad = ids.at(-1)!
  during.now = async (some) => {
    if (some.includes(bad)) throw new Error('it is odd')
  }
  await runJobs(['index'])
  const waiting = await app.db.selectFrom('jobs').select(['payload', 'attempts']).where('kind', '=', 'index').execute()
  expect(waiting).toEqual([{ payload: { document_id: bad }, attempts: 1 }])
  expect(await left()).toHaveLength(1)
  expect(await asAda.search.pending(ids)).toEqual([bad])
})

test('POST /api/search/pending: a document whose indexing failed is pending until it is indexed', async () => {
  const { app, runJobs, ids, during, asAda, asBob } = await start(1)
  during.now = async () => {
    throw new Error('it is odd')
  }
  await runJobs(['index'])
  expect([await asAda.search.pending(ids), await asBob.search.pending(ids)]).toEqual([ids, []])
  during.now = async () => {}
  await sql`update jobs set run_at = now()`.execute(app.db)
  await runJobs(['index'])
  expect(await asAda.search.pending(ids)).toEqual([])
})

test('a document that is changed by its id in capitals keeps its words, and its passages', async () => {
  const { app, runJobs, asAda, ada } = await start(0)
  const content = `${Array.from({ length: 40_000 }, (_, nth) => `w${nth}`).join(' ')} silver harbour`
  const id = await insertDocument(app.db, ada.id, { content })
  await asAda.call('PUT', `/api/documents/${id.toUpperCase()}`, { title: 'Renamed' })
  await runJobs(['index'])
  for (const q of ['renamed', '"silver harbour"', '"w39998 w39999"']) expect([q, (await asAda.search.query(q)).total]).toEqual([q, 1])
})

test('a document with a thousand long labels is found by its text, its file name and each of its labels', async () => {
  const { app, asAda, runJobs } = await start(0)
  const { rows } = await sql<{ id: string }>`
    insert into labels (name, name_key, color) select name, name, '#000000' from generate_series(1, 1000) n, lateral (
      select n || string_agg(chr(19968 + abs(hashtext(n || '.' || g)) % 20000), '') as name from generate_series(1, 90) g) named
    returning id`.execute(app.db)
  const { id } = await upload(asAda, 'quince.txt', 'apples')
  await asAda.documents.update(id, { labels: rows.map((label) => label.id) })
  await runJobs()
  for (const query of ['q=apples', 'q=quince', `q=a&filters=${JSON.stringify({ label_ids: [rows[999]?.id] })}`])
    expect([query, await asAda.call('GET', `/api/search?${query}`)]).toMatchObject([query, { results: [{ document_id: id }] }])
})

test('200 with status:processing while a document is read, and with status:pending after its worker has stopped', async () => {
  const { app, asAda, runJobs } = await startApp()
  await upload(asAda, 'a.pdf', '%PDF-1.4')
  await runJobs(['index'])
  const found = async (q: string) => (await asAda.search.query(q)).total
  const { promise: reading, resolve: onRead } = Promise.withResolvers<void>()
  const reader = fakeReader(1, (_page, options) => {
    onRead()
    return forever(options)
  })
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await reading
  const indexed = async () => {
    await runJobs(['index'])
    return [await found('status:pending'), await found('status:processing')]
  }
  await expect.poll(indexed).toEqual([0, 1])
  await worker.stop(0)
  await expect.poll(indexed).toEqual([1, 0])
})
