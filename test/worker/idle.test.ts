import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { fakeReader, forever } from '../support/fake-reader.ts'

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
