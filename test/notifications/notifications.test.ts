import { describe, expect, test } from 'vitest'
import { leaseNext } from '../../src/jobs/leases.ts'
import type { Job } from '../../src/jobs/queue.ts'
import { notify } from '../../src/notifications/notifications.ts'
import { ocr } from '../../src/ocr/ocr-job.ts'
import { startApp, upload } from '../support/app.ts'

type Started = Awaited<ReturnType<typeof startApp>>

interface Notification {
  id: string
  read: boolean
  created_at: string
}

interface List {
  notifications: Notification[]
  unread_count: number
  pagination: { total: number }
}

const unknown = '01890a5d-ac96-774b-bcce-b302099a8057'
const about = { document_id: unknown }

async function tell({ app, later }: Started, userId: string, title: string): Promise<void> {
  await later(1000)
  await app.db.transaction().execute((trx) => notify(app, trx, userId, 'ocr_completed', { title, message: `${title}!`, data: about }))
}

/** Creates three for Ada, one for Bob. */
async function told(): Promise<Started> {
  const started = await startApp()
  for (const title of ['first', 'second', 'third']) await tell(started, started.ada.id, title)
  await tell(started, started.bob.id, 'other')
  return started
}

describe('the list', () => {
  test('200: own ones with all fields, newest first, in pages; admins do not see those of others', async () => {
    const { asAda, asAdmin } = await told()
    const all = await asAda.call<List>('GET', '/api/notifications')
    expect(all).toMatchObject({
      notifications: [{ title: 'third' }, { title: 'second' }, { title: 'first' }],
      unread_count: 3,
      pagination: { page: 1, per_page: 20, total: 3, total_pages: 1, has_next: false, has_prev: false },
    })
    expect(all.notifications[0]).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      type: 'ocr_completed',
      title: 'third',
      message: 'third!',
      read: false,
      data: about,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    expect(await asAda.call('GET', '/api/notifications?page=2&per_page=2')).toMatchObject({
      notifications: [{ title: 'first' }],
      pagination: { total: 3, has_prev: true, has_next: false },
    })
    expect(await asAda.call('GET', '/api/notifications?page=1000000000')).toMatchObject({ notifications: [], pagination: { total: 3 } })
    expect(await asAdmin.call('GET', '/api/notifications')).toMatchObject({ notifications: [], unread_count: 0 })
  })

  test('unread_only omits read ones, and counts accordingly', async () => {
    const { asAda } = await told()
    const { notifications } = await asAda.call<List>('GET', '/api/notifications')
    await asAda.call('PUT', `/api/notifications/${notifications[1]?.id}/read`)
    expect(await asAda.call('GET', '/api/notifications?unread_only=true')).toMatchObject({
      notifications: [{ title: 'third' }, { title: 'first' }],
      unread_count: 2,
      pagination: { total: 2 },
    })
    expect(await asAda.call('GET', '/api/notifications?unread_only=false')).toMatchObject({ unread_count: 2, pagination: { total: 3 } })
  })

  test('400 VALIDATION_ERROR for a parameter of the wrong type or range', async () => {
    const { asAda } = await startApp()
    for (const query of ['unread_only=maybe', 'page=0', 'per_page=101', 'per_page=1e1', 'page=9223372036854775807'])
      await expect(asAda.call('GET', `/api/notifications?${query}`)).rejects.toMatchObject({ status: 400, code: 'VALIDATION_ERROR' })
  })
})

describe('reading and deleting', () => {
  test.each(['PUT', 'POST'])('%s …/read: 200 with the notification, also the second time', async (method) => {
    const { asAda } = await told()
    const { notifications } = await asAda.call<List>('GET', '/api/notifications')
    for (let time = 0; time < 2; time++)
      expect(await asAda.call(method, `/api/notifications/${notifications[0]?.id}/read`)).toEqual({ ...notifications[0], read: true })
    expect(await asAda.call('GET', '/api/notifications')).toMatchObject({ unread_count: 2 })
  })

  test.each([
    ['PUT', 'read-all'],
    ['PUT', 'read/all'],
    ['POST', 'read/all'],
  ])('%s /api/notifications/%s: 200 with the number of unread ones, and only own ones', async (method, path) => {
    const { asAda, asBob } = await told()
    expect(await asAda.call(method, `/api/notifications/${path}`)).toEqual({ updated: 3 })
    expect(await asAda.call(method, `/api/notifications/${path}`)).toEqual({ updated: 0 })
    expect(await asBob.call('GET', '/api/notifications')).toMatchObject({ unread_count: 1 })
  })

  test('DELETE: one 204 of ten at once, the others 404', async () => {
    const { asAda } = await told()
    const { notifications } = await asAda.call<List>('GET', '/api/notifications')
    const path = `/api/notifications/${notifications[0]?.id}`
    const answers = await Promise.all(Array.from({ length: 10 }, () => asAda.send('DELETE', path)))
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(9).fill(404)])
    expect(await asAda.call('GET', '/api/notifications')).toMatchObject({ pagination: { total: 2 } })
  })

  test.each([
    ['PUT', '/read'],
    ['POST', '/read'],
    ['DELETE', ''],
  ])('404 NOTIFICATION_NOT_FOUND for %s of one of another user, an unknown and a malformed id', async (method, more) => {
    const { asAda, asBob, asAdmin } = await told()
    const { notifications } = await asBob.call<List>('GET', '/api/notifications')
    for (const who of [asAda, asAdmin])
      for (const id of [notifications[0]?.id, unknown, 'nonsense'])
        await expect(who.call(method, `/api/notifications/${id}${more}`)).rejects.toMatchObject({
          status: 404,
          code: 'NOTIFICATION_NOT_FOUND',
        })
    expect((await asBob.call<List>('GET', '/api/notifications')).notifications).toEqual(notifications)
  })
})

describe('sending', () => {
  test('the event is sent with the row, and neither if the transaction fails', async () => {
    const started = await startApp()
    const { app, ada, asAda } = started
    await tell(started, ada.id, 'kept')
    const failing = app.db.transaction().execute(async (trx) => {
      await notify(app, trx, ada.id, 'sync_failed', { title: 'lost', message: 'lost', data: {} })
      throw new Error('on purpose')
    })
    await expect(failing).rejects.toThrow('on purpose')
    const { notifications } = await asAda.call<List>('GET', '/api/notifications')
    const events = await app.db.selectFrom('events').select(['user_id', 'data']).where('type', '=', 'notification').execute()
    expect(events).toEqual([
      { user_id: ada.id, data: { id: notifications[0]?.id, type: 'ocr_completed', title: 'kept', message: 'kept!', data: about } },
    ])
    expect(notifications).toHaveLength(1)
  })

  test('notifications_enabled=false: nothing is stored or sent; nor for a deleted user', async () => {
    const started = await startApp()
    const { app, ada, asAda, asBob, bob } = started
    await asAda.call('PUT', '/api/settings', { notifications_enabled: false })
    await asBob.call('PUT', '/api/settings', { notifications_enabled: true })
    for (const id of [ada.id, bob.id, unknown]) await tell(started, id, 'hello')
    expect(await asAda.call('GET', '/api/notifications')).toMatchObject({ notifications: [] })
    expect(await asBob.call('GET', '/api/notifications')).toMatchObject({ unread_count: 1 })
    expect(await app.db.selectFrom('events').select('user_id').execute()).toEqual([{ user_id: bob.id }])
  })
})

describe('OCR', () => {
  interface Told {
    notifications: { type: string; message: string; data: Record<string, string> }[]
  }

  test('ocr_completed and ocr_failed are sent once, after the last attempt; extraction without OCR sends none', async () => {
    const { app, asAda, asBob, runJobs } = await startApp()
    const good = await upload(asAda, 'good.txt', 'apples')
    const bad = await upload(asAda, 'bad.pdf', '%PDF-1.7\nthis is none')
    await upload(asAda, 'quiet.txt', 'pears', { ocr_enabled: false })
    await runJobs(['ocr'])
    const { notifications } = await asAda.call<Told>('GET', '/api/notifications')
    expect(notifications.sort((a, b) => a.type.localeCompare(b.type))).toMatchObject([
      { type: 'ocr_completed', title: 'OCR completed', message: 'good.txt has been read.', data: { document_id: good.id } },
      { type: 'ocr_failed', title: 'OCR failed', data: { document_id: bad.id, code: 'FILE_CORRUPT' } },
    ])
    expect(notifications[1]?.message).toMatch(/^bad\.pdf could not be read: /)
    expect(await asBob.call('GET', '/api/notifications')).toMatchObject({ notifications: [] })
    const events = await app.db.selectFrom('events').select('type').where('type', '=', 'notification').execute()
    expect(events).toHaveLength(2)
  })

  test('the documents of a batch share one notification and one event, until it is read or an hour old', async () => {
    const { app, asAda, later, runJobs } = await startApp()
    const batch = async (count: number) => {
      for (let number = 0; number < count; number++) await upload(asAda, `${number}.txt`, `apples ${number}`)
      await runJobs(['ocr'])
      return (await asAda.call<Told>('GET', '/api/notifications')).notifications.map(({ message, data }) => [message, data.count])
    }
    expect(await batch(5)).toEqual([[expect.stringMatching(/^5 documents have been read; the last one is \d\.txt\.$/), 5]])
    expect(await app.db.selectFrom('events').select('type').where('type', '=', 'notification').execute()).toHaveLength(1)
    await asAda.notifications.readAll()
    expect((await batch(1))[0]).toEqual(['0.txt has been read.', undefined])
    await later(3_600_000)
    expect((await batch(2)).map(([, count]) => count)).toEqual([2, undefined, 5])
  })

  test('an attempt that is followed by another sends none', async () => {
    const { app, asAda, ada } = await startApp()
    const document = await upload(asAda, 'a.txt', 'apples')
    const job = await leaseNext(app.db, 'ocr', 'test/1', 60_000)
    if (!job) throw new Error('no job')
    const problem = { code: 'READ_CRASHED', message: 'it crashed', isRetryable: true }
    for (const isFinal of [false, true])
      await app.db.transaction().execute(async (trx) => {
        await ocr.failed?.(app, trx, job as Job<'ocr'>, { ...problem, isFinal })
      })
    const told = await app.db.selectFrom('notifications').select(['user_id', 'type', 'data']).execute()
    expect(told).toEqual([{ user_id: ada.id, type: 'ocr_failed', data: { document_id: document.id, code: 'READ_CRASHED' } }])
  })
})
