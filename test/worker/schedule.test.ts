import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startSchedule } from '../../src/worker/schedule.ts'
import { startApp } from '../support/app.ts'

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
    await schedule.stop()
  }
})
