import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { fakeReader, forever } from '../support/fake-reader.ts'
import { countWaiting } from '../support/lock-waits.ts'

test('an idle worker writes nothing for seconds; a busy one renews its lease each second', async () => {
  const { app, asAda } = await startApp({ 'worker.lease': '4s' })
  const worker = await startWorker(
    { ...app, reader: fakeReader(1, (_page, options) => forever(options)) },
    { queues: ['ocr'], concurrency: 1 },
  )
  const seen = async () => (await app.db.selectFrom('workers').select('seen_at').executeTakeFirstOrThrow()).seen_at.getTime()
  const first = await seen()
  await sleep(2500)
  expect(await seen()).toBe(first)

  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const lease = async () =>
    (
      await app.db
        .selectFrom('jobs')
        .select('lease_until')
        .where('document_id', '=', id)
        .where('kind', '=', 'ocr')
        .executeTakeFirstOrThrow()
    ).lease_until
  await expect.poll(lease).not.toBe(null)
  const until = (await lease())?.getTime() ?? 0
  await expect.poll(seen, { timeout: 20_000 }).toBeGreaterThan(first)
  await expect.poll(async () => (await lease())?.getTime(), { timeout: 20_000 }).toBeGreaterThan(until)
  await worker.stop(0)
})

test('a worker whose pooled connections all wait for a lock goes on with its heartbeats, and keeps its leases', async () => {
  const { app, asAda } = await startApp({ 'database.pool_max': 2, 'worker.lease': '4s' })
  for (const name of ['a.pdf', 'b.pdf']) await upload(asAda, name, `%PDF-1.4 ${name}`)
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>()
  const reader = fakeReader(1, () => released)
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 2 })
  await expect.poll(() => reader.calls.filter((page) => page === 1)).toHaveLength(2)
  const deletion = await app.database.connect('test')
  onTestFinished(() => deletion.end())
  await deletion.query('begin')
  await deletion.query('select from documents for update')
  release(undefined)
  await expect.poll(() => countWaiting(app.reads)).toBe(2)

  const state = async () => {
    const { rows } = await sql<{ seen: number; left: number }>`select extract(epoch from max(seen_at))::float8 as seen,
      (select min(extract(epoch from lease_until - now()))::float8 from jobs where status = 'processing') as left from workers`.execute(
      app.reads,
    )
    return rows[0]!
  }
  const { seen } = await state()
  await expect.poll(async () => (await state()).seen).toBeGreaterThan(seen + 5)
  expect((await state()).left).toBeGreaterThan(0)
  await deletion.query('rollback')
  await worker.idle()
  await worker.stop(0)
  expect((await Array.fromAsync(asAda.documents.list())).map(({ status }) => status)).toEqual(['completed', 'completed'])
})
