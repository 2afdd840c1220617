import { expect, test } from 'vitest'
import { operator } from '../../src/actor.ts'
import type { App } from '../../src/app.ts'
import { destroyDocuments } from '../../src/documents/trash/destroy.ts'
import { startApp, upload } from '../support/app.ts'

const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString()
const destroy = (app: App, id: string) => app.db.transaction().execute((trx) => destroyDocuments(app, trx, operator, [id], 'permanent'))
const noOcr = { ocr_enabled: false }

test('a hold keeps documents of any user until it is released, and stays as a record', async () => {
  const { asAda, asAdmin, app } = await startApp()
  const { id, size } = await upload(asAda, 'a.txt', 'text', noOcr)
  const hold = await asAdmin.holds.create({ name: 'Case 4711', reason: 'a claim' })
  expect(hold).toMatchObject({ name: 'Case 4711', reason: 'a claim', document_count: 0, created_by: 'root', released_at: null })
  expect(await asAdmin.holds.add(hold.id, [id, id.toUpperCase()])).toMatchObject({ added: 1 })
  expect(await asAdmin.holds.add(hold.id, [id])).toMatchObject({ added: 0 })
  await expect(destroy(app, id)).rejects.toMatchObject({
    code: 'RETENTION',
    details: { holds: ['Case 4711'] },
    message: 'The document cannot be destroyed: it is under the hold "Case 4711".',
  })
  await expect(asAdmin.holds.delete(hold.id)).rejects.toMatchObject({ code: 'RETENTION', details: { documents: 1 } })
  const released = await asAdmin.holds.release(hold.id)
  expect(released).toMatchObject({ document_count: 1, released_at: expect.any(String) })
  expect(await asAdmin.holds.release(hold.id)).toEqual(released)
  const refused = [
    () => asAdmin.holds.update(hold.id, { name: 'other' }),
    () => asAdmin.holds.add(hold.id, [id]),
    () => asAdmin.holds.remove(hold.id, [id]),
  ]
  for (const run of refused) await expect(run()).rejects.toMatchObject({ status: 409, code: 'CONFLICT' })
  expect(await asAdmin.call('PUT', `/api/holds/${hold.id}`, released)).toEqual(released)
  await destroy(app, id)
  expect(await asAdmin.holds.list()).toEqual([{ ...released, document_count: 0 }])
  expect(await asAdmin.holds.list({ released: false })).toEqual([])
  await asAdmin.holds.delete(hold.id)
  await expect(asAdmin.holds.get(hold.id)).rejects.toMatchObject({ code: 'HOLD_NOT_FOUND' })
  const events = await app.db.selectFrom('events').select('data').where('type', '=', 'document_updated').execute()
  expect(events.map(({ data }) => data)).toEqual(Array(2).fill({ document_id: id, changes: ['holds'] }))
  expect(size).toBe(4)
})

test('the name of an active hold is unique in any case; a release makes it available again', async () => {
  const { asAdmin } = await startApp()
  const first = await asAdmin.holds.create({ name: 'Case' })
  await expect(asAdmin.holds.create({ name: 'CASE' })).rejects.toMatchObject({ code: 'DUPLICATE_RESOURCE' })
  const other = await asAdmin.holds.create({ name: 'Other' })
  await expect(asAdmin.holds.update(other.id, { name: 'case' })).rejects.toMatchObject({ code: 'DUPLICATE_RESOURCE' })
  expect(await asAdmin.holds.update(other.id, { name: 'OTHER', reason: 'why' })).toMatchObject({ name: 'OTHER', reason: 'why' })
  await asAdmin.holds.release(first.id)
  expect((await asAdmin.holds.create({ name: 'case' })).id).not.toBe(first.id)
})

test('404 DOCUMENT_NOT_FOUND for one of many documents, and none is added; 403 FORBIDDEN for holds of users', async () => {
  const { asAda, asAdmin } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'text', noOcr)
  const hold = await asAdmin.holds.create({ name: 'Case' })
  for (const unknown of [crypto.randomUUID(), 'nothing'])
    await expect(asAdmin.holds.add(hold.id, [id, unknown])).rejects.toMatchObject({
      code: 'DOCUMENT_NOT_FOUND',
      details: { document_id: unknown },
    })
  expect(await asAdmin.holds.get(hold.id)).toMatchObject({ document_count: 0 })
  await expect(asAda.holds.add(hold.id, [id])).rejects.toMatchObject({ status: 403 })
  await expect(asAda.holds.list()).rejects.toMatchObject({ status: 403 })
})

test('the report: what ends when, and what is held; users see their own documents', async () => {
  const { asAda, asBob, asAdmin, app, bob } = await startApp()
  const [soon, late, held, ofBob, free] = await Promise.all(
    ['soon', 'late', 'held']
      .map(async (name) => (await upload(asAda, `${name}.txt`, name, noOcr)).id)
      .concat(['ofBob', 'free'].map(async (name) => (await upload(asBob, `${name}.txt`, name, noOcr)).id)),
  )
  const [first, second, third] = [inDays(40), inDays(400), `${inDays(400).slice(0, 10)}T23:59:59.000Z`] as const
  await asAda.documents.update(soon!, { retain_until: first })
  await asAda.documents.update(late!, { retain_until: second })
  await asBob.documents.update(ofBob!, { retain_until: third })
  const hold = await asAdmin.holds.create({ name: 'Case' })
  await asAdmin.holds.add(hold.id, [held!, late!])
  const old = await asAdmin.holds.create({ name: 'Old' })
  await asAdmin.holds.add(old.id, [free!])
  await asAdmin.holds.release(old.id)

  const month = (at: string) => at.slice(0, 7)
  const amount = (documents: number, bytes: number) => ({ documents, bytes })
  const ofAdmin = await asAdmin.holds.report()
  expect(ofAdmin.summary).toEqual({
    total: amount(4, 17),
    retained: amount(3, 13),
    held: amount(2, 8),
    months: [
      { month: month(first), ...amount(1, 4) },
      { month: month(second), ...amount(2, 9) },
    ],
    holds: [{ id: hold.id, name: 'Case', ...amount(2, 8) }],
  })
  expect(ofAdmin.data.map(({ title, holds, retain_until }) => [title, retain_until, holds])).toEqual([
    ['soon', first, []],
    ['late', second, ['Case']],
    ['ofBob', third, []],
    ['held', null, ['Case']],
  ])
  const paged = await Array.fromAsync(asAda.holds.retained({ per_page: 1 }), ({ id }) => id)
  expect(paged).toEqual([soon, late, held])
  expect((await asBob.holds.report()).summary).toMatchObject({ total: amount(1, 5), held: amount(0, 0), holds: [] })
  await app.db.updateTable('documents').set({ owner_id: bob.id }).where('id', '=', soon!).execute()
  expect((await asBob.holds.report()).pagination.total).toBe(2)
})

test('concurrent additions, removals and deletions of a document keep or destroy it, and never return 5xx', async () => {
  const { asAda, asAdmin, app } = await startApp()
  const hold = await asAdmin.holds.create({ name: 'Case' })
  for (let round = 0; round < 10; round++) {
    const { id } = await upload(asAda, 'a.txt', `text ${round}`, noOcr)
    const [added, removed] = await Promise.allSettled([asAdmin.holds.add(hold.id, [id]), destroy(app, id)])
    const codes = [added, removed].map((result) => (result.status === 'rejected' ? (result.reason as { code: string }).code : 'ok'))
    expect([
      ['ok', 'RETENTION'],
      ['DOCUMENT_NOT_FOUND', 'ok'],
    ]).toContainEqual(codes)
  }
})
