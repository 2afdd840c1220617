import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp, upload } from '../../support/app.ts'

const dayMs = 86_400_000
const inDays = (days: number): string => new Date(Date.now() + days * dayMs).toISOString()

test('retain_until is set and lengthened by owner and admins; 409 RETENTION for an earlier moment, 400 for the past and centuries', async () => {
  const { asAda, asBob, asAdmin } = await startApp()
  const { id, retain_until } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false })
  expect(retain_until).toBeNull()
  const [first, second] = [inDays(10), inDays(20)]
  expect(await asAda.documents.update(id, { retain_until: first })).toMatchObject({ retain_until: first })
  expect(await asAda.documents.update(id, { retain_until: first, title: 'again' })).toMatchObject({ retain_until: first, title: 'again' })
  expect(await asAdmin.documents.update(id, { retain_until: second })).toMatchObject({ retain_until: second })
  await expect(asAdmin.documents.update(id, { retain_until: first, title: 'no' })).rejects.toMatchObject({
    status: 409,
    code: 'RETENTION',
    details: { retain_until: second },
    message: expect.stringContaining(second),
  })
  const refusals: [unknown, string][] = [
    [inDays(-1), 'in the future'],
    [inDays(40_000), 'at most 36500 days'],
    ['soon', 'an RFC 3339'],
  ]
  for (const [value, message] of refusals)
    await expect(asAda.documents.update(id, { retain_until: value as string }), String(value)).rejects.toMatchObject({
      status: 400,
      details: { issues: [{ path: 'retain_until', message: expect.stringContaining(message) }] },
    })
  await expect(asBob.documents.update(id, { retain_until: inDays(30) })).rejects.toMatchObject({ status: 404 })
  expect(await asAda.documents.get(id)).toMatchObject({ retain_until: second, title: 'again' })
})

test('200 for a document as it was read, without retention, with one and after its end; 409 RETENTION for null under retention', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false })
  const putAsRead = async (id: string) => asAda.call('PUT', `/api/documents/${id}`, await asAda.documents.get(id))
  expect(await putAsRead(id)).toMatchObject({ retain_until: null })
  const until = inDays(5)
  await asAda.documents.update(id, { retain_until: until })
  expect(await putAsRead(id)).toMatchObject({ retain_until: until })
  await expect(asAda.documents.update(id, { retain_until: null })).rejects.toMatchObject({
    code: 'RETENTION',
    details: { retain_until: until },
  })
  const { id: ended } = await upload(asAda, 'b.txt', 'text 2', { ocr_enabled: false })
  await sql`update documents set retain_until = now() - interval '1 s' where id = ${ended}`.execute(app.db)
  expect(await putAsRead(ended)).toMatchObject({ id: ended })
})

test('a date retains through its last moment in UTC; the change is a new ETag and one event', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false })
  const { etag } = await asAda.documents.getWithEtag(id)
  const day = inDays(5).slice(0, 10)
  expect(await asAda.documents.update(id, { retain_until: day }, { etag })).toMatchObject({ retain_until: `${day}T23:59:59.999Z` })
  await expect(asAda.documents.update(id, { retain_until: inDays(9) }, { etag })).rejects.toMatchObject({ code: 'PRECONDITION_FAILED' })
  const events = await app.db.selectFrom('events').select('data').where('type', '=', 'document_updated').execute()
  expect(events.map(({ data }) => data)).toEqual([{ document_id: id, changes: ['retain_until'] }])
})

test('a retention stays with the document: new owner; after its end the document can be deleted', async () => {
  const { app, asAda, asBob, asAdmin, ada, bob } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'text', { ocr_enabled: false })
  const until = inDays(5)
  await asAda.documents.update(id, { retain_until: until })
  await asAdmin.users.delete(ada.id, { documents: 'transfer', to: 'bob' })
  expect(await asBob.documents.get(id)).toMatchObject({ retain_until: until, owner: 'bob' })
  await expect(asAdmin.users.delete(bob.id, { documents: 'delete' })).rejects.toMatchObject({
    code: 'RETENTION',
    details: { retain_until: until },
  })

  const { id: ended } = await upload(asBob, 'b.txt', 'text 2', { ocr_enabled: false })
  await sql`update documents set retain_until = now() - interval '1 s' where id = ${ended}`.execute(app.db)
  await asBob.documents.delete(ended, { permanent: true })
})
