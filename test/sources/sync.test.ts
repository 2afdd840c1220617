import { randomUUID } from 'node:crypto'
import { chmod, link, readdir, readFile, readlink, rename, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Client } from '../../src/client/client.ts'
import { withLock } from '../../src/db/lock.ts'
import { AppError } from '../../src/errors.ts'
import * as folderTags from '../../src/sources/sync/folder-tags.ts'
import * as ledger from '../../src/sources/sync/ledger.ts'
import { beginRun, lockName } from '../../src/sources/sync/run-records.ts'
import { startApp, upload } from '../support/app.ts'
import { makeFolder } from '../support/data/source-folder.ts'
import { storeFiles } from '../support/servers/server.ts'
import { storedPath } from '../support/stored-path.ts'

type Fields = Partial<Parameters<Awaited<ReturnType<typeof startApp>>['asAdmin']['sources']['create']>[0]>

/** Starts a dms with a folder that it may read, and a source of this folder. */
async function start(fields: Fields = {}, settings = {}) {
  const { root, put } = await makeFolder()
  const dms = await startApp({ 'sources.local_roots': root, 'ocr.enabled': false, ...settings })
  const source = await dms.asAdmin.sources.create({ name: 'Share', type: 'local_folder', url: root, ...fields })
  const documents = async () => {
    const all = await Array.fromAsync(dms.asAdmin.documents.list({ source_id: source.id }))
    return new Map(all.map((document) => [document.source_path ?? '', document]))
  }
  return {
    ...dms,
    root,
    source,
    documents,
    document: async (path: string) => {
      const found = (await documents()).get(path)
      if (!found) throw new Error(`no document of ${path}`)
      return found
    },
    put,
    /** syncs it and returns the result */
    sync: async (options = {}) => {
      await dms.asAdmin.sources.sync(source.id, options)
      await dms.runJobs(['sync'])
      return dms.asAdmin.sources.syncStatus(source.id)
    },
  }
}

const stateOf = async (client: Client, id: string) => (await client.sources.syncStatus(id)).state

test('files become documents of the owner with their names, are found, and are not downloaded again', async () => {
  const { put, sync, document, documents, runJobs, asAdmin, asAda, source, admin } = await start()
  await put('Invoice 2026.txt', 'alpha')
  await put('sub/deep/b.md', 'beta')
  expect(await sync()).toMatchObject({
    source_id: source.id,
    state: 'completed',
    processed: 2,
    total: 2,
    created: 2,
    failed: 0,
    bytes: 9,
    current_file: null,
    errors: [],
    error: null,
  })
  await runJobs()
  expect(await document('Invoice 2026.txt')).toMatchObject({
    title: 'Invoice 2026',
    filename: 'Invoice 2026.txt',
    owner_id: admin.id,
    source_id: source.id,
    status: 'completed',
    content: 'alpha',
    mime_type: 'text/plain',
  })
  expect((await asAdmin.search.query('beta')).results).toMatchObject([{ filename: 'b.md' }])
  expect(await Array.fromAsync(asAda.documents.list({ source_id: source.id }))).toEqual([])
  expect(await sync()).toMatchObject({ state: 'completed', total: 2, created: 0, updated: 0, unchanged: 2, bytes: 0 })
  expect((await documents()).size).toBe(2)
  expect(await asAdmin.sources.get(source.id)).toMatchObject({ status: 'active', document_count: 2, last_error: null })
})

test('changed bytes are a new version of the same document: new text, equal id, title and labels', async () => {
  const { put, sync, document, runJobs, asAdmin, dataDir } = await start()
  await put('a.txt', 'the first words')
  await sync()
  await runJobs()
  const { id } = await document('a.txt')
  await asAdmin.labels.create({ name: 'post', color: '#aabbcc' })
  await asAdmin.documents.update(id, { title: 'Chosen', labels: ['post'] })
  const before = await asAdmin.documents.get(id)
  await put('a.txt', 'other ones')
  expect(await sync()).toMatchObject({ updated: 1, created: 0, unchanged: 0 })
  expect(await document('a.txt')).toMatchObject({ id, title: 'Chosen', labels: ['post'], status: 'pending', content: '', size: 10 })
  await runJobs()
  const after = await asAdmin.documents.get(id)
  expect(after).toMatchObject({ status: 'completed', content: 'other ones', page_count: 1, created_at: before.created_at })
  expect(after.sha256).not.toBe(before.sha256)
  expect(await (await asAdmin.documents.download(id)).text()).toBe('other ones')
  expect((await asAdmin.search.query('words')).results).toEqual([])
  // The file that was replaced stays as a version.
  expect((await storeFiles(dataDir)).named).toEqual([before.sha256, after.sha256].sort())
  expect((await asAdmin.documents.versions(id)).map(({ number, origin }) => [number, origin])).toEqual([
    [2, 'sync'],
    [1, 'sync'],
  ])
  expect(await asAdmin.documents.versionText(id, 1)).toBe('the first words')
})

test('a sync brings intact bytes where the stored ones of its owner are damaged, for a new file and a new version', async () => {
  const { put, sync, document, runJobs, asAdmin, app, dataDir } = await start()
  const error = vi.spyOn(app.log, 'error').mockImplementation(() => {})
  const [one, other] = [await upload(asAdmin, '1.txt', 'the first words'), await upload(asAdmin, '2.txt', 'other ones')]
  await put('b.txt', 'to be replaced')
  await sync()
  const { sha256: replaced } = await document('b.txt')
  for (const { sha256 } of [one, other]) {
    const path = await storedPath(app, sha256)
    await writeFile(path, (await readFile(path, 'utf8')).toUpperCase())
  }
  await put('a.txt', 'the first words')
  await put('b.txt', 'other ones')
  expect(await sync()).toMatchObject({ created: 1, updated: 1, failed: 0 })
  const textOf = async (id: string) => (await asAdmin.documents.download(id)).text()
  expect(await Promise.all([one.id, (await document('a.txt')).id].map(textOf))).toEqual(['the first words', 'the first words'])
  expect(await Promise.all([other.id, (await document('b.txt')).id].map(textOf))).toEqual(['other ones', 'other ones'])
  expect(error).toHaveBeenCalledTimes(2)
  await runJobs()
  expect((await storeFiles(dataDir)).named).toEqual([one.sha256, other.sha256, replaced].sort())
})

test('a new time with equal bytes changes nothing; --full downloads everything again', async () => {
  const { put, sync, document, root } = await start()
  await put('a.txt', 'alpha')
  await sync()
  const before = await document('a.txt')
  await utimes(join(root, 'a.txt'), 1_000_000, 1_000_000)
  expect(await sync()).toMatchObject({ unchanged: 1, updated: 0, bytes: 5 })
  expect(await sync()).toMatchObject({ unchanged: 1, bytes: 0 })
  expect(await sync({ full: true })).toMatchObject({ unchanged: 1, updated: 0, bytes: 5 })
  expect(await document('a.txt')).toEqual(before)
})

test('known bytes are stored once, as a document with duplicate_of', async () => {
  const { put, sync, document, asAdmin, app } = await start()
  const first = await upload(asAdmin, 'mine.txt', 'the same')
  await put('a.txt', 'the same')
  await put('b.txt', 'the same')
  expect(await sync()).toMatchObject({ created: 2 })
  expect(await document('a.txt')).toMatchObject({ duplicate_of: first.id })
  expect(await document('b.txt')).toMatchObject({ duplicate_of: first.id })
  expect(await app.db.selectFrom('stored_files').selectAll().execute()).toHaveLength(1)
  await put('c.txt', 'the same')
  expect(await sync()).toMatchObject({ created: 1, unchanged: 2, updated: 0 })
  expect(await document('c.txt')).toMatchObject({ duplicate_of: first.id })
})

test('files with the bytes of a damaged stored file are fetched, by the next sync at the latest, which repairs the stored file', async () => {
  const { put, root, sync, document, app, asAdmin } = await start()
  const copies = ['b.txt', 'c.txt', 'd.txt', 'e.txt']
  await put('a.txt', 'all the bytes')
  await sync()
  await truncate(await storedPath(app, (await document('a.txt')).sha256), 3)
  // The sync reads it again, because its time is new. Files that are listed before it may be this one, moved.
  await utimes(join(root, 'a.txt'), new Date(), new Date(0))
  for (const path of copies) await put(path, 'all the bytes')
  const { created, errors } = await sync()
  expect(errors.map(({ code }) => code)).toEqual(Array(copies.length - created).fill('FILE_MISSING'))
  expect(await sync()).toMatchObject({ created: copies.length - created, errors: [] })
  for (const path of ['a.txt', ...copies]) {
    const { id, size } = await document(path)
    expect([size, await (await asAdmin.documents.download(id)).text()]).toEqual([13, 'all the bytes'])
  }
})

test('a full sync repairs stored files that are damaged or missing', async () => {
  const { put, sync, document, app, asAdmin } = await start()
  vi.spyOn(app.log, 'error').mockImplementation(() => {})
  const paths = ['missing.txt', 'copy of missing.txt', 'truncated.txt', 'changed.txt', 'intact.txt']
  const bytesOf = (path: string) => `bytes of ${path.replace('copy of ', '')}`
  for (const path of paths) await put(path, bytesOf(path))
  await sync()
  const storedPathOf = async (path: string) => storedPath(app, (await document(path)).sha256)
  await rm(await storedPathOf('missing.txt'))
  await truncate(await storedPathOf('truncated.txt'), 3)
  await writeFile(await storedPathOf('changed.txt'), bytesOf('changed.txt').toUpperCase())
  const intact = await storedPathOf('intact.txt')
  expect(await sync({ full: true })).toMatchObject({ state: 'completed', unchanged: 5, updated: 0, failed: 0 })
  for (const path of paths) expect(await (await asAdmin.documents.download((await document(path)).id)).text()).toBe(bytesOf(path))
  expect(await storedPathOf('intact.txt')).toBe(intact)
  expect(await app.files.listUncommitted()).toEqual([])
})

test('a moved file is the same document with its new name, also in a moved folder', async () => {
  const { put, sync, document, documents, root, asAdmin } = await start()
  await put('old/a.txt', 'alpha')
  await put('old/b.txt', 'beta')
  await put('c.txt', 'gamma')
  await sync()
  const [a, b, c] = [await document('old/a.txt'), await document('old/b.txt'), await document('c.txt')]
  await asAdmin.documents.update(b.id, { title: 'Chosen' })
  await rename(join(root, 'old'), join(root, 'new'))
  await rename(join(root, 'c.txt'), join(root, 'new/d.txt'))
  expect(await sync()).toMatchObject({ created: 0, updated: 3, removed: 0, total: 3, processed: 3 })
  expect(await document('new/a.txt')).toMatchObject({ id: a.id, title: 'a' })
  expect(await document('new/b.txt')).toMatchObject({ id: b.id, title: 'Chosen' })
  expect(await document('new/d.txt')).toMatchObject({ id: c.id, filename: 'd.txt', title: 'd', metadata: {} })
  expect((await documents()).size).toBe(3)
  expect(await sync()).toMatchObject({ unchanged: 3, bytes: 0 })
})

test('a removed file keeps its document, which is marked until the file returns', async () => {
  const { put, sync, document, root } = await start()
  await put('a.txt', 'alpha')
  await put('b.txt', 'beta')
  await sync()
  const { id } = await document('a.txt')
  await rename(join(root, 'a.txt'), join(root, '..', 'dms-gone.txt'))
  onTestFinished(() => rm(join(root, '..', 'dms-gone.txt'), { force: true }))
  expect(await sync()).toMatchObject({ removed: 1, unchanged: 1, failed: 0 })
  expect(await document('a.txt')).toMatchObject({ id, metadata: { source_removed_at: expect.stringMatching(/^20/) } })
  expect(await sync()).toMatchObject({ removed: 0 })
  await put('a.txt', 'alpha')
  expect(await sync()).toMatchObject({ updated: 1, created: 0, removed: 0 })
  expect(await document('a.txt')).toMatchObject({ id, metadata: {} })
})

test('a destroyed document does not return: not by a sync, a full one, new bytes or another name', async () => {
  const { put, sync, document, documents, root, asAdmin } = await start()
  await put('a.txt', 'alpha')
  await put('b.txt', 'beta')
  await sync()
  await asAdmin.documents.delete((await document('a.txt')).id, { permanent: true })
  expect(await sync()).toMatchObject({ skipped: 1, unchanged: 1, bytes: 0 })
  expect(await sync({ full: true })).toMatchObject({ skipped: 1, unchanged: 1, bytes: 4 })
  await put('a.txt', 'other')
  expect(await sync()).toMatchObject({ skipped: 1, created: 0 })
  await put('a.txt', 'alpha')
  await rename(join(root, 'a.txt'), join(root, 'moved.txt'))
  expect(await sync()).toMatchObject({ skipped: 1, created: 0 })
  expect([...(await documents()).keys()]).toEqual(['b.txt'])
})

test('a document in the trash does not return: not by a sync, a full one, new bytes or another name', async () => {
  const { put, sync, document, documents, root, asAdmin } = await start()
  await put('a.txt', 'alpha')
  await put('b.txt', 'beta')
  await sync()
  const { id } = await document('a.txt')
  await asAdmin.documents.delete(id)
  expect(await sync()).toMatchObject({ skipped: 0, unchanged: 2, bytes: 0 })
  expect(await sync({ full: true })).toMatchObject({ created: 0, updated: 0, unchanged: 2 })
  await put('a.txt', 'other')
  expect(await sync()).toMatchObject({ skipped: 1, unchanged: 1, created: 0, bytes: 0 })
  await put('a.txt', 'alpha')
  await rename(join(root, 'a.txt'), join(root, 'moved.txt'))
  expect(await sync()).toMatchObject({ created: 0, removed: 0 })
  expect([...(await documents()).keys()]).toEqual(['b.txt'])
  expect(await asAdmin.documents.get(id)).toMatchObject({ deleted_at: expect.any(String) })
})

test('SOURCE_EMPTY for a source that lists only files that a sync skips, again and again; not if it never had others', async () => {
  const { put, sync, documents, root, asAdmin, source } = await start()
  await put('.keep', '')
  expect(await sync()).toMatchObject({ state: 'completed', skipped: 1, errors: [{ code: 'FILE_EMPTY' }] })
  expect(await sync()).toMatchObject({ state: 'completed', errors: [{ code: 'FILE_EMPTY' }] })
  await put('a.txt', 'alpha')
  expect(await sync()).toMatchObject({ created: 1 })
  await rm(join(root, 'a.txt'))
  await put('.other', '')
  for (let turn = 0; turn < 2; turn++) {
    expect(await sync()).toMatchObject({
      state: 'completed',
      removed: 0,
      errors: expect.arrayContaining([expect.objectContaining({ code: 'SOURCE_EMPTY' })]),
    })
    expect(await asAdmin.sources.planSync(source.id)).toMatchObject({ files: [], stop: { code: 'SOURCE_EMPTY' } })
  }
  expect([...(await documents()).values()]).toMatchObject([{ metadata: {} }])
})

test('SOURCE_EMPTY for a source that lists only hidden files and those of operating systems, again and again; not if it never had others', async () => {
  const { put, sync, documents, root, asAdmin, source } = await start()
  for (const path of ['.DS_Store', 'sub/.keep']) await put(path, `bytes of ${path}`)
  expect(await sync()).toMatchObject({ created: 2 })
  await rm(join(root, 'sub'), { recursive: true })
  expect(await sync()).toMatchObject({ state: 'completed', removed: 1, errors: [] })
  await put('a.txt', 'alpha')
  expect(await sync()).toMatchObject({ created: 1 })
  await rm(join(root, 'a.txt'))
  for (const path of ['.Trash-1000/b.txt', 'Thumbs.db', 'lost+found/c.txt']) await put(path, `bytes of ${path}`)
  for (let turn = 0; turn < 2; turn++) {
    expect(await asAdmin.sources.planSync(source.id)).toMatchObject({ stop: { code: 'SOURCE_EMPTY' } })
    expect(await sync()).toMatchObject({ state: 'completed', removed: 0, errors: [{ path: '', code: 'SOURCE_EMPTY' }] })
  }
  expect((await documents()).get('a.txt')).toMatchObject({ metadata: {} })
  await put('found.txt', 'beta')
  expect(await sync()).toMatchObject({ state: 'completed', created: 1, removed: 1, errors: [] })
})

test('an empty source, or one that cannot be listed, marks nothing as removed', async () => {
  const { put, sync, documents, root, asAdmin, source } = await start()
  await put('sub/a.txt', 'alpha')
  await sync()
  await rm(join(root, 'sub'), { recursive: true })
  expect(await sync()).toMatchObject({ state: 'completed', removed: 0, errors: [{ path: '', code: 'SOURCE_EMPTY' }] })
  await rename(root, `${root}-away`)
  const failed = await sync()
  expect(failed).toMatchObject({ state: 'failed', removed: 0, error: { code: 'SOURCE_NOT_FOUND_THERE' } })
  expect(await asAdmin.sources.get(source.id)).toMatchObject({ status: 'error', last_error: expect.stringContaining('does not exist') })
  await rename(`${root}-away`, root)
  expect([...(await documents()).values()]).toMatchObject([{ metadata: {} }])
  await put('sub/a.txt', 'alpha')
  expect(await sync()).toMatchObject({ state: 'completed', unchanged: 1 })
  expect(await asAdmin.sources.get(source.id)).toMatchObject({ status: 'active', last_error: null })
})

test('one bad file stops no other, and is retried', async () => {
  const { put, sync, documents, root } = await start({}, { 'sources.max_file_size': '10B' })
  await put('a.txt', 'alpha')
  await put('empty.txt', '')
  await put('huge.txt', 'more than ten bytes')
  await put('z.txt', 'zeta')
  await symlink('/etc/passwd', join(root, 'link.txt'))
  await symlink('/etc', join(root, 'links'))
  expect(await sync()).toMatchObject({
    state: 'completed',
    created: 2,
    skipped: 2,
    failed: 0,
    total: 4,
    errors: expect.arrayContaining([
      expect.objectContaining({ path: 'empty.txt', code: 'FILE_EMPTY' }),
      expect.objectContaining({ path: 'huge.txt', code: 'FILE_TOO_LARGE' }),
    ]),
  })
  expect([...(await documents()).keys()].sort()).toEqual(['a.txt', 'z.txt'])
  await put('empty.txt', 'not now')
  expect(await sync()).toMatchObject({ created: 1, unchanged: 2, skipped: 1 })
})

test.skipIf(process.getuid?.() === 0)('what may not be read fails, and nothing below such a folder is taken for removed', async () => {
  const { put, sync, root } = await start()
  await put('a.txt', 'alpha')
  await put('shut/b.txt', 'beta')
  await sync()
  await chmod(join(root, 'shut'), 0)
  onTestFinished(() => chmod(join(root, 'shut'), 0o700))
  expect(await sync()).toMatchObject({ failed: 1, removed: 0, unchanged: 1, errors: [{ path: 'shut', code: 'SOURCE_FORBIDDEN' }] })
})

test('all names are kept; those that are not text are reported', async () => {
  const { put, sync, documents, root } = await start()
  const names = ['ä é 漢字 🙂.txt', 'a%2e%2e#?.txt', '-rf', '.hidden', 'q\'uo"te.txt', '..x', 'CON', `${'n'.repeat(200)}.txt`]
  for (const name of names) await put(name, name)
  await writeFile(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x62, 0xff, 0x64])]), 'not text')
  await writeFile(join(root, 'two\nlines'), 'control')
  const status = await sync()
  expect(status).toMatchObject({ created: names.length, failed: 2 })
  expect([...(await documents()).keys()].sort()).toEqual([...names].sort())
  expect(await sync()).toMatchObject({ unchanged: names.length, created: 0, removed: 0 })
})

test('patterns match in any case, and files that they no longer match are not marked as removed', async () => {
  const { put, sync, documents, asAdmin, source } = await start({ file_patterns: ['*.PDF', 'in/**/*.{txt,md}', '!**/private/**'] })
  for (const path of ['a.pdf', 'x/y/b.Pdf', 'in/c.txt', 'in/d/e.md', 'out/c.txt', 'in/private/f.md', 'g.txt']) await put(path, path)
  expect(await sync()).toMatchObject({ created: 4, total: 4 })
  expect([...(await documents()).keys()].sort()).toEqual(['a.pdf', 'in/c.txt', 'in/d/e.md', 'x/y/b.Pdf'])
  await asAdmin.sources.update(source.id, { file_patterns: ['*.txt'] })
  expect(await sync()).toMatchObject({ created: 2, unchanged: 1, removed: 0 })
  expect([...(await documents()).values()].filter(({ metadata }) => 'source_removed_at' in metadata)).toEqual([])
})

test('not recursive: files of the folder only', async () => {
  const { put, sync, documents } = await start({ recursive: false })
  await put('a.txt', 'alpha')
  await put('sub/b.txt', 'beta')
  expect(await sync()).toMatchObject({ created: 1, total: 1 })
  expect([...(await documents()).keys()]).toEqual(['a.txt'])
})

test('409 SOURCE_SYNC_IN_PROGRESS with the job while one waits or runs; ten at once are one', async () => {
  const { asAdmin, source, put, runJobs, app } = await start()
  await put('a.txt', 'alpha')
  const answers = await Promise.allSettled(Array.from({ length: 10 }, () => asAdmin.sources.sync(source.id)))
  const good = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
  const bad = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
  expect(good).toHaveLength(1)
  expect(bad).toHaveLength(9)
  for (const error of bad)
    expect(error).toMatchObject({ status: 409, code: 'SOURCE_SYNC_IN_PROGRESS', details: { job_id: good[0]?.job_id } })
  expect(await asAdmin.sources.syncStatus(source.id)).toMatchObject({ state: 'queued', job_id: good[0]?.job_id, started_at: null })
  await runJobs(['sync'])
  expect(await asAdmin.sources.syncStatus(source.id)).toMatchObject({ state: 'completed', job_id: good[0]?.job_id, created: 1 })
  await withLock(app.database, lockName(source.id), 0, async () => {
    expect(await asAdmin.sources.get(source.id)).toMatchObject({ status: 'syncing' })
    await expect(asAdmin.sources.sync(source.id)).rejects.toMatchObject({ code: 'SOURCE_SYNC_IN_PROGRESS' })
  })
  const next = await asAdmin.sources.sync(source.id)
  // A worker holds the source a moment before its run begins: the run before is not how this one ended.
  await withLock(app.database, lockName(source.id), 0, async () => {
    expect(await asAdmin.sources.syncStatus(source.id)).toMatchObject({ state: 'queued', job_id: next.job_id, created: 0 })
  })
})

test('a sync whose process is gone fails with the reason', async () => {
  const { app, asAdmin, source } = await start()
  await beginRun(app, source.id, crypto.randomUUID())
  await app.db.updateTable('source_syncs').set({ current_file: 'a.txt' }).execute()
  expect(await asAdmin.sources.syncStatus(source.id)).toMatchObject({
    state: 'failed',
    current_file: null,
    error: { code: 'INTERRUPTED', message: 'The sync was interrupted.' },
  })
})

test('cancel: a waiting or running sync ends, synced files stay, the next sync continues', async () => {
  const { asAdmin, source, put, runJobs, documents, sync } = await start()
  for (let file = 0; file < 250; file++) await put(`${file}.txt`, `file ${file}`)
  await expect(asAdmin.sources.cancelSync(source.id)).rejects.toMatchObject({ status: 409, code: 'CONFLICT' })
  const { job_id } = await asAdmin.sources.sync(source.id)
  expect(await asAdmin.sources.cancelSync(source.id)).toMatchObject({ job_id })
  expect(await asAdmin.sources.syncStatus(source.id)).toMatchObject({ state: 'idle' })

  await asAdmin.sources.sync(source.id)
  const running = runJobs(['sync'])
  for (let status = await asAdmin.sources.syncStatus(source.id); status.created === 0; )
    status = await asAdmin.sources.syncStatus(source.id)
  await asAdmin.sources.cancelSync(source.id)
  const asked = performance.now()
  await running
  expect(performance.now() - asked).toBeLessThan(20_000)
  const cancelled = await asAdmin.sources.syncStatus(source.id)
  expect(cancelled.state).toBe('cancelled')
  expect((await documents()).size).toBe(cancelled.created)
  expect(await sync()).toMatchObject({ created: 250 - cancelled.created, unchanged: cancelled.created })
})

test('the schedule queues due syncs once; after failures it waits longer each time', async () => {
  const { app, asAdmin, source, runJobs, later, root, put } = await start({ sync_interval: 600 })
  const { enqueueDueSyncs } = await import('../../src/sources/sync/run-records.ts')
  const jobs = () => app.db.selectFrom('jobs').select('id').where('kind', '=', 'sync').where('status', '=', 'pending').execute()
  await put('a.txt', 'alpha')
  await Promise.all([enqueueDueSyncs(app), enqueueDueSyncs(app), enqueueDueSyncs(app)])
  expect(await jobs()).toHaveLength(1)
  await runJobs(['sync'])
  expect(await asAdmin.sources.syncStatus(source.id)).toMatchObject({ state: 'completed', created: 1 })
  await enqueueDueSyncs(app)
  expect(await jobs()).toHaveLength(0)
  await later(601_000)
  await enqueueDueSyncs(app)
  expect(await jobs()).toHaveLength(1)
  await rename(root, `${root}-away`)
  onTestFinished(() => rm(`${root}-away`, { recursive: true, force: true }))
  const waits: number[] = []
  for (let failure = 0; failure < 3; failure++) {
    await runJobs(['sync'])
    const { next_sync, status } = await asAdmin.sources.get(source.id)
    expect(status).toBe('error')
    const wait = Math.round((new Date(next_sync ?? '').getTime() - app.now().getTime()) / 1000)
    waits.push(wait)
    await later(wait * 1000 + 1000)
    await enqueueDueSyncs(app)
  }
  expect(waits.map((wait) => Math.round(wait / 60))).toEqual([10, 20, 40])
  const notifications = await Array.fromAsync(asAdmin.notifications.list())
  expect(notifications.map(({ type }) => type)).toEqual(['sync_failed', 'sync_completed'])
  await asAdmin.sources.update(source.id, { status: 'disabled' })
  await runJobs(['sync'])
  await later(3_600_000)
  await enqueueDueSyncs(app)
  expect(await jobs()).toHaveLength(0)
  await expect(asAdmin.sources.sync(source.id)).rejects.toMatchObject({ status: 409, code: 'CONFLICT' })
})

test('sync_progress is sent while files arrive, and at the end with all of them', async () => {
  const { put, sync, app, source, admin } = await start()
  for (let file = 0; file < 50; file++) await put(`${file}.txt`, `file ${file}`)
  await sync()
  const events = await app.db.selectFrom('events').selectAll().where('type', '=', 'sync_progress').orderBy('seq').execute()
  expect(events.at(-1)).toMatchObject({
    user_id: admin.id,
    data: { source_id: source.id, processed: 50, total: 50, current_file: null },
  })
  const done = events.map(({ data }) => (data as { processed: number }).processed)
  expect([...done].sort((a, b) => a - b)).toEqual(done)
})

test('two names of one file are two documents with equal bytes', async () => {
  const { put, root, sync, document } = await start()
  await put('a.txt', 'alpha')
  await link(join(root, 'a.txt'), join(root, 'b.txt'))
  expect(await sync()).toMatchObject({ created: 2 })
  const [a, b] = [await document('a.txt'), await document('b.txt')]
  expect([a.duplicate_of, b.duplicate_of].filter((id) => id !== null)).toHaveLength(1)
})

test('a store that refuses a file leaves no open file of the source behind', async () => {
  const { app, put, root, sync } = await start()
  await put('a.txt', 'alpha')
  const refuse = vi.spyOn(app.files, 'stage').mockRejectedValue(new AppError('STORAGE_UNAVAILABLE'))
  await sync()
  refuse.mockRestore()
  const open = await Promise.all((await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  expect(open.filter((path) => path.startsWith(root))).toEqual([])
})

test('a sync ends when its source is disabled, and starts again when the choice of files changes', async () => {
  const { asAdmin, source, put, sync } = await start()
  await put('a.txt', 'alpha')
  await put('b.md', 'beta')
  const { id } = source
  await asAdmin.sources.sync(id)
  await asAdmin.sources.update(id, { name: 'Renamed' })
  expect(await stateOf(asAdmin, id)).toBe('queued')
  await asAdmin.sources.update(id, { status: 'disabled' })
  expect(await stateOf(asAdmin, id)).not.toBe('queued')
  await asAdmin.sources.update(id, { status: 'active' })
  await asAdmin.sources.sync(id)
  await asAdmin.sources.update(id, { file_patterns: ['*.md'] })
  expect(await stateOf(asAdmin, id)).not.toBe('queued')
  expect(await sync()).toMatchObject({ state: 'completed', created: 1 })
})

/** Leaves a copy as a run leaves it that is interrupted before it decides whether the file was moved. */
async function startWithPendingMove() {
  const started = await start()
  const { app, put, sync, source } = started
  await put('a.txt', 'alpha')
  await sync()
  await put('b.txt', 'alpha')
  await sync()
  const copy = <T extends { where(column: 'source_id' | 'path', operator: '=', value: string): T }>(query: T) =>
    query.where('source_id', '=', source.id).where('path', '=', 'b.txt')
  const { document_id } = await copy(app.db.selectFrom('source_files').select('document_id')).executeTakeFirstOrThrow()
  await copy(
    app.db.updateTable('source_files').set({ outcome: 'moving', document_id: null, run_id: randomUUID(), seen_by: randomUUID() }),
  ).execute()
  await app.db.deleteFrom('documents').where('id', '=', document_id).execute()
  return started
}

test('a copy that an interrupted sync took for a move becomes a document in the next sync, though nothing has changed', async () => {
  const { sync, documents } = await startWithPendingMove()
  expect([...(await documents()).keys()]).toEqual(['a.txt'])
  await sync()
  expect([...(await documents()).keys()].sort()).toEqual(['a.txt', 'b.txt'])
})

test('a copy that an interrupted sync took for a move stays out if patterns exclude it now, and comes in without them', async () => {
  const { asAdmin, source, sync, documents } = await startWithPendingMove()
  await asAdmin.sources.update(source.id, { file_patterns: ['!b.*'] })
  expect(await sync()).toMatchObject({ state: 'completed', created: 0, updated: 0 })
  expect(await sync()).toMatchObject({ state: 'completed', created: 0, updated: 0 })
  expect([...(await documents()).keys()]).toEqual(['a.txt'])
  await asAdmin.sources.update(source.id, { file_patterns: [] })
  await sync()
  expect([...(await documents()).keys()].sort()).toEqual(['a.txt', 'b.txt'])
})

test('the tag of a folder that was not entered stays, with those below it', async () => {
  const { app, source } = await start()
  const tag = (path: string) => ({ source_id: source.id, path, etag: path, next_etag: null, seen_by: randomUUID() })
  await app.db.insertInto('source_folders').values(['', 'a', 'b', 'b/c', 'bc'].map(tag)).execute()
  const turn = { id: randomUUID(), holder: randomUUID() }
  await app.db.transaction().execute(async (trx) => {
    await folderTags.recordTags(trx, source.id, turn, new Map([['', 'new']]))
    await ledger.markSeenBelow(trx, source.id, turn, 'b')
    await folderTags.commitTags(trx, source.id, turn, [])
  })
  const left = await app.db.selectFrom('source_folders').select(['path', 'etag']).orderBy('path').execute()
  expect(left.map(({ path, etag }) => [path, etag])).toEqual([
    ['', 'new'],
    ['b', 'b'],
    ['b/c', 'b/c'],
  ])
})
