/** Events while the database fails. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { publish } from '../../src/events.ts'
import { startLive } from '../support/processes/live.ts'

test('events whose query has failed are sent within the next second', async () => {
  vi.useFakeTimers({ toFake: ['setInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { app, ada, joined } = await startLive({}, { servers: 1 })
  const failed = Promise.withResolvers<void>()
  const log = app.log as { warn: unknown }
  log.warn = () => failed.resolve()
  const socket = await joined(ada, ['document_created'])
  await sql`alter function dms_order_events() rename to dms_hidden`.execute(app.db)
  const document = { document_id: randomUUID(), title: 'late', source: null }
  await app.db.transaction().execute((trx) => publish(trx, 'document_created', ada.id, document))
  await failed.promise
  await sql`alter function dms_hidden() rename to dms_order_events`.execute(app.db)
  vi.advanceTimersByTime(1000)
  expect(await socket.next('document_created')).toMatchObject({ data: document })
})
