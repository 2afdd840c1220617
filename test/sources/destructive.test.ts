/** Syncs that look like ransomware or a wrong mount stop before they apply anything. */
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { moveToTrash, undelete } from '../../src/documents/trash/trash.ts'
import { startSynced } from '../support/data/synced-source.ts'
import { handOver, hasWebdavServer, startWebdav } from '../support/servers/webdav-servers.ts'

const stopped = { state: 'failed', created: 0, updated: 0, removed: 0, error: { code: 'SYNC_LOOKS_DESTRUCTIVE' } }

/** Creates a source with this many synced files. */
async function startWith(count: number, settings = {}) {
  const synced = await startSynced(settings)
  const paths = synced.names(count)
  await synced.fill(paths)
  expect(await synced.sync()).toMatchObject({ created: count })
  return { ...synced, paths }
}

test('SYNC_LOOKS_DESTRUCTIVE when more than half of 20 files have changed: nothing is applied, not even a new file', async () => {
  const { fill, sync, state, paths, put, asAdmin, source } = await startWith(20)
  const before = await state()
  await fill(paths.slice(0, 11), 'encrypted')
  await put('a-new.txt', 'new')
  const status = await sync()
  expect(status).toMatchObject(stopped)
  expect(status.error?.message).toContain('If these changes are intended: dms sources sync share --accept-changes. ')
  expect(await state()).toEqual(before)
  expect(await asAdmin.sources.get(source.id)).toMatchObject({ status: 'error', last_error: status.error?.message })
})

test('exactly half of the files may change, be removed, or both', async () => {
  const { fill, remove, sync, paths, put } = await startWith(20)
  await fill(paths.slice(0, 5), 'other')
  await remove(paths.slice(5, 10))
  await put('new.txt', 'new')
  expect(await sync()).toMatchObject({ state: 'completed', updated: 5, removed: 5, created: 1, unchanged: 10 })
})

test('changed and vanished files count together', async () => {
  const { fill, remove, sync, state, paths } = await startWith(20)
  const before = await state()
  await fill(paths.slice(0, 6), 'other')
  await remove(paths.slice(6, 11))
  expect(await sync()).toMatchObject(stopped)
  expect(await state()).toEqual(before)
})

test('vanished files alone stop a sync, which marks none as removed', async () => {
  const { remove, sync, state, paths } = await startWith(20)
  const before = await state()
  await remove(paths.slice(0, 11))
  expect(await sync()).toMatchObject(stopped)
  expect(await state()).toEqual(before)
})

test('a source with 19 known files may change in all of them', async () => {
  const { fill, sync, paths } = await startWith(19)
  await fill(paths, 'other')
  expect(await sync()).toMatchObject({ state: 'completed', updated: 19 })
})

test('many new files are not destructive', async () => {
  const { fill, sync, names } = await startWith(20)
  await fill(names(200, 100))
  expect(await sync()).toMatchObject({ state: 'completed', created: 200, unchanged: 20 })
})

test('accept_changes applies everything once; the next sync is limited again', async () => {
  const { fill, remove, sync, paths, documents, runJobs } = await startWith(24)
  await fill(paths.slice(0, 20), 'other')
  await remove(paths.slice(20))
  expect(await sync()).toMatchObject(stopped)
  expect(await sync({ accept_changes: true })).toMatchObject({ state: 'completed', updated: 20, removed: 4 })
  await runJobs()
  expect((await documents()).get('in/0.txt')?.content).toBe('other in/0.txt')
  await fill(paths.slice(0, 20), 'third')
  expect(await sync()).toMatchObject(stopped)
})

test('sources.max_change_share sets the limit, and 1 switches it off', async () => {
  const strict = await startWith(20, { 'sources.max_change_share': 0.1 })
  await strict.fill(strict.paths.slice(0, 3), 'other')
  expect(await strict.sync()).toMatchObject(stopped)
  const open = await startWith(20, { 'sources.max_change_share': 1 })
  await open.fill(open.paths, 'other')
  expect(await open.sync()).toMatchObject({ state: 'completed', updated: 20 })
})

test('a renamed folder is not destructive, and its documents are renamed', async () => {
  const { sync, root, documents } = await startWith(30)
  const before = await documents()
  await rename(join(root, 'in'), join(root, 'out'))
  expect(await sync()).toMatchObject({ state: 'completed', created: 0, updated: 30, removed: 0 })
  expect((await documents()).get('out/3.txt')?.id).toBe(before.get('in/3.txt')?.id)
})

test('a renamed folder whose files are encrypted stops the sync', async () => {
  const { sync, root, fill, names, state } = await startWith(30)
  const before = await state()
  await rename(join(root, 'in'), join(root, 'out'))
  await fill(
    names(30).map((path) => path.replace('in/', 'out/')),
    'wrong',
  )
  expect(await sync()).toMatchObject(stopped)
  expect((await state()).documents).toEqual(before.documents)
})

test('new times and etags with equal bytes are no change, nor is a full sync', async () => {
  const { sync, touch, paths, state, asAdmin, source } = await startWith(30)
  const before = await state()
  await touch(paths)
  expect(await sync()).toMatchObject({ state: 'completed', unchanged: 30, updated: 0 })
  expect(await sync({ full: true })).toMatchObject({ state: 'completed', unchanged: 30, updated: 0 })
  await asAdmin.sources.update(source.id, { url: `${source.url}/.` })
  expect(await sync()).toMatchObject({ state: 'completed', unchanged: 30, updated: 0 })
  expect((await state()).documents).toEqual(before.documents)
})

test('a full sync finds bytes that changed without a change in the listing, and stops', async () => {
  const { sync, paths, put, state, app } = await startWith(20)
  const { documents } = await state()
  for (const path of paths.slice(0, 11)) await put(path, `wrong ${path}`)
  // The ledger takes the listed versions for ingested ones.
  await app.db.updateTable('source_files').set({ etag: null, size: null, modified_at: null }).execute()
  expect(await sync({ full: true })).toMatchObject(stopped)
  expect((await state()).documents).toEqual(documents)
})

test('an empty source stays SOURCE_EMPTY', async () => {
  const { sync, remove, paths, state } = await startWith(20)
  const { documents } = await state()
  await remove(paths)
  expect(await sync()).toMatchObject({ state: 'completed', removed: 0, errors: [{ code: 'SOURCE_EMPTY' }] })
  expect((await state()).documents).toEqual(documents)
})

test('one notification for a series of stopped syncs', async () => {
  const { sync, fill, paths, asAdmin } = await startWith(20)
  await fill(paths, 'encrypted')
  for (let turn = 0; turn < 3; turn++) expect(await sync()).toMatchObject(stopped)
  const failures = (await Array.fromAsync(asAdmin.notifications.list())).filter(({ type }) => type === 'sync_failed')
  expect(failures).toMatchObject([{ data: { code: 'SYNC_LOOKS_DESTRUCTIVE' } }])
})

test('a stopped sync notifies once, although the syncs before failed for another reason', async () => {
  const { sync, fill, paths, root, asAdmin } = await startWith(20)
  await rename(root, `${root}-away`)
  for (let turn = 0; turn < 2; turn++) expect(await sync()).toMatchObject({ state: 'failed' })
  await rename(`${root}-away`, root)
  await fill(paths, 'encrypted')
  for (let turn = 0; turn < 2; turn++) expect(await sync()).toMatchObject(stopped)
  const failures = (await Array.fromAsync(asAdmin.notifications.list())).filter(({ type }) => type === 'sync_failed')
  expect(failures.map(({ data }) => data.code)).toEqual(['SYNC_LOOKS_DESTRUCTIVE', expect.not.stringMatching('DESTRUCTIVE')])
})

test('a dry run lists entries that a sync would count as failed beside the files that it would fetch', async () => {
  const { put, asAdmin, source } = await startWith(20)
  await put('a\x01b.txt', 'unusable')
  await put('new.txt', 'new')
  expect(await asAdmin.sources.planSync(source.id)).toMatchObject({
    files: [{ action: 'created', path: 'new.txt' }],
    problems: [{ code: 'SOURCE_PROTOCOL' }],
    error: null,
    stop: null,
  })
})

test('a dry run leaves out files of a size that a sync skips, and says that a source has become empty', async () => {
  const { put, remove, paths, asAdmin, source, app } = await startWith(20)
  await put('empty.txt', '')
  await put('large.txt', 'larger than the limit')
  const sources = app.config.sources as { max_file_size: number }
  sources.max_file_size = 20
  expect(await asAdmin.sources.planSync(source.id)).toMatchObject({ files: [], problems: [], stop: null })
  await remove([...paths, 'empty.txt', 'large.txt'])
  expect(await asAdmin.sources.planSync(source.id)).toMatchObject({ files: [], stop: { code: 'SOURCE_EMPTY' } })
})

test('a dry run reports that the sync would stop', async () => {
  const { fill, paths, asAdmin, source } = await startWith(20)
  expect(await asAdmin.sources.planSync(source.id)).toMatchObject({ files: [], stop: null })
  await fill(paths.slice(0, 11), 'encrypted')
  expect(await asAdmin.sources.planSync(source.id)).toMatchObject({ error: null, stop: { code: 'SYNC_LOOKS_DESTRUCTIVE' } })
})

test('documents in the trash are not counted, and their changed files wait for the undelete', async () => {
  const { fill, paths, app, admin, sync, documents, state } = await startWith(30)
  const all = await documents()
  const trashed = paths.slice(0, 10).map((path) => all.get(path)?.id ?? '')
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, admin.id, trashed))
  await fill(paths.slice(0, 20), 'other')
  expect(await sync()).toMatchObject({ state: 'completed', updated: 10, skipped: 10, unchanged: 10 })
  expect((await state()).versions.filter(({ document_id }) => trashed.includes(document_id))).toHaveLength(10)
  await fill(paths.slice(19, 30), 'encrypted')
  expect(await sync()).toMatchObject(stopped)
  await app.db.transaction().execute((trx) => undelete(app, trx, trashed.slice(0, 1)))
  await fill(paths.slice(19, 30), 'other')
  expect(await sync({ accept_changes: true })).toMatchObject({ skipped: 9 })
  expect((await documents()).get(paths[0] ?? '')?.size).toBe('other in/0.txt'.length)
})

/** Creates a source on Apache, with its folder. */
async function startApache() {
  const server = await startWebdav('apache')
  onTestFinished(() => server.stop())
  const put = async (path: string, bytes: string) => {
    await mkdir(dirname(join(server.folder, path)), { recursive: true })
    await writeFile(join(server.folder, path), bytes)
  }
  const { url, username, password, folder: root } = server
  const synced = await startSynced({}, { root, put, fields: { type: 'webdav', url, username, password } })
  const fill: typeof synced.fill = (paths, word) => synced.fill(paths, word).then(() => handOver(root))
  return { ...synced, fill }
}

test.skipIf(!hasWebdavServer('apache'))('WebDAV: encrypted in place and under new names', async () => {
  const { sync, names, fill, state, remove } = await startApache()
  await fill(names(24))
  expect(await sync()).toMatchObject({ created: 24 })
  const before = await state()
  const locked = names(12, 12).map((path) => `${path}.locked`)
  await fill([...names(12), ...locked], 'encrypted')
  await remove(names(12, 12))
  expect(await sync()).toMatchObject(stopped)
  expect(await state()).toEqual(before)
  expect(await sync({ accept_changes: true })).toMatchObject({ state: 'completed', created: 12, updated: 12, removed: 12 })
})

test.skipIf(!hasWebdavServer('apache'))('WebDAV: files below a folder that cannot be listed count neither way', async () => {
  const { sync, names, fill, root } = await startApache()
  const away = names(20).map((path) => path.replace('in/', 'away/'))
  await fill([...names(20), ...away])
  expect(await sync()).toMatchObject({ created: 40 })
  await fill(names(20), 'other')
  await chmod(join(root, 'away'), 0)
  onTestFinished(() => chmod(join(root, 'away'), 0o755))
  expect(await sync()).toMatchObject({ state: 'completed', failed: 1, updated: 20, removed: 0 })
})
