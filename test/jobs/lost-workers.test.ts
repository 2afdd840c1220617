/** Jobs of a dead worker: a job may be the cause of its death. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { App } from '../../src/app.ts'
import * as leases from '../../src/jobs/leases.ts'
import { cancelByDocument } from '../../src/jobs/queue.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { fakeReader } from '../support/fake-reader.ts'

const jobsOf = (app: App) =>
  app.db
    .selectFrom('jobs')
    .innerJoin('documents', 'documents.id', 'document_id')
    .select(['filename', 'jobs.status', 'attempts', 'losses', 'jobs.error_code'])
    .where('kind', '=', 'ocr')
    .orderBy('filename')
    .execute()

const hurry = (app: App) => sql`update jobs set run_at = now() where status = 'pending'`.execute(app.db)

/** Leases every runnable job as a worker that dies. Another worker recovers the jobs. */
async function dieWithAll(app: App) {
  await hurry(app)
  while (await leases.leaseNext(app.db, 'ocr', 'dead/1', 60_000));
  await leases.expireLeases(app.db, ['dead/1'])
  await recover(app)
}

/** Recovers the jobs of dead workers. */
async function recover(app: App) {
  const recovering = await startWorker(app, { queues: ['index'], concurrency: 1, name: 'recovering/1' })
  await recovering.stop(1000)
}

test('the death of a worker costs its jobs no attempt, and a job that has been lost twice runs alone', async () => {
  const { app, asAda } = await startApp()
  await upload(asAda, 'suspect.pdf', '%PDF-1.4 suspect')
  await dieWithAll(app)
  await upload(asAda, 'lost-once.pdf', '%PDF-1.4 lost once')
  await dieWithAll(app)
  const lost = { status: 'pending', attempts: 0, error_code: 'WORKER_LOST' }
  expect(await jobsOf(app)).toEqual([
    { filename: 'lost-once.pdf', ...lost, losses: 1 },
    { filename: 'suspect.pdf', ...lost, losses: 2 },
  ])
  await upload(asAda, 'new.pdf', '%PDF-1.4 new')

  // The others wait for the suspect to start: as long as they are not interrupted.
  const running = new Set<string>()
  const withSuspect: string[][] = []
  let isSuspectDone = false
  const reader = fakeReader(1)
  const watched: typeof reader = {
    ...reader,
    async page(file, page, language, options) {
      running.add(file.filename)
      try {
        if (file.filename === 'suspect.pdf') {
          for (let round = 0; round < 20; round++, await sleep(10)) withSuspect.push([...running])
          isSuspectDone = true
        }
        while (!isSuspectDone) {
          options?.signal?.throwIfAborted()
          await sleep(10)
        }
        return await reader.page(file, page, language, options)
      } finally {
        running.delete(file.filename)
      }
    },
  }
  await sql`update jobs set run_at = now() from documents
    where jobs.document_id = documents.id and filename = 'lost-once.pdf' and jobs.status = 'pending'`.execute(app.db)
  const worker = await startWorker({ ...app, reader: watched }, { queues: ['ocr'], concurrency: 3, name: 'here/1' })
  await expect.poll(() => [...running].sort()).toEqual(['lost-once.pdf', 'new.pdf'])
  await hurry(app)
  await worker.idle()
  await expect.poll(async () => (await jobsOf(app)).map(({ status }) => status)).toEqual(Array(3).fill('completed'))
  expect(withSuspect.length).toBe(20)
  expect(new Set(withSuspect.flat())).toEqual(new Set(['suspect.pdf']))
  expect((await jobsOf(app)).map(({ attempts, losses }) => [attempts, losses])).toEqual([
    [1, 1],
    [1, 0],
    [1, 2],
  ])
  await worker.stop(1000)
})

test('a job that ends its worker is failed after two losses in company and its attempts alone', async () => {
  const { app, asAda } = await startApp({ 'ocr.max_attempts': 2 })
  const { id } = await upload(asAda, 'poison.pdf', '%PDF-1.4 poison')
  const counts: unknown[] = []
  for (let death = 0; death < 4; death++) {
    await dieWithAll(app)
    counts.push((await jobsOf(app)).map(({ status, attempts, losses }) => [status, attempts, losses])[0])
  }
  expect(counts).toEqual([
    ['pending', 0, 1],
    ['pending', 0, 2],
    ['pending', 1, 2],
    ['failed', 2, 2],
  ])
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'failed', error: { code: 'WORKER_LOST' } })
})

test('a transaction that cancels a job and goes on longer than its lease costs the other jobs of the worker nothing', async () => {
  const { app, asAda } = await startApp({ 'worker.lease': '3s' })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4 a')
  await upload(asAda, 'b.pdf', '%PDF-1.4 b')
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>()
  const reader = fakeReader(1, () => released)
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 2, name: 'here/1' })
  await expect.poll(() => reader.calls.filter((page) => page === 1), { timeout: 20_000 }).toHaveLength(2)

  await app.db.transaction().execute(async (trx) => {
    await cancelByDocument(trx, [id])
    const expired = async (seconds: number) =>
      (await sql`select document_id as id from jobs where lease_until < clock_timestamp() - ${seconds} * interval '1 s'`.execute(app.db))
        .rows
    await expect.poll(() => expired(3), { timeout: 20_000 }).toContainEqual({ id })
    expect(await expired(0)).toEqual([{ id }])
    await recover(app)
  })
  release(undefined)
  await worker.idle()
  await worker.stop(1000)
  expect(await jobsOf(app)).toMatchObject([
    { filename: 'a.pdf', status: 'cancelled' },
    { filename: 'b.pdf', status: 'completed', attempts: 1, losses: 0, error_code: null },
  ])
})

test('jobs of a dead worker are recovered while a transaction locks one of them, and that one afterwards', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4 a')
  await upload(asAda, 'b.pdf', '%PDF-1.4 b')
  while (await leases.leaseNext(app.db, 'ocr', 'dead/1', 60_000));
  await app.db.transaction().execute(async (trx) => {
    await sql`select from jobs where document_id = ${id} and kind = 'ocr' for update`.execute(trx)
    await recover(app)
    expect(await jobsOf(app)).toMatchObject([{ status: 'processing' }, { status: 'pending', error_code: 'WORKER_LOST' }])
  })
  await recover(app)
  expect((await jobsOf(app)).map(({ status }) => status)).toEqual(['pending', 'pending'])
})

test('a job that its worker leases again after an expired lease is still renewed when the earlier run ends', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4 a')
  const reader = fakeReader(1)
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let runCount = 0
  const slow: typeof reader = {
    ...reader,
    async outline(file, options) {
      await gates[runCount++]?.promise
      return reader.outline(file, options)
    },
  }
  const worker = await startWorker({ ...app, reader: slow }, { queues: ['ocr'], concurrency: 2, name: 'here/1' })
  const attempts = () => worker.running().map(({ job }) => job.attempts)
  await expect.poll(() => runCount).toBe(1)
  // Another worker has found the lease expired.
  await sql`update jobs set status = 'pending', fence = fence + 1, lease_until = null, worker = null where kind = 'ocr'`.execute(app.db)
  await sql`select pg_notify('dms_jobs', 'ready')`.execute(app.db)
  await expect.poll(() => runCount).toBe(2)
  expect(attempts()).toEqual([2])
  gates[0]?.resolve()
  await sleep(500)
  expect(attempts()).toEqual([2])
  gates[1]?.resolve()
  await worker.idle()
  await worker.stop(10_000)
  expect((await asAda.documents.get(id)).status).toBe('completed')
  expect(await jobsOf(app)).toMatchObject([{ status: 'completed', attempts: 2, losses: 0 }])
})

test('a worker whose process cannot be seen here, as of another container with the same host name, keeps its job', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'long.pdf', '%PDF-1.4 long')
  const { promise: released, resolve: release } = Promise.withResolvers<undefined>()
  const reader = fakeReader(1, () => released)
  const start = async (name: string) => {
    const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name })
    onTestFinished(() => worker.stop(10_000))
  }
  // Larger than any process id.
  await start('here/99999999')
  await expect.poll(() => reader.calls, { timeout: 20_000 }).toContain(1)
  await start('here/1')
  // The second worker looks for dead ones at its start, and every five seconds.
  await sleep(6000)
  release(undefined)
  await expect.poll(async () => (await asAda.documents.get(id)).status, { timeout: 20_000 }).toBe('completed')
  expect(await jobsOf(app)).toMatchObject([{ status: 'completed', attempts: 1, losses: 0 }])
}, 60_000)
