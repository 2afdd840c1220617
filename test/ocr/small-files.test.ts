import { unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import * as leases from '../../src/jobs/leases.ts'
import { type DocumentReader, type FileToRead, type Outline, ReadFailure } from '../../src/ports/document-reader.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { storedPath } from '../support/stored-path.ts'

const minute = 60_000

const outlineOf = (text: string, needsOcr = false): Outline => ({
  mimeType: 'text/plain',
  hasReader: true,
  metadata: { author: 'File' },
  pages: [{ page: 1, text, needsOcr, width: null, height: null }],
})

/** A reader with scripted results, which records the names of the files. */
function readerOf(outline: (file: FileToRead, signal?: AbortSignal) => Outline | Promise<Outline>) {
  const asked: string[] = []
  const reader: DocumentReader = {
    slots: 2,
    outline: async (file, { signal } = {}) => {
      asked.push(file.filename)
      return outline(file, signal)
    },
    outlines: (files, { signal } = {}) =>
      Promise.all(
        files.map(async (file) => {
          asked.push(file.filename)
          try {
            return await outline(file, signal)
          } catch (error) {
            if (error instanceof ReadFailure && error.code !== 'READ_CRASHED') return null
            throw error
          }
        }),
      ),
    page: async () => ({ text: 'from the picture', confidence: 0.5, words: [], language: null, angle: 0, width: 1, height: 1 }),
    thumbnail: async () => null,
    words: async () => [],
    marks: async () => [],
    copyPages: (_file, _pages, use) => use(Readable.from([])),
    pdfa: (_file, _texts, _info, use) => use(Readable.from([])),
    close: async () => {},
  }
  return { reader, asked }
}

async function work(app: App, reader: DocumentReader, maxJobs?: number) {
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1', maxJobs })
  await worker.idle()
  await worker.stop(minute)
}

const jobsOf = (app: App) =>
  app.db
    .selectFrom('jobs')
    .innerJoin('documents', 'documents.id', 'jobs.document_id')
    .select(['filename', 'jobs.status', 'attempts', 'jobs.error_code', 'finished_at', 'pages_done', 'pages_total'])
    .where('kind', 'in', ['ocr', 'extract'])
    .orderBy('filename')
    .execute()

test('texts of one owner are stored together: each once, with one notification, and indexed once with its text', async () => {
  const { app, asAda, asBob } = await startApp()
  const names = Array.from({ length: 70 }, (_, at) => `${100 + at}.txt`)
  const ids: string[] = []
  for (const name of names) ids.push((await upload(asAda, name, `of 3 May 2021 ${name}`, { metadata: { author: 'Ada' } })).id)
  await upload(asBob, 'bob.txt', 'of bob')
  const isDue = sql<boolean>`run_at <= now()`.as('is_due')
  const indexJobs = () => app.db.selectFrom('jobs').select(isDue).where('kind', '=', 'index').execute()
  expect(await indexJobs()).toEqual(Array(71).fill({ is_due: false }))

  const { reader, asked } = readerOf(({ filename }) => outlineOf(`of 3 May 2021 ${filename}`))
  await work(app, reader)
  expect(asked.toSorted()).toEqual([...names, 'bob.txt'])
  const jobs = await jobsOf(app)
  expect(
    jobs.every(
      ({ status, attempts, pages_done, pages_total }) => `${status} ${attempts} ${pages_done} ${pages_total}` === 'completed 1 1 1',
    ),
  ).toBe(true)
  expect(new Set(jobs.map(({ finished_at }) => finished_at?.getTime())).size).toBeLessThanOrEqual(4)
  expect(await indexJobs()).toEqual(Array(71).fill({ is_due: true }))
  expect(await asAda.documents.get(ids[5] ?? '')).toMatchObject({
    status: 'completed',
    content: 'of 3 May 2021 105.txt',
    document_date: '2021-05-03',
    date_source: 'text',
    page_count: 1,
    metadata: { author: 'Ada' },
    error: null,
  })
  const messages = async (client: typeof asAda) => (await client.notifications.page({})).notifications.map(({ message }) => message)
  expect(await messages(asAda)).toEqual([expect.stringMatching(/^70 documents have been read; the last one is 1\d\d\.txt\.$/)])
  expect(await messages(asBob)).toEqual(['bob.txt has been read.'])
})

test('a text that fails, has lost its file or needs OCR is read alone; the others of its group are stored', async () => {
  const { app, asAda } = await startApp({ 'ocr.max_attempts': 2 })
  const uploaded = []
  for (const name of ['a', 'bad', 'c', 'gone', 'picture', 'z']) uploaded.push(await upload(asAda, `${name}.txt`, `text ${name}`))
  const gone = uploaded.find(({ filename }) => filename === 'gone.txt')
  await unlink(await storedPath(app, gone?.sha256 ?? ''))
  const { reader } = readerOf(({ filename }) => {
    if (filename === 'bad.txt') throw new ReadFailure('FILE_CORRUPT')
    return outlineOf(filename === 'picture.txt' ? '' : filename, filename === 'picture.txt')
  })
  await work(app, reader)
  expect((await jobsOf(app)).map(({ filename, status, error_code }) => [filename, status, error_code])).toEqual([
    ['a.txt', 'completed', null],
    ['bad.txt', 'failed', 'FILE_CORRUPT'],
    ['c.txt', 'completed', null],
    ['gone.txt', 'pending', 'FILE_MISSING'],
    ['picture.txt', 'completed', null],
    ['z.txt', 'completed', null],
  ])
  const picture = uploaded.find(({ filename }) => filename === 'picture.txt')
  expect(await asAda.documents.get(picture?.id ?? '')).toMatchObject({ content: 'from the picture', ocr_confidence: 0.5 })
})

test('texts whose reader process dies while they are read together are read alone, each once', async () => {
  const { app, asAda } = await startApp()
  for (let at = 0; at < 10; at++) await upload(asAda, `${100 + at}.txt`, `text ${at}`)
  let hasCrashed = false
  const { reader, asked } = readerOf(({ filename }) => {
    if (filename === '103.txt' && !hasCrashed) {
      hasCrashed = true
      throw new ReadFailure('READ_CRASHED', undefined, { isRetryable: true })
    }
    return outlineOf(filename)
  })
  await work(app, reader)
  const jobs = await jobsOf(app)
  expect(jobs.map(({ status, attempts }) => `${status} ${attempts}`)).toEqual(Array(10).fill('completed 1'))
  expect(asked.filter((name) => name === '103.txt').length).toBe(2)
  expect(new Set(jobs.map(({ finished_at }) => finished_at?.getTime())).size).toBe(10)
})

test('files of unknown type are stored together without a text; one that needs a missing program is read alone, with its warning', async () => {
  const { app, asAda } = await startApp()
  const ids: string[] = []
  for (const name of ['a', 'b', 'scan']) ids.push((await upload(asAda, name, Uint8Array.from([0, 1, 254, name.length]))).id)
  const { reader, asked } = readerOf(({ filename }) => ({
    ...outlineOf(''),
    ...{ mimeType: 'application/octet-stream', hasReader: false, metadata: {} },
    ...(filename === 'scan' && { mimeType: 'image/vnd.djvu', missingPackage: 'djvulibre-bin' }),
  }))
  await work(app, reader)
  expect(asked.toSorted()).toEqual(['a', 'b', 'scan', 'scan'])
  const read = await Promise.all(ids.map((id) => asAda.documents.get(id)))
  expect(read.map(({ status, content, page_count, warnings }) => [status, content, page_count, warnings.map(({ code }) => code)])).toEqual([
    ['completed', '', 1, []],
    ['completed', '', 1, []],
    ['completed', '', 1, ['program_missing']],
  ])
  const finished = (await jobsOf(app)).map(({ finished_at }) => finished_at?.getTime())
  expect(finished[0]).toBe(finished[1])
})

test('a text that is deleted, cancelled or dated by its owner while its group is read keeps that change', async () => {
  const { app, asAda } = await startApp()
  const [deleted, cancelled, dated, left] = [
    await upload(asAda, 'deleted.txt', 'text 1'),
    await upload(asAda, 'cancelled.txt', 'text 2'),
    await upload(asAda, 'dated.txt', 'text 3'),
    await upload(asAda, 'left.txt', 'text 4'),
  ]
  let isChanged = false
  const { reader } = readerOf(async ({ filename }) => {
    if (!isChanged) {
      isChanged = true
      await asAda.documents.delete(deleted.id, { permanent: true })
      const { data } = await asAda.ocrQueue.page({})
      await asAda.ocrQueue.cancel(data.find(({ document_id }) => document_id === cancelled.id)?.id ?? '')
      await asAda.documents.update(dated.id, { document_date: '1999-12-31' })
    }
    return outlineOf(`of 3 May 2021 ${filename}`)
  })
  await work(app, reader)
  expect((await jobsOf(app)).map(({ filename, status }) => [filename, status])).toEqual([
    ['cancelled.txt', 'cancelled'],
    ['dated.txt', 'completed'],
    ['left.txt', 'completed'],
  ])
  expect((await asAda.documents.get(cancelled.id)).content).toBe('')
  expect(await asAda.documents.get(dated.id)).toMatchObject({ document_date: '1999-12-31', date_source: 'user' })
  expect(await asAda.documents.get(left.id)).toMatchObject({ document_date: '2021-05-03', status: 'completed' })
})

test('after a worker died during a group, the jobs of the group run alone', async () => {
  const { app, asAda } = await startApp()
  for (const name of ['a', 'b', 'c']) await upload(asAda, `${name}.txt`, `text ${name}`)
  // The group of a worker that dies before it stores anything.
  const reading = Promise.withResolvers<void>()
  const untilAborted = (signal?: AbortSignal) =>
    new Promise<never>((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
      reading.resolve()
    })
  const stuck = { ...app, reader: readerOf((_, signal) => untilAborted(signal)).reader }
  const dead = await startWorker(stuck, { queues: ['ocr'], concurrency: 1, name: 'dead/1' })
  await reading.promise
  expect(dead.running()).toHaveLength(3)
  await sql`update jobs set fence = fence + 1, lease_until = to_timestamp(0) where kind = 'ocr'`.execute(app.db)
  await leases.expireLeases(app.db, ['dead/1'])
  // Later, it would take one of the jobs again.
  await dead.stop(0)

  const { reader } = readerOf(({ filename }) => outlineOf(filename))
  await work(app, reader)
  expect((await jobsOf(app)).map(({ status, error_code }) => [status, error_code])).toEqual(Array(3).fill(['pending', 'WORKER_LOST']))
  await sql`update jobs set run_at = now() where kind = 'ocr'`.execute(app.db)
  await work(app, reader)
  const jobs = await jobsOf(app)
  expect(jobs.map(({ status, attempts }) => [status, attempts])).toEqual(Array(3).fill(['completed', 1]))
  expect(new Set(jobs.map(({ finished_at }) => finished_at?.getTime())).size).toBe(3)
})

test('a group is at most as large as the rest of --max-jobs', async () => {
  const { app, asAda } = await startApp()
  for (let at = 0; at < 8; at++) await upload(asAda, `${at}.txt`, `text ${at}`)
  await work(app, readerOf(({ filename }) => outlineOf(filename)).reader, 5)
  expect((await jobsOf(app)).filter(({ status }) => status === 'completed').length).toBe(5)
})
