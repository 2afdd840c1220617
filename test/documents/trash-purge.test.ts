import { hash } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import type { Client } from '../../src/client/client.ts'
import { withLock } from '../../src/db/lock.ts'
import { AppError } from '../../src/errors.ts'
import { maintain } from '../../src/worker/maintenance.ts'
import { startApp, upload } from '../support/app.ts'
import { storeFiles } from '../support/servers/server.ts'

const statusOf = async (answer: Promise<Response>) => {
  const response = await answer
  if (response.status < 400) return response.status
  return [response.status, ((await response.json()) as { error: { code: string } }).error.code]
}
const remove = (client: Client, id: string, query = '') => statusOf(client.send('DELETE', `/api/documents/${id}${query}`))
const days = (count: number) => count * 86_400_000
const sum = (text: string) => hash('sha256', text)

type Dms = Awaited<ReturnType<typeof startApp>>

const stored = async ({ dataDir }: Dms) => (await storeFiles(dataDir)).named
const entries = async ({ app }: Dms) => {
  const rows = await app.db.selectFrom('audit_entries').selectAll().where('action', 'like', 'purge %').orderBy('seq').execute()
  return rows.map(({ action, actor, target, details }) => ({ action, actor, target, ...(JSON.parse(details) as object) }))
}
/** Makes the current file an old version, and these bytes the current one. */
const addVersion = async ({ app }: Dms, id: string, number: number, { sha256, size }: { sha256: string; size: number }) => {
  await app.db
    .insertInto('document_versions')
    .values({ document_id: id, number, sha256, size, mime_type: 'text/plain', filename: 'a', origin: 'upload', created_at: app.now() })
    .execute()
  await app.db.updateTable('documents').set({ current_version: number, sha256, size }).where('id', '=', id).execute()
}

test('permanent=true and trash_days=0 destroy at once: rows and bytes go, and the audit log keeps checksums, sizes and reason', async () => {
  const dms = await startApp()
  const { asAda, asAdmin, runJobs } = dms
  const live = await upload(asAda, 'live.txt', 'live')
  const trashed = await upload(asAda, 'trashed.txt', 'trashed')
  await runJobs()
  await remove(asAda, trashed.id)
  expect(await remove(asAda, live.id, '?permanent=true')).toBe(204)
  expect(await remove(asAdmin, trashed.id, '?permanent=true')).toBe(204)
  expect(await statusOf(asAda.send('GET', `/api/documents/${trashed.id}`))).toEqual([404, 'DOCUMENT_NOT_FOUND'])
  await runJobs()
  expect(await stored(dms)).toEqual([])
  const entryOf = ({ id, title, sha256, size }: typeof live, actor: string) => ({
    action: 'purge document',
    actor,
    target: `id=${id}`,
    reason: 'permanent',
    title_sha256: sum(title),
    versions: [{ number: 1, sha256, size }],
  })
  expect(await entries(dms)).toEqual([entryOf(live, 'ada'), entryOf(trashed, 'root')])
  expect(await asAdmin.audit.verify()).toMatchObject({ ok: true })

  const without = await startApp({ 'documents.trash_days': 0 })
  const { id } = await upload(without.asAda, 'a.txt', 'a')
  expect(await remove(without.asAda, id)).toBe(204)
  expect(await without.asAda.trash.page()).toMatchObject({ data: [], trash_days: 0 })
  await without.runJobs()
  expect(await stored(without)).toEqual([])
})

test('DELETE /api/trash destroys own documents, for an admin those of all or of one owner, 400 for an empty one, and keeps what is under a hold', async () => {
  const dms = await startApp()
  const { app, asAda, asBob, asAdmin, runJobs } = dms
  const ids: string[] = []
  for (let index = 0; index < 4; index++) ids.push((await upload(asAda, `${index}`, `${index}`)).id)
  const bobs = [await upload(asBob, 'b', 'b'), await upload(asBob, 'c', 'c')]
  for (const id of ids.slice(1)) await remove(asAda, id)
  for (const { id } of bobs) await remove(asBob, id)
  const { id: hold_id } = await app.db
    .insertInto('holds')
    .values({ name: 'court', name_key: 'court', reason: '' })
    .returning('id')
    .executeTakeFirstOrThrow()
  await app.db
    .insertInto('hold_documents')
    .values({ hold_id, document_id: ids[3] ?? '' })
    .execute()
  // As of a script whose variable is not set.
  expect((await asAdmin.send('DELETE', '/api/trash?owner=')).status).toBe(400)
  expect(await asAda.trash.empty({ owner: 'bob' })).toEqual({ purged: 0, retained: 0 })
  expect(await asAda.trash.checkEmptying()).toEqual({ purged: 2, retained: 1 })
  expect(await asAda.trash.empty()).toEqual({ purged: 2, retained: 1 })
  expect(await asAda.trash.empty()).toEqual({ purged: 0, retained: 1 })
  expect(await remove(asAda, ids[3] ?? '', '?permanent=true')).toEqual([409, 'RETENTION'])
  expect((await asAda.documents.page()).pagination.total).toBe(1)
  expect(await asAdmin.trash.empty({ owner: 'bob' })).toEqual({ purged: 2, retained: 0 })
  await runJobs()
  expect(await stored(dms)).toEqual([sum('0'), sum('3')].sort())
  await app.db.updateTable('holds').set({ released_at: app.now() }).execute()
  expect(await asAdmin.trash.empty()).toEqual({ purged: 1, retained: 0 })
})

test('DELETE /api/trash destroys what the list shows, also after the clock of the database was set back', async () => {
  const { asAda, setDatabaseClock } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'a')
  await remove(asAda, id)
  await setDatabaseClock(-3_600_000)
  expect((await asAda.trash.page()).data).toMatchObject([{ id }])
  expect(await asAda.trash.empty()).toEqual({ purged: 1, retained: 0 })
})

test('maintenance destroys what was in the trash for trash_days, once, and keeps bytes that another version needs', async () => {
  const dms = await startApp()
  const { app, asAda, asBob, later, runJobs } = dms
  const [early, late, live] = [await upload(asAda, 'a', 'same'), await upload(asAda, 'b', 'late'), await upload(asBob, 'c', 'same')]
  const [first, second] = [await upload(asBob, 'd', 'first'), await upload(asAda, 'e', 'second')]
  await addVersion(dms, first.id, 2, second)
  await remove(asAda, early.id)
  await remove(asAda, second.id)
  await later(days(29))
  await remove(asAda, late.id)
  expect(await maintain(app, ['trash'])).toEqual({ trash: 0 })
  await later(days(2))
  expect(await maintain(app, ['trash'], { isDryRun: true })).toEqual({ trash: 2 })
  expect((await asAda.trash.page()).data).toHaveLength(3)
  expect(await maintain(app, ['trash'])).toEqual({ trash: 2 })
  expect(await maintain(app, ['trash'])).toEqual({ trash: 0 })
  await runJobs()
  // "same" is a document of bob, "first" an old and "second" the current version of another.
  expect(await stored(dms)).toEqual([live.sha256, late.sha256, first.sha256, second.sha256].sort())
  expect(await entries(dms)).toMatchObject([
    { actor: 'operator', reason: 'trash_expired' },
    { actor: 'operator', reason: 'trash_expired' },
  ])
})

test('bytes that a running backup needs stay until it has ended', async () => {
  const dms = await startApp()
  const { app, asAda, later, runJobs } = dms
  const { id, sha256 } = await upload(asAda, 'a', 'a')
  await withLock(app.database, 'files.delete', 0, async () => {
    await remove(asAda, id, '?permanent=true')
    await runJobs()
    await maintain(app, ['files'])
    expect(await stored(dms)).toEqual([sha256])
  })
  await later(120_000)
  await runJobs()
  expect(await stored(dms)).toEqual([])
})

test('keep_versions and version_days delete superseded versions, never the current one or one under retention', async () => {
  const dms = await startApp({ 'documents.keep_versions': 2, 'documents.version_days': 10 })
  const { app, asAda, later, runJobs } = dms
  const files = []
  for (const name of ['v1', 'v2', 'v3', 'v4']) files.push(await upload(asAda, name, name))
  const [kept, limited] = [await upload(asAda, 'kept', 'kept'), await upload(asAda, 'limited', 'limited')]
  for (const { id } of [kept, limited]) for (const [index, file] of files.slice(0, 3).entries()) await addVersion(dms, id, index + 2, file)
  await app.db
    .updateTable('documents')
    .set({ retain_until: new Date(Date.now() + days(30)) })
    .where('id', '=', kept.id)
    .execute()
  const numbers = async (id: string) =>
    (await app.db.selectFrom('document_versions').select('number').where('document_id', '=', id).orderBy('number').execute()).map(
      (row) => row.number,
    )
  expect(await maintain(app, ['versions'], { isDryRun: true })).toEqual({ versions: 2 })
  expect(await maintain(app, ['versions'])).toEqual({ versions: 2 })
  expect([await numbers(limited.id), await numbers(kept.id)]).toEqual([
    [3, 4],
    [1, 2, 3, 4],
  ])
  const events = await app.db.selectFrom('events').select(['user_id', 'data']).where('type', '=', 'document_updated').execute()
  expect(events.filter(({ data }) => JSON.stringify(data).includes('versions'))).toEqual([
    { user_id: limited.owner_id, data: { document_id: limited.id, changes: ['versions'] } },
  ])
  expect(await entries(dms)).toMatchObject([
    {
      action: 'purge versions',
      target: `id=${limited.id}`,
      reason: 'version_limit',
      versions: [{ number: 1 }, { number: 2, sha256: files[0]?.sha256 }],
    },
  ])
  await later(days(11))
  expect(await maintain(app, ['versions'])).toEqual({ versions: 1 })
  expect([await numbers(limited.id), await numbers(kept.id)]).toEqual([[4], [1, 2, 3, 4]])
  await runJobs()
  expect(await stored(dms)).toEqual([...files, kept].map(({ sha256 }) => sha256).sort())
})

test('deleting a user destroys the trash too or transfers it; 409 CONFLICT counts it', async () => {
  const dms = await startApp()
  const { app, ada, bob, asAda, asBob, asAdmin, runJobs } = dms
  const { id } = await upload(asAda, 'a', 'a')
  const { id: ofBob } = await upload(asBob, 'b', 'b')
  await remove(asAda, id)
  const refused = await asAdmin.send('DELETE', `/api/users/${ada.id}`)
  const { error } = (await refused.json()) as { error: { message: string; details: object } }
  expect([refused.status, error.details]).toEqual([409, { documents: 1, trashed: 1 }])
  expect(error.message).toContain('1 of them in the trash')
  await asAdmin.send('DELETE', `/api/users/${ada.id}?documents=transfer&to=bob`)
  expect((await asBob.trash.page()).data).toMatchObject([{ id, owner: 'bob' }])
  expect(await statusOf(asAdmin.send('DELETE', `/api/users/${bob.id}?documents=delete`))).toBe(204)
  expect((await entries(dms)).map((entry) => [entry.target, (entry as { reason?: string }).reason]).sort()).toEqual(
    [id, ofBob].map((id) => [`id=${id}`, 'user_deleted']).sort(),
  )
  await runJobs()
  expect([await stored(dms), await app.db.selectFrom('documents').selectAll().execute()]).toEqual([[], []])
})

test('maintenance runs the other steps while the document store is out of reach, and throws its error', async () => {
  const { app, ada, later } = await startApp({ 'maintenance.notifications_keep': '1d' })
  const read = { user_id: ada.id, type: 'test', title: 't', message: 'm', read_at: new Date() }
  await app.db.insertInto('notifications').values(read).execute()
  await later(days(2))
  vi.spyOn(app.files, 'listUncommitted').mockRejectedValueOnce(new AppError('STORAGE_UNAVAILABLE'))
  await expect(maintain(app)).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
  expect(await app.db.selectFrom('notifications').select('title').execute()).toEqual([])
  expect(await app.db.selectFrom('runs').select('name').where('name', '=', 'maintenance').execute()).toEqual([])
})
