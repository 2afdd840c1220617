import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { Busy, withLock } from '../../src/db/lock.ts'
import { verify } from '../../src/search/verify.ts'
import { rotateKey } from '../../src/sources/credentials.ts'
import { lockName } from '../../src/sources/sync/run-records.ts'
import { startApp } from '../support/app.ts'
import { makeFolder } from '../support/data/source-folder.ts'

const dav = { name: 'Cloud', type: 'webdav', url: 'http://127.0.0.1:9/dav/', username: 'ana', password: 'Zebra-77-crossing' } as const

async function startFolder() {
  const folder = await makeFolder()
  return { ...folder, ...(await startApp({ 'sources.local_roots': folder.root })) }
}

test('201, 200, 204: created, shown, changed and removed; never with username or password', async () => {
  const { asAda, ada, app } = await startApp()
  const source = await asAda.sources.create({ ...dav, file_patterns: ['*.pdf'] })
  expect(source).toEqual({
    id: expect.any(String),
    owner_id: ada.id,
    name: 'Cloud',
    type: 'webdav',
    url: dav.url,
    has_credentials: true,
    status: 'active',
    last_sync: null,
    next_sync: expect.any(String),
    last_error: null,
    document_count: 0,
    sync_interval: 3600,
    recursive: true,
    split: null,
    file_patterns: ['*.pdf'],
    created_at: expect.any(String),
    updated_at: expect.any(String),
  })
  expect([source.updated_at, source.next_sync]).toEqual([source.created_at, source.created_at])
  expect(await asAda.sources.list()).toEqual([source])
  expect(await asAda.sources.get(source.id)).toEqual(source)
  expect(await asAda.sources.update(source.id, { name: 'Other', sync_interval: 0 })).toMatchObject({
    name: 'Other',
    sync_interval: 0,
    next_sync: null,
    has_credentials: true,
    file_patterns: ['*.pdf'],
  })
  const { rows } = await sql<{ all: string }>`select to_jsonb(s)::text as all from sources s`.execute(app.db)
  expect(JSON.stringify(rows)).not.toMatch(/Zebra|ana/)
  await asAda.sources.delete(source.id)
  await expect(asAda.sources.get(source.id)).rejects.toMatchObject({ status: 404, code: 'SOURCE_NOT_FOUND' })
})

test.each(['error', 'syncing'] as const)('200: a source that is sent back as it was read with status %s keeps it', async (status) => {
  const { asAda, app } = await startApp()
  const { id } = await asAda.sources.create(dav)
  const send = async () => asAda.call('PUT', `/api/sources/${id}`, { ...(await asAda.sources.get(id)), name: 'Renamed' })
  const sent =
    status === 'error' ? app.db.updateTable('sources').set({ status }).execute().then(send) : withLock(app.database, lockName(id), 0, send)
  expect(await sent).toMatchObject({ name: 'Renamed', status, has_credentials: true })
})

test('200: an active source that is sent back as it was read is not synced earlier than planned, and lists no more folders', async () => {
  const { asAda, app } = await startApp()
  const { id } = await asAda.sources.create({ ...dav, file_patterns: ['*.pdf'] })
  const planned = new Date(app.now().getTime() + 1_800_000)
  await app.db.updateTable('sources').set({ next_sync: planned }).execute()
  await app.db.insertInto('source_folders').values({ source_id: id, path: 'sub', etag: 'x', next_etag: 'x' }).execute()
  const asRead = await asAda.sources.get(id)
  expect(asRead).toMatchObject({ status: 'active', next_sync: planned.toISOString() })
  expect(await asAda.call('PUT', `/api/sources/${id}`, { ...asRead, name: 'Renamed' })).toMatchObject({ next_sync: asRead.next_sync })
  expect(await app.db.selectFrom('source_folders').select('path').execute()).toHaveLength(1)
  await asAda.sources.update(id, { status: 'disabled' })
  expect(Date.parse(String((await asAda.sources.update(id, { status: 'active' })).next_sync))).toBeLessThan(planned.getTime())
})

test('404 SOURCE_NOT_FOUND for sources of others; admins see all', async () => {
  const { asAda, asBob, asAdmin } = await startApp()
  const { id } = await asAda.sources.create(dav)
  const missing = { status: 404, code: 'SOURCE_NOT_FOUND' }
  expect(await asBob.sources.list()).toEqual([])
  for (const ask of [
    () => asBob.sources.get(id),
    () => asBob.sources.update(id, { name: 'mine' }),
    () => asBob.sources.delete(id),
    () => asBob.sources.test(id),
    () => asBob.sources.sync(id),
    () => asBob.sources.syncStatus(id),
    () => asBob.sources.cancelSync(id),
    () => asBob.sources.rollback(id, { before: '2020-01-01' }),
    () => asBob.sources.get('nonsense'),
  ])
    await expect(ask()).rejects.toMatchObject(missing)
  expect(await asAdmin.sources.list()).toMatchObject([{ id, name: 'Cloud' }])
  await expect(asBob.sources.create({ ...dav, owner: 'ada' })).rejects.toMatchObject({ status: 403 })
  expect(await asAdmin.sources.create({ ...dav, owner: 'bob' })).toMatchObject({ owner_id: (await asBob.auth.profile()).id })
})

test('400 VALIDATION_ERROR with the field', async () => {
  const { asAda, asAdmin, root } = await startFolder()
  const path = async (fields: object) => {
    const failure = await asAda.sources.create({ ...dav, ...fields } as never).then(
      () => null,
      (error) => error,
    )
    expect(failure).toMatchObject({ status: 400, code: 'VALIDATION_ERROR' })
    return failure.details.issues.map((issue: { path: string }) => issue.path)
  }
  expect(await path({ name: ' ' })).toEqual(['name'])
  expect(await path({ type: 'ftp' })).toEqual(['type'])
  expect(await path({ sync_interval: 59 })).toEqual(['sync_interval'])
  expect(await path({ sync_interval: -1 })).toEqual(['sync_interval'])
  expect(await path({ url: '' })).toEqual(['url'])
  for (const url of ['ftp://example.org/', 'nonsense', 'file:///etc/', 'http://u:p@127.0.0.1/'])
    expect(await path({ url })).toEqual(['url'])
  expect(await path({ url: 'nonsense', file_patterns: ['{a'] })).toEqual(['url', 'file_patterns.0'])
  expect(await path({ file_patterns: ['*.pdf', '{a', '!'] })).toEqual(['file_patterns.1', 'file_patterns.2'])
  expect(await path({ file_patterns: ['{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}'] })).toEqual(['file_patterns.0'])
  expect(await path({ file_patterns: Array.from({ length: 101 }, () => '*') })).toEqual(['file_patterns'])
  const { id } = await asAda.sources.create(dav)
  await expect(asAda.sources.update(id, { type: 's3' })).rejects.toMatchObject({ details: { issues: [{ path: 'type' }] } })
  for (const url of ['/etc', `${root}/../x`, '/', 'relative', `${root}-other`, 'file:///etc'])
    await expect(asAdmin.sources.create({ name: 'x', type: 'local_folder', url })).rejects.toMatchObject({
      details: { issues: [{ path: 'url' }] },
    })
})

test('403 FORBIDDEN for users: creating, testing and changing sources of server folders', async () => {
  const { asAda, asAdmin, root, put } = await startFolder()
  const folder = { name: 'Folder', type: 'local_folder', url: root } as const
  await put('a.txt', 'alpha')
  await expect(asAda.sources.create(folder)).rejects.toMatchObject({ status: 403, code: 'FORBIDDEN' })
  await expect(asAda.sources.testAddress(folder)).rejects.toMatchObject({ status: 403 })
  const { id } = await asAdmin.sources.create({ ...folder, owner: 'ada' })
  await expect(asAda.sources.update(id, { url: `${root}/sub` })).rejects.toMatchObject({ status: 403 })
  expect(await asAda.sources.update(id, { name: 'Mine' })).toMatchObject({ name: 'Mine' })
  expect(await asAda.sources.test(id)).toEqual({
    ok: true,
    checks: [
      { name: 'folder', ok: true, message: expect.any(String) },
      { name: 'listing', ok: true, message: expect.any(String) },
    ],
    sample: ['a.txt'],
  })
})

test('a test reports what does not work', async () => {
  const { asAdmin, root } = await startFolder()
  const missing = await asAdmin.sources.testAddress({ type: 'local_folder', url: `${root}/none` })
  expect(missing).toMatchObject({
    ok: false,
    checks: [{ name: 'folder', ok: false, message: expect.stringContaining('does not exist') }],
    sample: [],
  })
  expect(await asAdmin.sources.testAddress({ type: 'local_folder', url: '/etc' })).toMatchObject({
    ok: false,
    checks: [{ name: 'address', ok: false }],
  })
})

test('a password is kept if none is given, and never sent to another server', async () => {
  const { asAda, app } = await startApp()
  const { id } = await asAda.sources.create(dav)
  const sealed = async () =>
    (await app.db.selectFrom('sources').select('credentials').where('id', '=', id).executeTakeFirstOrThrow()).credentials
  const before = await sealed()
  expect(await asAda.sources.update(id, { url: 'http://127.0.0.1:9/dav/other/' })).toMatchObject({ has_credentials: true })
  expect(await sealed()).toEqual(before)
  expect(await asAda.sources.update(id, { url: 'http://127.0.0.1:10/dav/' })).toMatchObject({ has_credentials: false })
  expect(await sealed()).toBeNull()
  expect(await asAda.sources.update(id, { username: 'ana', password: 'again' })).toMatchObject({ has_credentials: true })
  expect(await asAda.sources.update(id, { username: null, password: null })).toMatchObject({ has_credentials: false })
})

test('the key of credentials is a separate file; a new one also opens old secrets, a wrong one opens none', async () => {
  const { asAda, app, dataDir } = await startApp()
  const { decryptCredentials } = await import('../../src/sources/credentials.ts')
  const { id } = await asAda.sources.create(dav)
  const file = join(dataDir, 'sources_key')
  const opened = async () => {
    const { credentials } = await app.db.selectFrom('sources').select('credentials').where('id', '=', id).executeTakeFirstOrThrow()
    return decryptCredentials(app, id, credentials)
  }
  const known = { username: 'ana', password: dav.password }
  expect(await opened()).toEqual(known)
  const old = await readFile(file, 'utf8')
  expect(await rotateKey(app, null)).toBe(1)
  const fresh = await readFile(file, 'utf8')
  expect(fresh).not.toBe(old)
  expect(fresh.trim().split('\n')).toHaveLength(1)
  expect(await opened()).toEqual(known)
  await writeFile(file, old)
  await expect(opened()).rejects.toMatchObject({ code: 'SOURCE_UNAUTHORIZED' })
  await expect(rotateKey(app, null)).rejects.toThrow(`source "${dav.name}"`)
  expect(await rotateKey(app, fresh)).toBe(1)
  expect(await opened()).toEqual(known)
  // Sealed for one source, it opens in no other.
  const { credentials } = await app.db.selectFrom('sources').select('credentials').where('id', '=', id).executeTakeFirstOrThrow()
  await expect(decryptCredentials(app, '01a1fe62-9fd3-722c-9957-6c4d275084d9', credentials)).rejects.toMatchObject({
    code: 'SOURCE_UNAUTHORIZED',
  })
})

test('400: credentials of another key are replaced together or not at all', async () => {
  const { asAda, app, dataDir } = await startApp()
  const { id } = await asAda.sources.create(dav)
  const file = join(dataDir, 'sources_key')
  const old = await readFile(file, 'utf8')
  await writeFile(file, randomBytes(32).toString('base64'))
  for (const [changes, field] of [
    [{ username: 'ben' }, 'password'],
    [{ password: 'other' }, 'username'],
  ] as const)
    await expect(asAda.sources.update(id, changes)).rejects.toMatchObject({ status: 400, details: { issues: [{ path: field }] } })
  await asAda.sources.update(id, { sync_interval: 7200 })
  await writeFile(file, old)
  const opened = async () => {
    const { credentials } = await app.db.selectFrom('sources').select('credentials').where('id', '=', id).executeTakeFirstOrThrow()
    return (await import('../../src/sources/credentials.ts')).decryptCredentials(app, id, credentials)
  }
  expect(await opened()).toEqual({ username: 'ana', password: dav.password })
  await writeFile(file, randomBytes(32).toString('base64'))
  expect(await asAda.sources.update(id, { username: 'ben', password: 'other' })).toMatchObject({ has_credentials: true })
  expect(await opened()).toEqual({ username: 'ben', password: 'other' })
})

test('a rotation of the key is refused while another one runs', async () => {
  const { asAda, app, dataDir } = await startApp()
  await asAda.sources.create(dav)
  const read = () => readFile(join(dataDir, 'sources_key'), 'utf8')
  const before = await read()
  await withLock(app.database, 'sources.rotate-key', 0, () => expect(rotateKey(app, null)).rejects.toThrow(Busy))
  expect(await read()).toBe(before)
  expect(await rotateKey(app, null)).toBe(1)
})

test('documents whose source is removed have a new ETag, and no search finds them by the source', async () => {
  const { asAdmin, root, put, runJobs, app } = await startFolder()
  await put('a.txt', 'alpha')
  const source = await asAdmin.sources.create({ name: 'Folder', type: 'local_folder', url: root })
  await asAdmin.sources.sync(source.id)
  await runJobs(['sync', 'ocr', 'index'])
  const [{ id } = { id: '' }] = (await asAdmin.documents.page()).data
  const etag = async () => (await asAdmin.send('GET', `/api/documents/${id}`)).headers.get('etag')
  const before = await etag()
  const { seq } = await app.db
    .selectFrom('events')
    .select(({ fn }) => fn.max('seq').as('seq'))
    .executeTakeFirstOrThrow()
  await asAdmin.sources.delete(source.id)
  expect(await etag()).not.toBe(before)
  const events = await app.db.selectFrom('events').select(['type', 'data']).where('seq', '>', seq).execute()
  expect(events).toContainEqual({ type: 'document_updated', data: { document_id: id, changes: ['source_id'] } })
  await runJobs(['index'])
  expect(await Array.fromAsync(verify(app, { sample: 100 }))).toEqual([])
})

test('documents stay when their source is removed, unless they are to be deleted with it', async () => {
  const { asAdmin, root, put, runJobs, app } = await startFolder()
  await put('a.txt', 'alpha')
  await put('b.txt', 'beta')
  const make = async () => {
    const source = await asAdmin.sources.create({ name: 'Folder', type: 'local_folder', url: root })
    await asAdmin.sources.sync(source.id)
    await runJobs(['sync'])
    return source.id
  }
  const total = async () => (await asAdmin.documents.page()).pagination.total
  await asAdmin.sources.delete(await make())
  expect(await total()).toBe(2)
  expect((await asAdmin.documents.page()).data.map(({ source_id }) => source_id)).toEqual([null, null])
  const second = await make()
  expect(await total()).toBe(4)
  await asAdmin.sources.delete(second, { documents: 'delete' })
  expect(await total()).toBe(2)
  expect((await asAdmin.trash.page()).data.map(({ filename }) => filename).sort()).toEqual(['a.txt', 'b.txt'])
  await runJobs(['maintenance'])
  expect(await app.db.selectFrom('stored_files').selectAll().execute()).toHaveLength(2)
})
