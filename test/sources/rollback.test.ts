/** POST /api/sources/{id}/rollback: the documents of a source return to an earlier state. */
import { expect, test } from 'vitest'
import { withLock } from '../../src/db/lock.ts'
import { moveToTrash } from '../../src/documents/trash/trash.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { lockName } from '../../src/sources/sync/run-records.ts'
import { maintain } from '../../src/worker/maintenance.ts'
import { startSynced } from '../support/data/synced-source.ts'
import { tokenFor } from '../support/servers/server.ts'

/** Creates a source with 12 clean files. Returns the time after their sync. */
async function start(settings: Parameters<typeof startSynced>[0] = {}) {
  const synced = await startSynced(settings)
  const paths = synced.names(12)
  await synced.fill(paths)
  expect(await synced.sync()).toMatchObject({ created: 12 })
  await synced.runJobs()
  const before = synced.app.now().toISOString()
  const textOf = async (id: string) => (await synced.asAdmin.documents.download(id)).text()
  const rollBack = (options = {}) => synced.asAdmin.sources.rollback(synced.source.id, { before, ...options })
  return { ...synced, paths, before, textOf, rollBack }
}

/** Encrypts six files in place and six under new names, and syncs. */
async function encrypt({ fill, remove, sync, paths }: Awaited<ReturnType<typeof start>>) {
  await fill([...paths.slice(0, 6), ...paths.slice(6).map((path) => `${path}.locked`)], 'encrypted')
  await remove(paths.slice(6))
  expect(await sync({ accept_changes: true })).toMatchObject({ updated: 6, removed: 6, created: 6 })
}

test('every document returns to its bytes of that time, later ones move to the trash, and a second rollback changes nothing', async () => {
  const dms = await start()
  const { rollBack, documents, textOf, paths, state, runJobs, app } = dms
  const old = await documents()
  await encrypt(dms)
  const result = await rollBack()
  expect(result).toMatchObject({ restored: 12, trashed: 6, unchanged: 0, failed: 0, has_more: false })
  expect(result.items.find(({ path }) => path === 'in/9.txt.locked')).toMatchObject({ action: 'trashed', error: null })
  await runJobs()
  const now = await documents()
  expect([...now.keys()].sort()).toEqual([...paths].sort())
  for (const path of paths) {
    const document = now.get(path)
    expect(document).toMatchObject({ id: old.get(path)?.id, metadata: {}, status: 'completed', content: `clean ${path}` })
    expect(await textOf(document?.id ?? '')).toBe(`clean ${path}`)
  }
  const origins = await app.db.selectFrom('document_versions').select(['origin', 'number']).where('origin', '=', 'restore').execute()
  expect(origins).toEqual(Array.from({ length: 6 }, () => ({ origin: 'restore', number: 3 })))
  const after = await state()
  expect(await rollBack()).toMatchObject({ restored: 0, trashed: 0, unchanged: 18, failed: 0, items: [] })
  expect(await state()).toEqual(after)
})

test('the clock of the database decides: a worker whose clock is ten minutes behind stores no version in the past', async () => {
  const dms = await start()
  dms.setProcessClock(-600_000)
  await encrypt(dms)
  dms.setProcessClock(600_000)
  expect(await dms.rollBack()).toMatchObject({ restored: 12, trashed: 6, unchanged: 0, failed: 0 })
})

test('dry_run returns what would change, and changes nothing', async () => {
  const dms = await start()
  await encrypt(dms)
  const before = await dms.state()
  expect(await dms.rollBack({ dry_run: true })).toMatchObject({ restored: 12, trashed: 6, unchanged: 0, failed: 0 })
  expect(await dms.state()).toEqual(before)
})

test('the next sync does not restore encrypted bytes, and takes the clean files of a repaired source', async () => {
  const dms = await start()
  const { rollBack, sync, fill, remove, paths, documents, textOf } = dms
  await encrypt(dms)
  await rollBack()
  const restored = await documents()
  expect(await sync()).toMatchObject({ state: 'completed', created: 0, updated: 0, removed: 0 })
  expect(await sync({ full: true })).toMatchObject({ state: 'completed', created: 0, updated: 0, removed: 0 })
  expect([...(await documents()).values()].map(({ sha256 }) => sha256)).toEqual([...restored.values()].map(({ sha256 }) => sha256))
  await remove(paths.slice(6).map((path) => `${path}.locked`))
  await fill(paths)
  await fill(paths.slice(0, 1), 'newer')
  expect(await sync()).toMatchObject({ state: 'completed', created: 0, failed: 0 })
  const now = await documents()
  expect([...now.keys()].sort()).toEqual([...paths].sort())
  for (const path of paths) expect(await textOf(now.get(path)?.id ?? '')).toBe(`${path === paths[0] ? 'newer' : 'clean'} ${path}`)
})

test('a repaired source with many files passes the limit, because its bytes are those of the documents', async () => {
  const { sync, fill, names, asAdmin, source, app } = await startSynced()
  await fill(names(30))
  await sync()
  const before = app.now().toISOString()
  await fill(names(30), 'encrypted')
  expect(await sync({ accept_changes: true })).toMatchObject({ updated: 30 })
  expect(await asAdmin.sources.rollback(source.id, { before })).toMatchObject({ restored: 30 })
  await fill(names(30))
  expect(await sync()).toMatchObject({ state: 'completed', unchanged: 30, updated: 0 })
})

test('documents that were trashed since return, those that were in the trash then stay there', async () => {
  const { rollBack, documents, app, admin, paths, later } = await start()
  const ids = [...(await documents()).values()].map(({ id }) => id).sort()
  const trash = (batch: string[]) => app.db.transaction().execute((trx) => moveToTrash(app, trx, admin.id, batch))
  await later(60_000)
  await trash(ids.slice(0, 1))
  await later(60_000)
  const between = app.now().toISOString()
  await later(60_000)
  await trash(ids.slice(1, 3))
  expect(await rollBack({ before: between })).toMatchObject({ restored: 2, trashed: 0, unchanged: 10 })
  expect((await documents()).size).toBe(11)
  expect(await rollBack()).toMatchObject({ restored: 1, unchanged: 11 })
  expect((await documents()).size).toBe(paths.length)
})

test('a document without a version of that time fails, and the others return', async () => {
  const dms = await start()
  await encrypt(dms)
  const id = (await dms.documents()).get('in/0.txt')?.id ?? ''
  await dms.app.db.deleteFrom('document_versions').where('document_id', '=', id).where('number', '=', 1).execute()
  const result = await dms.rollBack()
  expect(result).toMatchObject({ restored: 11, trashed: 6, failed: 1 })
  expect(result.items[0]).toMatchObject({ document_id: id, action: 'failed', error: { code: 'VERSION_NOT_FOUND' } })
})

test.each([true, false])(
  'without a trash, later documents stay and count as failed, in the dry run too; documents.worm = %s',
  async (worm) => {
    const dms = await start({ 'documents.trash_days': 0, 'documents.worm': worm })
    await encrypt(dms)
    for (const dry_run of [true, false]) {
      const result = await dms.rollBack({ dry_run })
      expect(result).toMatchObject({ restored: 12, trashed: 0, unchanged: 0, failed: 6 })
      const error = { code: 'NO_TRASH', message: expect.stringContaining('Set documents.trash_days') }
      expect(result.items[0]).toMatchObject({ path: expect.stringMatching('locked$'), action: 'failed', error })
    }
    await dms.later(2 * 86_400_000)
    await maintain(dms.app)
    expect((await dms.documents()).size).toBe(18)
  },
)

test('a disabled source is rolled back, and a waiting sync is cancelled', async () => {
  const dms = await start()
  await encrypt(dms)
  await dms.asAdmin.sources.sync(dms.source.id)
  await dms.rollBack()
  expect(await dms.app.db.selectFrom('jobs').select('id').where('kind', '=', 'sync').where('status', '=', 'pending').execute()).toEqual([])
  await dms.asAdmin.sources.update(dms.source.id, { status: 'disabled' })
  expect(await dms.rollBack({ before: dms.app.now().toISOString() })).toMatchObject({ restored: 0, failed: 0 })
})

test('409 SOURCE_SYNC_IN_PROGRESS during a sync; a time in the future changes nothing', async () => {
  const { rollBack, app, source } = await start()
  await withLock(app.database, lockName(source.id), 0, async () => {
    await expect(rollBack()).rejects.toMatchObject({ status: 409, code: 'SOURCE_SYNC_IN_PROGRESS' })
  })
  expect(await rollBack({ before: '2999-01-01' })).toMatchObject({ restored: 0, trashed: 0, unchanged: 12, failed: 0 })
})

test('one audit entry, and one event for each document', async () => {
  const dms = await start()
  await encrypt(dms)
  const { max } = await dms.app.db
    .selectFrom('events')
    .select((eb) => eb.fn.max('seq').as('max'))
    .executeTakeFirstOrThrow()
  await dms.rollBack()
  const events = await dms.app.db.selectFrom('events').select('type').where('seq', '>', max).execute()
  const countOf = (type: string) => events.filter((event) => event.type === type).length
  expect([countOf('version_added'), countOf('document_trashed')]).toEqual([6, 6])
  const entries = await dms.asAdmin.audit.list({ action: 'POST /api/sources/:id/rollback' })
  expect(entries).toHaveLength(1)
})

test('200 with white space while a rollback waits for its documents, then the result; nothing stops it if the client leaves', async () => {
  const dms = await start()
  await encrypt(dms)
  const { app, admin, source, before, rollBack } = dms
  const request = async () =>
    buildServer(app).request(`/api/sources/${source.id}/rollback`, {
      method: 'POST',
      headers: { authorization: `Bearer ${await tokenFor(app, admin)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ before }),
    })
  const answer = await app.db.transaction().execute(async (trx) => {
    await trx.selectFrom('documents').select('id').where('source_id', '=', source.id).forUpdate().execute()
    return request()
  })
  await answer.body?.cancel()
  await expect.poll(async () => (await rollBack({ dry_run: true })).unchanged, { timeout: 20_000 }).toBe(18)
  expect(answer.status).toBe(200)
})
