import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import type { Client } from '../../src/client/client.ts'
import { startApp, upload } from '../support/app.ts'

const dayMs = 86_400_000
const noOcr = { ocr_enabled: false }

/** Days from the creation of a document to the end of its retention; null without one. */
const daysOf = async (client: Client, id: string): Promise<number | null> => {
  const { created_at, retain_until } = await client.documents.get(id)
  return retain_until === null ? null : (Date.parse(retain_until) - Date.parse(created_at)) / dayMs
}

/** Sets the days of a label while another transaction has locked its document, which leaves the document to a job. */
async function retainByJob({ db }: App, client: Client, { label, days, id }: { label: string; days: number; id: string }): Promise<void> {
  const locking = await db.startTransaction().execute()
  await sql`select from documents where id = ${id} for update`.execute(locking)
  await client.labels.update(label, { retention_days: days })
  await locking.rollback().execute()
}

test('a label retains documents that have it or receive it in any way; removing it, fewer days and its deletion shorten nothing', async () => {
  const { asAda, app } = await startApp()
  const label = await asAda.labels.create({ name: 'contracts', color: '#112233' })
  const before = (await upload(asAda, 'before.txt', 'before', { ...noOcr, labels: 'contracts' })).id
  expect(label).toMatchObject({ retention_days: null, retention_scope: null })
  expect(await asAda.labels.update(label.id, { retention_days: 30 })).toMatchObject({ retention_days: 30, retention_scope: 'creator' })

  const ids = {
    before,
    uploaded: (await upload(asAda, 'b.txt', 'uploaded', { ...noOcr, labels: 'contracts' })).id,
    assigned: (await upload(asAda, 'c.txt', 'assigned', noOcr)).id,
    updated: (await upload(asAda, 'd.txt', 'updated', noOcr)).id,
    replaced: (await upload(asAda, 'e.txt', 'replaced', noOcr)).id,
  }
  await asAda.labels.assign(label.id, [ids.assigned, ids.before])
  await asAda.documents.update(ids.updated, { labels: ['contracts'] })
  await asAda.call('PUT', `/api/labels/documents/${ids.replaced}`, { label_ids: ['contracts'] })
  const days = async () =>
    Object.fromEntries(await Promise.all(Object.entries(ids).map(async ([name, id]) => [name, await daysOf(asAda, id)])))
  const all = { before: 30, uploaded: 30, assigned: 30, updated: 30, replaced: 30 }
  expect(await days()).toEqual(all)

  await asAda.labels.unassign(label.id, [ids.assigned])
  await asAda.documents.update(ids.updated, { labels: [] })
  expect(await asAda.labels.update(label.id, { retention_days: 10 })).toMatchObject({ retention_days: 10 })
  expect(await days()).toEqual(all)
  expect(await asAda.labels.update(label.id, { retention_days: 40, name: 'treaties' })).toMatchObject({ retention_days: 40 })
  expect(await days()).toEqual({ ...all, before: 40, uploaded: 40, replaced: 40 })
  expect(await asAda.labels.update(label.id, { retention_days: null })).toMatchObject({ retention_days: null, retention_scope: null })
  await asAda.labels.delete(label.id)
  expect(await days()).toEqual({ ...all, before: 40, uploaded: 40, replaced: 40 })
  const events = await sql`select from events where data -> 'changes' = '["retain_until"]' and data ->> 'document_id' = ${before}`.execute(
    app.db,
  )
  expect(events.rows).toHaveLength(2)
})

test('the longest retention counts; a label and a later date in one request both count', async () => {
  const { asAda } = await startApp()
  await asAda.labels.create({ name: 'short', color: '#112233', retention_days: 10 })
  await asAda.labels.create({ name: 'long', color: '#112233', retention_days: 20 })
  const { id } = await upload(asAda, 'a.txt', 'text', { ...noOcr, labels: 'short,long' })
  expect(await daysOf(asAda, id)).toBe(20)
  const { id: other } = await upload(asAda, 'b.txt', 'text 2', noOcr)
  await asAda.documents.update(other, { labels: ['long'], retain_until: new Date(Date.now() + dayMs).toISOString() })
  expect(await daysOf(asAda, other)).toBe(20)
})

test('400 VALIDATION_ERROR for a retention of 0 days, of more than 100 years, and of half a day', async () => {
  const { asAda } = await startApp()
  for (const retention_days of [0, 36_501, 0.5, -1])
    await expect(asAda.labels.create({ name: 'x', color: '#112233', retention_days }), String(retention_days)).rejects.toMatchObject({
      details: { issues: [expect.objectContaining({ path: 'retention_days' })] },
    })
})

test('the label of a user retains no document of others; 403 FORBIDDEN for users after an admin has set the retention', async () => {
  const { asAda, asBob, asAdmin } = await startApp()
  const { id: labelId } = await asAda.labels.create({ name: 'trap', color: '#112233', retention_days: 36_500 })
  const ofBob = (await upload(asBob, 'a.txt', 'text', { ...noOcr, labels: 'trap' })).id
  const ofAda = (await upload(asAda, 'a.txt', 'text', { ...noOcr, labels: 'trap' })).id
  expect([await daysOf(asBob, ofBob), await daysOf(asAda, ofAda)]).toEqual([null, 36_500])
  await asBob.documents.delete(ofBob)
  await expect(asBob.labels.update(labelId, { retention_days: 1 })).rejects.toMatchObject({ status: 403 })

  const other = (await upload(asBob, 'b.txt', 'text 2', { ...noOcr, labels: 'trap' })).id
  expect(await asAdmin.labels.update(labelId, { retention_days: 50 })).toMatchObject({ retention_scope: 'all' })
  expect(await daysOf(asBob, other)).toBe(50)
  await expect(asAda.labels.update(labelId, { retention_days: null })).rejects.toMatchObject({ status: 403 })
  await expect(asAda.labels.delete(labelId)).rejects.toMatchObject({ status: 403 })
  expect(await asAda.labels.update(labelId, { color: '#445566' })).toMatchObject({ color: '#445566', retention_days: 50 })
})

test('a label that an admin sends back as read, or with other days, stays one of its creator; days alone widen it', async () => {
  const { asAda, asBob, asAdmin } = await startApp()
  const { id } = await asAda.labels.create({ name: 'Tax', color: '#112233', retention_days: 30 })
  const ofBob = (await upload(asBob, 'a.txt', 'text', { ...noOcr, labels: 'Tax' })).id
  const [asRead] = await asAdmin.labels.list()
  expect(await asAdmin.call('PUT', `/api/labels/${id}`, { ...asRead, color: '#445566' })).toMatchObject({
    ...{ color: '#445566', retention_days: 30, retention_scope: 'creator' },
  })
  const ofAda = (await upload(asAda, 'a.txt', 'text', { ...noOcr, labels: 'Tax' })).id
  expect(await asAdmin.labels.update(id, { retention_days: 40, retention_scope: 'creator' })).toMatchObject({ retention_scope: 'creator' })
  expect([await daysOf(asAda, ofAda), await daysOf(asBob, ofBob)]).toEqual([40, null])
  const widened = await asAdmin.labels.update(id, { retention_days: 40 })
  expect([widened.retention_scope, await daysOf(asBob, ofBob)]).toEqual(['all', 40])
  expect(await asAda.call('PUT', `/api/labels/${id}`, { ...widened, color: '#778899' })).toMatchObject({ color: '#778899' })
  expect(await asAdmin.labels.update(id, { retention_days: 50, retention_scope: 'creator' })).toMatchObject({ retention_scope: 'all' })
})

test('a job retains more than a thousand documents, and those that another transaction has locked; until then deletion is refused', async () => {
  const { asAda, asAdmin, app, ada, runJobs } = await startApp()
  const label = await asAda.labels.create({ name: 'many', color: '#112233' })
  const { id, sha256 } = await upload(asAda, 'a.txt', 'text', { ...noOcr, labels: 'many' })
  await sql`
    with made as (
      insert into documents (owner_id, title, filename, mime_type, size, sha256, language, status)
      select ${ada.id}, 't', 'f.txt', 'text/plain', 4, ${sha256}, 'eng', 'completed' from generate_series(1, 2500) returning id
    ) insert into document_labels (document_id, label_id) select id, ${label.id} from made`.execute(app.db)
  const locking = await app.db.startTransaction().execute()
  await sql`select from documents where id = ${id} for update`.execute(locking)
  await asAda.labels.update(label.id, { retention_days: 30 })
  await locking.rollback().execute()

  const retained = async () =>
    (await sql<{ count: number }>`select count(*)::int as count from documents where retain_until is not null`.execute(app.db)).rows[0]
      ?.count
  expect(await retained()).toBe(1000)
  // Its row is unchanged so far.
  expect(await daysOf(asAda, id)).toBeNull()
  await expect(asAdmin.users.delete(ada.id, { documents: 'delete' })).rejects.toMatchObject({ code: 'RETENTION', details: { count: 2501 } })
  await runJobs(['maintenance'])
  expect(await retained()).toBe(2501)
  expect(await daysOf(asAda, id)).toBe(30)
})

for (const shorter of [10, null])
  test(`documents that wait for the job of a label are retained before its days change to ${shorter}; the job retains no later ones`, async () => {
    const { app, asAda, runJobs } = await startApp()
    const label = await asAda.labels.create({ name: 'Tax', color: '#112233' })
    const { id } = await upload(asAda, 'a.txt', 'text', { ...noOcr, labels: 'Tax' })
    await retainByJob(app, asAda, { label: label.id, days: 30, id })
    expect(await daysOf(asAda, id)).toBeNull()
    await asAda.labels.update(label.id, { retention_days: shorter })
    const { id: later } = await upload(asAda, 'b.txt', 'text 2', { ...noOcr, labels: 'Tax' })
    await expect(asAda.documents.delete(id, { permanent: true })).rejects.toMatchObject({ code: 'RETENTION' })
    await runJobs(['maintenance'])
    expect([await daysOf(asAda, id), await daysOf(asAda, later)]).toEqual([30, shorter])
  })

test('documents that are transferred to the creator of a label with a retention period are retained', async () => {
  const { ada, asAda, asBob, asAdmin } = await startApp()
  await asBob.labels.create({ name: 'Tax', color: '#112233', retention_days: 10 })
  const { id } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false, labels: 'Tax' })
  expect((await asAda.documents.get(id)).retain_until).toBeNull()
  await asAdmin.users.delete(ada.id, { documents: 'transfer', to: 'bob' })
  expect((await asBob.documents.get(id)).retain_until).toEqual(expect.any(String))
})

test('documents that wait for their retention by a label of their owner are retained before they get another owner', async () => {
  const { app, ada, asAda, asBob, asAdmin } = await startApp()
  const label = await asAda.labels.create({ name: 'Tax', color: '#112233' })
  const { id } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false, labels: 'Tax' })
  await retainByJob(app, asAda, { label: label.id, days: 10, id })
  await asAdmin.users.delete(ada.id, { documents: 'transfer', to: 'bob' })
  await expect(asBob.documents.delete(id, { permanent: true })).rejects.toMatchObject({ code: 'RETENTION' })
  expect((await asBob.documents.get(id)).retain_until).toEqual(expect.any(String))
})
