import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import type { Trx } from '../../src/db/pool.ts'
import * as reading from '../../src/documents/extraction/result.ts'
import { purgeUncommitted } from '../../src/documents/purge.ts'
import { addressOf } from '../../src/documents/stored-files.ts'
import { completeGroup } from '../../src/jobs/groups.ts'
import * as claims from '../../src/jobs/leases.ts'
import * as jobs from '../../src/jobs/queue.ts'
import { type DocumentReader, ReadFailure } from '../../src/ports/document-reader.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { always, fakeReader, forever } from '../support/fake-reader.ts'
import { storeFiles } from '../support/servers/server.ts'

const minute = 60_000

/** Runs a worker with a scripted reader until no job can run. */
async function work(app: App, reader: DocumentReader, name = 'here/1') {
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name })
  await worker.idle()
  await worker.stop(minute)
}

const jobOf = (app: App, documentId: string) =>
  app.db
    .selectFrom('jobs')
    .selectAll()
    .where('document_id', '=', documentId)
    .where('kind', '=', 'ocr')
    .orderBy('id', 'desc')
    .executeTakeFirstOrThrow()

/** Makes waiting jobs due. */
const hurry = (app: App) =>
  app.db
    .updateTable('jobs')
    .set({ run_at: new Date(0) })
    .where('status', '=', 'pending')
    .execute()

const makeSilent = (app: App, name: string) =>
  sql`update workers set seen_at = now() - interval '1 hour' where name = ${name}`.execute(app.db)

test('several workers run each job once', async () => {
  const { app, asAda } = await startApp()
  for (let index = 0; index < 25; index++) await upload(asAda, `${index}.pdf`, `%PDF-1.4 ${index}`)
  const readers = [1, 2, 3, 4].map(() => fakeReader(1))
  await Promise.all(readers.map((reader, index) => work(app, reader, `here/${process.pid}/${index}`)))
  expect(readers.flatMap(({ calls }) => calls).filter((page) => page === 1)).toHaveLength(25)
  expect(await app.db.selectFrom('jobs').select(['status', 'attempts']).where('kind', '=', 'ocr').distinct().execute()).toEqual([
    { status: 'completed', attempts: 1 },
  ])
  expect(await app.db.selectFrom('documents').select(['status', 'content']).distinct().execute()).toEqual([
    { status: 'completed', content: 'text of page 1' },
  ])
})

test('a worker whose lease has expired changes nothing: job, pages and progress belong to another', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const late = await claims.leaseNext(app.db, 'ocr', 'frozen/1', minute)
  if (!late) throw new Error('nothing to claim')
  const outline = await fakeReader(2).outline({ path: '', filename: '', mimeType: '' })
  await app.db.transaction().execute((trx) => reading.recordOutline(app, trx, id, outline, { withOcr: true }))
  const latePage = await reading.claimPage(app.db, id, minute)

  await claims.expireLeases(app.db, ['frozen/1'])
  await work(app, fakeReader(2))
  await hurry(app)
  await work(app, fakeReader(2))
  const after = await asAda.documents.get(id)
  expect(after).toMatchObject({ status: 'completed', content: 'text of page 1\n\ntext of page 2' })

  const inTransaction = (run: (trx: Parameters<typeof claims.completeJob>[0]) => Promise<unknown>) => app.db.transaction().execute(run)
  await expect(claims.renewLease(app.db, late, minute)).rejects.toThrow(claims.LeaseLost)
  await expect(inTransaction((trx) => claims.completeJob(trx, late))).rejects.toThrow(claims.LeaseLost)
  await expect(inTransaction((trx) => claims.failJob(trx, late, { code: 'X', message: 'x', isRetryable: true }))).rejects.toThrow(
    claims.LeaseLost,
  )
  await expect(inTransaction((trx) => claims.releaseLease(trx, late))).rejects.toThrow(claims.LeaseLost)
  await expect(inTransaction((trx) => claims.lockLease(trx, late, minute))).rejects.toThrow(claims.LeaseLost)
  await expect(claims.setProgress(app.db, late, 1, 2)).rejects.toThrow(claims.LeaseLost)
  if (latePage)
    await reading.recordPage(
      app.db,
      latePage,
      { text: 'stale', confidence: 1, words: [], language: null, angle: 0, width: 1, height: 1 },
      1,
    )
  expect(await asAda.documents.get(id)).toEqual(after)
  const pages = await app.db.selectFrom('document_pages').select('text').where('document_id', '=', id).orderBy('page').execute()
  expect(pages.map(({ text }) => text)).toEqual(['text of page 1', 'text of page 2'])
})

test('the job of a dead worker returns to pending and runs once', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await app.db
    .insertInto('workers')
    .values({ name: 'elsewhere/1', queues: ['ocr'] })
    .execute()
  await claims.leaseNext(app.db, 'ocr', 'elsewhere/1', 5 * minute)
  await app.db.updateTable('documents').set({ status: 'processing' }).execute()

  const idle = fakeReader(1)
  await work(app, idle)
  expect([await jobOf(app, id), idle.calls]).toMatchObject([{ status: 'processing', worker: 'elsewhere/1' }, []])

  await makeSilent(app, 'elsewhere/1')
  await work(app, idle)
  expect(await jobOf(app, id)).toMatchObject({ status: 'pending', attempts: 0, losses: 1, error_code: 'WORKER_LOST', worker: null })
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'pending', error: null })

  await hurry(app)
  const reader = fakeReader(1)
  await work(app, reader)
  expect([await jobOf(app, id), reader.calls]).toMatchObject([{ status: 'completed', attempts: 1, error_code: null }, [0, 1]])
})

test('a job whose workers die repeatedly fails', async () => {
  const { app, asAda } = await startApp({ 'ocr.max_attempts': 2 })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  // Two losses are not counted as attempts.
  for (let loss = 0; loss < 4; loss++) {
    expect(await asAda.documents.get(id)).toMatchObject({ status: 'pending' })
    await claims.leaseNext(app.db, 'ocr', 'elsewhere/1', 1000)
    await claims.expireLeases(app.db, ['elsewhere/1'])
    await work(app, fakeReader(1))
    await hurry(app)
  }
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'failed', error: { code: 'WORKER_LOST' } })
})

test('a temporary failure is retried with growing delays, and finally fails with its reason', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const waits: { longest: number; shortest: number }[] = []
  for (let attempt = 1; attempt <= 3; attempt++) {
    const before = Date.now()
    await work(app, fakeReader(1, always(new ReadFailure('READ_CRASHED', undefined, { isRetryable: true }))))
    const job = await jobOf(app, id)
    expect(job.attempts).toBe(attempt)
    if (attempt === 3) break
    expect(await asAda.documents.get(id)).toMatchObject({ status: 'pending' })
    expect(job.status).toBe('pending')
    waits.push({ longest: job.run_at.getTime() - before, shortest: job.run_at.getTime() - Date.now() })
    await hurry(app)
  }
  expect(waits[0]?.longest).toBeGreaterThan(3500)
  expect(waits[0]?.shortest).toBeLessThan(6500)
  expect(waits[1]?.longest).toBeGreaterThan(14_000)
  expect(waits[1]?.shortest).toBeLessThan(26_000)
  expect(await asAda.documents.get(id)).toMatchObject({
    status: 'failed',
    error: { code: 'READ_CRASHED', message: expect.stringMatching(/^Page 1: /) },
  })
})

test('a permanent failure is final at once; the pages that were read stay', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const failure = new ReadFailure('READ_TIMEOUT')
  await work(
    app,
    fakeReader(3, (page) => (page === 2 ? always(failure)() : undefined)),
  )
  expect(await asAda.documents.get(id)).toMatchObject({
    status: 'failed',
    content: 'text of page 1\n\ntext of page 3',
    error: { code: 'READ_TIMEOUT', message: expect.stringMatching(/^Page 2: /) },
  })
  expect(await jobOf(app, id)).toMatchObject({ status: 'failed', attempts: 1 })
})

test('a retry reads missing pages only', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const crashing = fakeReader(4, (page) =>
    page === 3 ? always(new ReadFailure('READ_CRASHED', undefined, { isRetryable: true }))() : undefined,
  )
  await work(app, crashing)
  expect(crashing.calls).toEqual([0, 1, 2, 3, 4])
  await hurry(app)
  const second = fakeReader(4)
  await work(app, second)
  expect(second.calls).toEqual([3])
  expect(await asAda.documents.get(id)).toMatchObject({
    status: 'completed',
    page_count: 4,
    ocr_confidence: 0.5,
    metadata: { author: 'Fake' },
  })
})

test('a graceful stop returns a job without counting the attempt, and its pages stay', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const slow = fakeReader(3, (page, options) => (page === 2 ? forever(options) : undefined))
  const worker = await startWorker({ ...app, reader: slow }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await expect.poll(() => slow.calls).toEqual([0, 1, 2])
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'processing' })
  const started = performance.now()
  await worker.stop(300)
  expect(performance.now() - started).toBeLessThan(15_000)
  expect(await jobOf(app, id)).toMatchObject({ status: 'pending', attempts: 0, worker: null })
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'pending' })
  expect(await app.db.selectFrom('workers').selectAll().execute()).toEqual([])

  const next = fakeReader(3)
  await work(app, next)
  expect(next.calls).toEqual([2, 3])
  expect(await jobOf(app, id)).toMatchObject({ status: 'completed', attempts: 1 })
})

test('a graceful stop waits for a job within its time limit', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const reader = fakeReader(1, async () => {
    await sleep(200)
    return 'in time'
  })
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await expect.poll(() => reader.calls).toEqual([0, 1])
  await worker.stop(minute)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed', content: 'in time' })
})

test('cancelling a running job stops it soon, on every worker', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const reader = fakeReader(3, (_, options) => forever(options))
  const workers = await Promise.all(
    ['here/1', 'there/2'].map((name) => startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name })),
  )
  // One reads the document, the other helps.
  await expect.poll(() => reader.calls.filter((page) => page > 0).length).toBe(2)
  const { id: jobId } = await jobOf(app, id)
  const started = performance.now()
  expect((await asAda.send('DELETE', `/api/ocr/queue/${jobId}`)).status).toBe(204)
  await Promise.all(workers.map((worker) => worker.idle()))
  // Much less than the lease.
  expect(performance.now() - started).toBeLessThan(15_000)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'failed', error: { code: 'OCR_CANCELLED' } })
  expect(
    await app.db.selectFrom('jobs').select(['kind', 'status']).where('queue', '=', 'ocr').where('status', '!=', 'cancelled').execute(),
  ).toEqual([])
  await Promise.all(workers.map((worker) => worker.stop(1000)))
})

test('deleting a document stops its OCR', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const reader = fakeReader(1, (_, options) => forever(options))
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await expect.poll(() => reader.calls).toEqual([0, 1])
  await asAda.documents.delete(id, { permanent: true })
  await worker.idle()
  await worker.stop(1000)
  expect(await app.db.selectFrom('jobs').select('kind').where('queue', '=', 'ocr').execute()).toEqual([])
})

test('two workers share a long document, each page read once', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const slow = () => sleep(40).then(() => undefined)
  const [one, two] = [fakeReader(12, slow), fakeReader(12, slow)]
  const workers = [
    await startWorker({ ...app, reader: one }, { queues: ['ocr'], concurrency: 1, name: 'here/1' }),
    await startWorker({ ...app, reader: two }, { queues: ['ocr'], concurrency: 1, name: 'there/2' }),
  ]
  await expect.poll(async () => (await asAda.documents.get(id)).status).toBe('completed')
  await Promise.all(workers.map((worker) => worker.idle()))
  await Promise.all(workers.map((worker) => worker.stop(1000)))
  const [first, second] = [one, two].map(({ calls }) => calls.filter((page) => page > 0))
  expect([...(first ?? []), ...(second ?? [])].sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
  expect(Math.min(first?.length ?? 0, second?.length ?? 0)).toBeGreaterThan(1)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed', page_count: 12 })
  expect(await app.db.selectFrom('jobs').select('id').where('kind', '=', 'pages').execute()).toEqual([])
})

test('pages of a lost helper are taken over at once', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const reader = fakeReader(3, async (page) => {
    if (page === 1) await reading.claimPage(app.db, id, 10 * minute)
    return undefined
  })
  await work(app, reader)
  expect(reader.calls).toEqual([0, 1, 3, 2])
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed' })
})

test('an outage of the database costs no attempt', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await work(
    app,
    fakeReader(1, () => Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' }))),
  )
  expect(await jobOf(app, id)).toMatchObject({ status: 'pending', attempts: 0 })
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'pending' })
})

test('all connections cut during OCR: the job goes on and ends once', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const reader = fakeReader(2, async (page) => {
    if (page === 1)
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`.execute(
        app.db,
      )
    return undefined
  })
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await expect.poll(async () => (await asAda.documents.get(id)).status, { timeout: 60_000 }).toBe('completed')
  await worker.stop(1000)
  expect(await jobOf(app, id)).toMatchObject({ status: 'completed', attempts: 1 })
})

test('a missing stored file fails its document alone, after all attempts', async () => {
  const { app, asAda } = await startApp({ 'ocr.max_attempts': 1 })
  const [lost, kept] = [await upload(asAda, 'a.pdf', '%PDF-1.4 a'), await upload(asAda, 'b.pdf', '%PDF-1.4 b')]
  await app.files.remove(await addressOf(app.db, lost.sha256))
  await work(app, fakeReader(1))
  expect(await asAda.documents.get(lost.id)).toMatchObject({ status: 'failed', error: { code: 'FILE_MISSING' } })
  expect(await asAda.documents.get(kept.id)).toMatchObject({ status: 'completed' })
})

test('jobs are locked in the order of their ids, whatever the order of a completion or a cancellation', async () => {
  const { app, asAda } = await startApp()
  for (let index = 0; index < 8; index++) await upload(asAda, `${index}.txt`, `text ${index}`)
  const leased: jobs.Job[] = []
  for (
    let job = await claims.leaseNext(app.db, 'ocr', 'here/1', minute);
    job;
    job = await claims.leaseNext(app.db, 'ocr', 'here/1', minute)
  )
    leased.push(job)
  const [first, ...others] = leased.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const descending = [...others.toReversed(), first!]
  const ids = descending.map(({ id }) => id)
  const rollback = new Error('rolled back')
  const undo = (work: (trx: Trx) => Promise<unknown>) =>
    app.db
      .transaction()
      .execute(async (trx) => {
        await work(trx)
        throw rollback
      })
      .catch((error) => expect(error).toBe(rollback))
  const writers = [
    (trx: Trx) =>
      completeGroup(
        trx,
        descending.map((job) => ({ job, pages: 1 })),
      ),
    (trx: Trx) => jobs.cancel(trx, ids),
  ]
  for (const write of writers) {
    let writing: Promise<unknown> = Promise.resolve()
    await app.db.transaction().execute(async (trx) => {
      await sql`select from jobs where id = ${first!.id} for update`.execute(trx)
      writing = undo(write)
      await expect
        .poll(async () => {
          const { rows } = await sql`
            select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(app.db)
          return rows.length
        })
        .toBe(1)
      const { rows } = await sql`select from jobs where id = any(${ids.slice(0, -1)}::uuid[]) for update nowait`.execute(trx)
      expect(rows).toHaveLength(others.length)
    })
    await writing
  }
})

test('an enqueue with an equal key joins a waiting job, never a running one', async () => {
  const { app } = await startApp()
  const add = (trx: Parameters<typeof claims.completeJob>[0]) => jobs.enqueue(trx, 'purge', { sha256: 'a' }, { dedupeKey: 'one' })
  const first = await app.db.transaction().execute(add)
  // While somebody joins, the job cannot start before what they commit is there to be read.
  await app.db.transaction().execute(async (trx) => {
    expect(await add(trx)).toBe(first)
    expect(await claims.leaseNext(app.db, 'maintenance', 'here/1', minute)).toBeNull()
  })
  const claimed = await claims.leaseNext(app.db, 'maintenance', 'here/1', minute)
  expect(claimed?.id).toBe(first)
  const second = await app.db.transaction().execute(add)
  expect(second).not.toBe(first)
  for (let round = 0; round < 20; round++) {
    const [, id] = await Promise.all([claims.leaseNext(app.db, 'maintenance', 'here/1', minute), app.db.transaction().execute(add)])
    const { status, started_at } = await app.db
      .selectFrom('jobs')
      .select(['status', 'started_at'])
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    // Waiting, or begun after the enqueue was committed.
    expect(status === 'pending' || started_at !== null).toBe(true)
  }
})

test('jobs run by priority, then by age', async () => {
  const { app } = await startApp()
  const ids: Record<string, string> = {}
  for (const [name, priority] of [
    ['a', 'normal'],
    ['b', 'urgent'],
    ['c', 'low'],
    ['d', 'urgent'],
    ['e', 'high'],
  ] as const)
    ids[name] = await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', { sha256: name }, { priority }))
  const order: (string | undefined)[] = []
  for (let index = 0; index < 5; index++) order.push((await claims.leaseNext(app.db, 'maintenance', 'here/1', minute))?.id)
  expect(order).toEqual(['b', 'd', 'e', 'a', 'c'].map((name) => ids[name]))
})

test('the index is completed after an outage of its engine of any length', async () => {
  const { app, asAda } = await startApp()
  await upload(asAda, 'a.pdf', '%PDF-1.4')
  const search = { ...app.search, refresh: () => Promise.reject(new Error('the engine is down')) }
  const log = app.log as { child: unknown }
  log.child = () => ({ ...app.log, info: () => {}, warn: () => {}, error: () => {} })
  for (let attempt = 0; attempt < 5; attempt++) {
    const worker = await startWorker({ ...app, search }, { queues: ['index'], concurrency: 1, name: 'here/1' })
    await worker.idle()
    await worker.stop(1000)
    await hurry(app)
  }
  expect(await app.db.selectFrom('jobs').select(['status', 'attempts']).where('kind', '=', 'index').execute()).toEqual([
    { status: 'pending', attempts: 5 },
  ])
})

test('committed files of a failed upload are found and removed', async () => {
  const { app, asAda, runJobs, dataDir } = await startApp()
  const kept = await upload(asAda, 'a.txt', 'kept')
  const [orphan, twin] = await Promise.all(['orphan', 'kept'].map((text) => app.files.stage(Readable.from([Buffer.from(text)]), 100)))
  await Promise.all([orphan?.commit(), twin?.commit()])
  await Promise.all([orphan?.discard(), twin?.discard()])
  expect((await storeFiles(dataDir)).named).toHaveLength(3)
  await purgeUncommitted(app)
  await runJobs(['maintenance'])
  expect(await storeFiles(dataDir)).toEqual({ named: [kept.sha256], staged: [] })
  expect(await app.db.selectFrom('stored_files').select('sha256').execute()).toEqual([{ sha256: kept.sha256 }])
})

test('a job of a kind that only a later version knows waits for that version, without an attempt, and others run', async () => {
  const { app, asAda } = await startApp()
  const { rows } = await sql<{ id: string }>`
    insert into jobs (kind, queue, payload, max_attempts, run_at) values ('of_a_later_version', 'ocr', '{}', 3, now() - interval '1 hour')
    returning id`.execute(app.db)
  const { id } = await upload(asAda, 'a.txt', 'words')
  await work(app, fakeReader(1))
  const later = await app.db
    .selectFrom('jobs')
    .selectAll()
    .where('id', '=', rows[0]?.id ?? '')
    .executeTakeFirstOrThrow()
  expect(later).toMatchObject({ status: 'pending', attempts: 0, worker: null, lease_until: null })
  expect((await jobOf(app, id)).status).toBe('completed')
})
