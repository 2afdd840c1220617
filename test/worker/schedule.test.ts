import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { AppError } from '../../src/errors.ts'
import * as jobs from '../../src/jobs/queue.ts'
import { startConfigured } from '../../src/worker/run.ts'
import { startSchedule } from '../../src/worker/schedule.ts'
import { startApp } from '../support/app.ts'
import { insertDocument } from '../support/search-suite.ts'

test('a sync that is due is queued while maintenance waits for a lock', async () => {
  const { app, asAda } = await startApp()
  vi.useFakeTimers({ toFake: ['setInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const client = await app.database.connect('lock')
  await client.query('begin; lock table notifications in access exclusive mode')
  const schedule = startSchedule(app)
  try {
    const waiting = () => sql`select from pg_locks where not granted and relation = 'notifications'::regclass`.execute(app.db)
    await expect.poll(async () => (await waiting()).rows.length).toBe(1)
    await asAda.sources.create({ name: 'share', type: 'webdav', url: 'http://127.0.0.1:9/' })
    vi.advanceTimersByTime(60_000)
    const syncs = () => app.db.selectFrom('jobs').select('id').where('kind', '=', 'sync').execute()
    await expect.poll(async () => (await syncs()).length).toBe(1)
  } finally {
    await client.end()
    await schedule.stop(60_000)
  }
})

test('maintenance with a failing step is run again after an hour, other tasks every minute', async () => {
  const { app, later } = await startApp()
  vi.useFakeTimers({ toFake: ['setInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  // Asked by the task of uncommitted uploads and by maintenance.
  const failing = vi.spyOn(app.files, 'listUncommitted').mockRejectedValue(new AppError('STORAGE_UNAVAILABLE'))
  const warn = vi.spyOn(app.log, 'warn')
  const failuresOf = (task: string) => warn.mock.calls.filter(([fields]) => (fields as { task?: string }).task === task).length
  const hourly = startSchedule(app)
  await expect.poll(() => failuresOf('daily maintenance')).toBe(1)
  for (let minute = 1; minute <= 3; minute++) {
    vi.advanceTimersByTime(60_000)
    await expect.poll(() => failuresOf('purge uncommitted uploads')).toBe(minute + 1)
  }
  await hourly.stop(60_000)
  expect(failuresOf('daily maintenance')).toBe(1)

  const schedule = startSchedule(app)
  try {
    await expect.poll(() => failuresOf('daily maintenance')).toBe(2)
    failing.mockResolvedValue([])
    await later(3_600_000)
    vi.advanceTimersByTime(60_000)
    const successes = () => app.db.selectFrom('runs').select('name').execute()
    await expect.poll(successes).toEqual([{ name: 'maintenance' }])
  } finally {
    await schedule.stop(60_000)
  }
})

test('a worker that stops during maintenance leases no more jobs, and waits for maintenance no longer than for jobs', async () => {
  const { app, ada } = await startApp({ 'ocr.enabled': false })
  const client = await app.database.connect('lock')
  await client.query('begin; lock table notifications in access exclusive mode')
  try {
    const worker = await startConfigured(app)
    const waiting = () => sql`select from pg_locks where not granted and relation = 'notifications'::regclass`.execute(app.db)
    await expect.poll(async () => (await waiting()).rows.length).toBe(1)
    const stopped = worker.stop(500)
    const id = await insertDocument(app.db, ada.id)
    const job = await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'index', { document_id: id }))
    await stopped
    const { status } = await app.db.selectFrom('jobs').select('status').where('id', '=', job).executeTakeFirstOrThrow()
    expect(status).toBe('pending')
  } finally {
    await client.end()
  }
})
