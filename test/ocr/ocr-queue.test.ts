import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Client, Page } from '../../src/client/client.ts'
import * as claims from '../../src/jobs/leases.ts'
import { ReadFailure } from '../../src/ports/document-reader.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { always, fakeReader } from '../support/fake-reader.ts'

const none = '0198f000-0000-7000-8000-000000000000'
const minute = 60_000

interface Item {
  id: string
  document_id: string
  filename: string
  status: string
  priority: string
  attempts: number
  language: string
  progress: number
  error: { code: string; message: string } | null
  [more: string]: unknown
}

const queue = async (client: Client, query = '') => (await client.call<Page<Item>>('GET', `/api/ocr/queue${query}`)).data
const statusOf = (client: Client) => client.call<Record<string, number | string | null>>('GET', '/api/ocr/queue/status')
const code = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code

type App = Awaited<ReturnType<typeof startApp>>['app']
async function read(app: App, reader = fakeReader(2)) {
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await worker.idle()
  await worker.stop(minute)
}

test('a job from pending to completed, as its owner sees it', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4', { language: 'deu+eng' })
  const [waiting] = await queue(asAda)
  expect(waiting).toEqual({
    id: expect.any(String),
    document_id: id,
    filename: 'a.pdf',
    title: 'a',
    status: 'pending',
    priority: 'normal',
    attempts: 0,
    max_attempts: 3,
    language: 'deu+eng',
    progress: 0,
    pages_done: 0,
    pages_total: null,
    error: null,
    created_at: expect.any(String),
    started_at: null,
    completed_at: null,
    processing_time: null,
    worker: null,
  })
  await read(app)
  expect(await asAda.call('GET', `/api/ocr/queue/${waiting?.id}`)).toMatchObject({
    status: 'completed',
    attempts: 1,
    progress: 100,
    pages_done: 2,
    pages_total: 2,
    worker: 'here/1',
    processing_time: expect.any(Number),
    completed_at: expect.any(String),
  })
})

test('the list is in the order of execution, and is filtered by status and priority', async () => {
  const { app, asAda } = await startApp()
  const names = ['done', 'running', 'normal', 'high', 'low']
  for (const name of names.slice(0, 1)) await upload(asAda, name, `%PDF-1.4 ${name}`)
  await read(app)
  for (const name of names.slice(1)) await upload(asAda, name, `%PDF-1.4 ${name}`)
  await claims.leaseNext(app.db, 'ocr', 'here/1', minute)
  for (const { id, filename } of await queue(asAda))
    if (filename === 'high' || filename === 'low') await asAda.call('PUT', `/api/ocr/queue/${id}/priority`, { priority: filename })
  expect((await queue(asAda)).map(({ filename }) => filename)).toEqual(['running', 'high', 'normal', 'low', 'done'])
  expect((await queue(asAda, '?status=pending')).map(({ filename }) => filename)).toEqual(['high', 'normal', 'low'])
  expect((await queue(asAda, '?status=completed,processing')).map(({ filename }) => filename)).toEqual(['running', 'done'])
  expect((await queue(asAda, '?priority=low')).map(({ filename }) => filename)).toEqual(['low'])
  const page = await asAda.call<Page<Item>>('GET', '/api/ocr/queue?per_page=2&page=2')
  expect([page.data.map(({ filename }) => filename), page.pagination]).toEqual([
    ['normal', 'low'],
    { page: 2, per_page: 2, total: 5, total_pages: 3, has_next: true, has_prev: true, next_cursor: expect.any(String) },
  ])
})

test('400 VALIDATION_ERROR for unknown states, priorities and bodies', async () => {
  const { asAda } = await startApp()
  await upload(asAda, 'a.pdf', '%PDF-1.4')
  const [job] = await queue(asAda)
  for (const response of [
    await asAda.send('GET', '/api/ocr/queue?status=sleeping'),
    await asAda.send('GET', '/api/ocr/queue?priority=5'),
    await asAda.send('PUT', `/api/ocr/queue/${job?.id}/priority`, { priority: 'asap' }),
    await asAda.send('PUT', `/api/ocr/queue/${job?.id}/priority`, {}),
    await asAda.send('POST', '/api/ocr/queue/retry', {}),
    await asAda.send('POST', '/api/ocr/queue/retry', { status: 'completed' }),
    await asAda.send('POST', '/api/ocr/queue/retry', { ids: ['x'] }),
    await asAda.send('POST', `/api/documents/${job?.document_id}/retry-ocr`, { language: 'xxx' }),
    await asAda.send('POST', `/api/documents/${job?.document_id}/retry-ocr`, { language: '../eng' }),
    await asAda.send('POST', `/api/documents/${job?.document_id}/retry-ocr`, { priority: 'asap' }),
  ])
    expect([response.url, response.status, await code(response)]).toEqual([response.url, 400, 'VALIDATION_ERROR'])
})

test('404 for jobs and documents of others and malformed ids; 401 without a token', async () => {
  const { asAda, asBob, asStranger, asAdmin } = await startApp()
  const { id: documentId } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const [job] = await queue(asAda)
  const ask = async (client: Client, id: string, document: string) => [
    await client.send('GET', `/api/ocr/queue/${id}`),
    await client.send('PUT', `/api/ocr/queue/${id}/priority`, { priority: 'high' }),
    await client.send('DELETE', `/api/ocr/queue/${id}`),
    await client.send('POST', `/api/documents/${document}/retry-ocr`, {}),
    await client.send('POST', `/api/documents/${document}/ocr/retry`, {}),
  ]
  for (const [id, document] of [
    [job?.id ?? '', documentId],
    [none, none],
    ['x', 'x'],
  ] as const) {
    const answers = await ask(asBob, id, document)
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404])
    expect(await Promise.all(answers.map(code))).toEqual([...Array(3).fill('OCR_JOB_NOT_FOUND'), ...Array(2).fill('DOCUMENT_NOT_FOUND')])
  }
  expect((await ask(asStranger, none, none)).map(({ status }) => status)).toEqual([401, 401, 401, 401, 401])
  for (const path of ['/api/ocr/queue', '/api/ocr/queue/status', '/api/ocr/languages'])
    expect((await asStranger.send('GET', path)).status).toBe(401)
  expect(await queue(asBob)).toEqual([])
  expect(await statusOf(asBob)).toMatchObject({ pending: 0, estimated_completion: null })
  expect((await queue(asAdmin)).map(({ id }) => id)).toEqual([job?.id])
  expect(await queue(asAda)).toEqual([job])
})

test('the status has counts, measured and estimated times', async () => {
  const { app, asAda } = await startApp()
  expect(await statusOf(asAda)).toEqual({
    pending: 0,
    processing: 0,
    completed_today: 0,
    failed: 0,
    average_processing_time: 0,
    estimated_completion: null,
    paused: false,
  })
  await upload(asAda, 'a.pdf', '%PDF-1.4 a')
  await read(app)
  await upload(asAda, 'b.pdf', '%PDF-1.4 b')
  await read(app, fakeReader(1, always(new ReadFailure('READ_TIMEOUT'))))
  await upload(asAda, 'c.pdf', '%PDF-1.4 c')
  await upload(asAda, 'd.pdf', '%PDF-1.4 d')
  await claims.leaseNext(app.db, 'ocr', 'here/1', minute)
  const status = await statusOf(asAda)
  expect(status).toMatchObject({ pending: 1, processing: 1, completed_today: 1, failed: 1, average_processing_time: expect.any(Number) })
  expect(status.average_processing_time).toBeGreaterThan(0)
  expect(Date.parse(String(status.estimated_completion))).toBeGreaterThan(Date.now())
})

test('paused: running jobs end, none begins until an admin resumes the queue', async () => {
  const { app, asAda, asAdmin } = await startApp()
  for (const word of ['pause', 'resume', 'recover']) expect((await asAda.send('POST', `/api/ocr/queue/${word}`)).status).toBe(403)
  const [first, second] = [await upload(asAda, 'a.pdf', '%PDF-1.4 a'), await upload(asAda, 'b.pdf', '%PDF-1.4 b')]
  const reader = fakeReader(1, async () => {
    await asAdmin.ocrQueue.pause()
    return undefined
  })
  const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await worker.idle()
  expect(await statusOf(asAda)).toMatchObject({ pending: 1, completed_today: 1, paused: true, estimated_completion: null })
  expect((await asAda.documents.get(first.id)).status).toBe('completed')
  // The worker hears of it by itself.
  expect(await asAdmin.ocrQueue.resume()).toMatchObject({ paused: false })
  await expect.poll(async () => (await asAda.documents.get(second.id)).status).toBe('completed')
  await worker.stop(minute)
})

test('recover: documents without a job get one, once', async () => {
  const { app, asAda, asAdmin } = await startApp()
  const lost = await upload(asAda, 'a.pdf', '%PDF-1.4 a', { language: 'deu' })
  const left = await upload(asAda, 'b.pdf', '%PDF-1.4 b')
  const waiting = await upload(asAda, 'c.pdf', '%PDF-1.4 c')
  await app.db.deleteFrom('jobs').where('document_id', '=', lost.id).execute()
  await app.db.updateTable('documents').set({ status: 'processing' }).where('id', '=', lost.id).execute()
  const job = await claims.leaseNext(app.db, 'ocr', 'dead/1', minute)
  await app.db
    .updateTable('jobs')
    .set({ lease_until: new Date(Date.now() - 10 * minute) })
    .where('id', '=', job?.id ?? '')
    .execute()
  const [one, other] = await Promise.all([asAdmin.ocrQueue.recover(), asAdmin.ocrQueue.recover()])
  expect([...one.recovered, ...other.recovered].map(({ document_id }) => document_id).sort()).toEqual([lost.id, left.id].sort())
  expect(await asAdmin.ocrQueue.recover()).toEqual({ recovered: [] })
  expect((await queue(asAda)).map(({ document_id, language, status }) => [document_id, language, status]).sort()).toEqual(
    [
      [lost.id, 'deu', 'pending'],
      [left.id, 'auto', 'pending'],
      [waiting.id, 'auto', 'pending'],
    ].sort(),
  )
})

test('409 CONFLICT for prioritising or cancelling a job that is not pending', async () => {
  const { app, asAda } = await startApp()
  await upload(asAda, 'a.pdf', '%PDF-1.4')
  const [job] = await queue(asAda)
  await read(app)
  for (const response of [
    await asAda.send('PUT', `/api/ocr/queue/${job?.id}/priority`, { priority: 'high' }),
    await asAda.send('DELETE', `/api/ocr/queue/${job?.id}`),
  ])
    expect([response.status, await code(response)]).toEqual([409, 'CONFLICT'])
  const { error } = await (await asAda.send('PUT', `/api/ocr/queue/${job?.id}/priority`, { priority: 'high' })).json()
  expect(error.details).toEqual({ status: 'completed' })
})

test('400 VALIDATION_ERROR of queue/retry has the path within the given member', async () => {
  const { asAda } = await startApp()
  const issues = async (body: object) => (await (await asAda.send('POST', '/api/ocr/queue/retry', body)).json()).error.details.issues
  expect(await issues({ ids: [randomUUID(), 'zz'] })).toEqual([{ path: 'ids.1', message: 'an id' }])
  expect(await issues({ status: 'completed' })).toEqual([{ path: 'status', message: '"failed"' }])
  expect(await issues({})).toEqual([{ path: '', message: expect.stringContaining('either') }])
})

test('cancelling a pending job: the document is failed and keeps its text', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await read(app)
  await asAda.call('POST', `/api/documents/${id}/retry-ocr`, {})
  const [job] = await queue(asAda, '?status=pending')
  expect((await asAda.send('DELETE', `/api/ocr/queue/${job?.id}`)).status).toBe(204)
  expect(await asAda.call('GET', `/api/ocr/queue/${job?.id}`)).toMatchObject({ status: 'cancelled' })
  expect(await asAda.documents.get(id)).toMatchObject({
    status: 'failed',
    error: { code: 'OCR_CANCELLED' },
    content: 'text of page 1\n\ntext of page 2',
    ocr_confidence: 0.5,
  })
})

test('retry-ocr reads again with the given language and priority; it replaces a pending job', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4', { ocr_enabled: false })
  await read(app)
  const answer = await asAda.call<{ message: string; job_id: string }>('POST', `/api/documents/${id}/retry-ocr`, {
    language: 'deu',
    priority: 'high',
  })
  expect(answer).toEqual({ message: expect.any(String), job_id: expect.any(String) })
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'pending', language: 'deu', error: null })
  const again = await asAda.call<{ job_id: string }>('POST', `/api/documents/${id}/ocr/retry`)
  expect((await queue(asAda)).map(({ id, status, language, priority }) => ({ id, status, language, priority }))).toEqual([
    { id: again.job_id, status: 'pending', language: 'deu', priority: 'normal' },
    { id: answer.job_id, status: 'cancelled', language: 'deu', priority: 'high' },
  ])
  await read(app)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed', content: 'text of page 1\n\ntext of page 2' })
})

test('a search by status has a retried document at once', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await read(app, fakeReader(1, always(new ReadFailure('READ_TIMEOUT'))))
  const found = async (status: string) => {
    await runJobs(['index'])
    const { results } = await asAda.call<{ results: { document_id: string }[] }>(
      'GET',
      `/api/search?q=${encodeURIComponent(`a status:${status}`)}`,
    )
    return results.map(({ document_id }) => document_id)
  }
  expect(await found('failed')).toEqual([id])
  await asAda.call('POST', `/api/documents/${id}/retry-ocr`, {})
  expect([await found('failed'), await found('pending')]).toEqual([[], [id]])
})

test('409 CONFLICT for retry-ocr while the document is read', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await claims.leaseNext(app.db, 'ocr', 'here/1', minute)
  const response = await asAda.send('POST', `/api/documents/${id}/retry-ocr`, {})
  expect([response.status, await code(response)]).toEqual([409, 'CONFLICT'])
})

test('twenty retry-ocr at once while a worker reads: one live job, and no 5xx', async () => {
  const { app, asAda } = await startApp({ 'database.pool_max': 8 })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const worker = await startWorker({ ...app, reader: fakeReader(1) }, { queues: ['ocr'], concurrency: 2, name: 'here/1' })
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => asAda.send('POST', `/api/documents/${id}/retry-ocr`, {})))
    expect(answers.map(({ status }) => status).filter((status) => status !== 200 && status !== 409)).toEqual([])
    const live = await app.db
      .selectFrom('jobs')
      .select('id')
      .where('kind', '=', 'ocr')
      .where('status', 'in', ['pending', 'processing'])
      .execute()
    expect(live.length).toBeLessThanOrEqual(1)
  }
  await worker.idle()
  await worker.stop(minute)
  await read(app)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed' })
})

test('queue/retry queues failed jobs again, all or the given ones', async () => {
  const { app, asAda, asBob } = await startApp()
  for (const name of ['a', 'b']) await upload(asAda, name, `%PDF-1.4 ${name}`)
  await upload(asBob, 'c', '%PDF-1.4 c')
  await read(app, fakeReader(1, always(new ReadFailure('READ_TIMEOUT'))))
  const failed = await queue(asAda, '?status=failed')
  expect(failed).toHaveLength(2)
  expect(await asAda.call('POST', '/api/ocr/queue/retry', { ids: [failed[0]?.id, none] })).toEqual({ queued: 1 })
  expect(await asAda.call('POST', '/api/ocr/queue/retry', { status: 'failed' })).toEqual({ queued: 1 })
  expect(await asAda.call('POST', '/api/ocr/queue/retry', { status: 'failed' })).toEqual({ queued: 0 })
  await read(app)
  expect((await queue(asBob)).map(({ status }) => status)).toEqual(['failed'])
  for await (const { status } of asAda.documents.list()) expect(status).toBe('completed')
})

test('a failure counts, and is listed as failed, until its document has been read; repeated failures of a document are one', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const counted = async () => [(await statusOf(asAda)).failed, (await queue(asAda, '?status=failed')).length]
  const readAgain = async (reader?: Parameters<typeof read>[1]) => {
    await asAda.call('POST', `/api/documents/${id}/retry-ocr`, {})
    await read(app, reader)
  }
  const failing = () => fakeReader(1, always(new ReadFailure('READ_TIMEOUT')))
  await read(app, failing())
  await readAgain(failing())
  expect(await counted()).toEqual([1, 1])
  await readAgain()
  expect(await counted()).toEqual([0, 0])
  expect((await queue(asAda)).map(({ status }) => status).sort()).toEqual(['completed', 'failed', 'failed'])
})

test('the installed languages with their names', async () => {
  const { asAda } = await startApp()
  const { languages, default: fallback } = await asAda.call<{ languages: { code: string; name: string }[]; default: string }>(
    'GET',
    '/api/ocr/languages',
  )
  expect(fallback).toBe('auto')
  expect(languages).toEqual(
    expect.arrayContaining([
      { code: 'eng', name: 'English' },
      { code: 'deu', name: 'German' },
    ]),
  )
  expect(languages.map(({ code }) => code)).not.toContain('osd')
})

test('a document that is transferred while it is read is completed by the first attempt, and its progress is sent to the new owner', async () => {
  const { app, asAdmin, asAda, asBob, ada, bob } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const transfer = async (page: number) => {
    if (page === 2) await asAdmin.users.delete(ada.id, { documents: 'transfer', to: 'bob' })
    return undefined
  }
  await read(app, fakeReader(3, transfer))
  expect(await queue(asBob)).toMatchObject([{ document_id: id, status: 'completed', attempts: 1, error: null }])
  const events = await app.db.selectFrom('events').select(['user_id', 'data']).where('type', '=', 'ocr_progress').execute()
  const progress = events.filter(({ user_id }) => user_id === bob.id).map(({ data }) => (data as { progress: number }).progress)
  expect(new Set(progress)).toEqual(new Set([66, 99, 100]))
})

test('with OCR switched off text layers are read, and retry-ocr and queue/retry are 409: the text of a failed document stays', async () => {
  const { app, asAda, runJobs } = await startApp({ 'ocr.enabled': false })
  const answer = await asAda.documents.upload({ filename: 'a.txt', size: 5, open: () => [Buffer.from('hello')] })
  expect(answer.ocr_queued).toBe(false)
  await runJobs()
  expect(await asAda.documents.get(answer.id)).toMatchObject({ status: 'completed', content: 'hello' })
  expect((await asAda.send('POST', `/api/documents/${answer.id}/retry-ocr`, {})).status).toBe(409)
  await app.db.updateTable('documents').set({ status: 'failed' }).where('id', '=', answer.id).execute()
  await app.db.updateTable('jobs').set({ kind: 'ocr', status: 'failed' }).where('document_id', '=', answer.id).execute()
  expect((await asAda.send('POST', '/api/ocr/queue/retry', { status: 'failed' })).status).toBe(409)
  await runJobs()
  expect(await asAda.documents.get(answer.id)).toMatchObject({ status: 'failed', content: 'hello' })
})
