/** Stored bytes survive failures of connections and disks, and equal files of other users. */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { App } from '../../src/app.ts'
import { localClient } from '../../src/client/local.ts'
import { loadConfig } from '../../src/config/load.ts'
import { purgeOrphans } from '../../src/documents/purge.ts'
import { addressOf } from '../../src/documents/stored-files.ts'
import { openLog } from '../../src/log/log.ts'
import { openApp } from '../../src/open-app.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { startRelay } from '../support/servers/relay.ts'
import { storeFiles } from '../support/servers/server.ts'
import { storedPath } from '../support/stored-path.ts'

/** Starts a second App on the same data, as another process would; it is closed with the test. */
async function secondApp(dataDir: string, settings: Record<string, string | number>): Promise<App> {
  const flags = { data_dir: dataDir, 'log.access': false, 'storage.min_free': 0, ...settings }
  const other = await openApp(loadConfig({ env: {}, flags }).config, openLog({ level: 'silent', format: 'json' }), { migrate: 'never' })
  onTestFinished(() => other.close().catch(() => {}))
  return other
}

const quiet = ({ log }: App) => vi.spyOn(log, 'error').mockImplementation(() => {})

/** Flips one byte, as a disk may. */
async function flip(path: string): Promise<void> {
  const bytes = await readFile(path)
  bytes[0] = (bytes[0] ?? 0) ^ 1
  await writeFile(path, bytes)
}

test('a purge that continues after its connection was lost keeps the bytes of a later upload of the same file', async () => {
  const { app, asAda, databaseUrl, dataDir, runJobs } = await startApp()
  const bytes = 'Harbour fees for 2026'
  const { id } = await upload(asAda, 'a.txt', bytes)
  await runJobs()
  await asAda.documents.delete(id, { permanent: true })
  const relay = await startRelay(databaseUrl)
  const purger = await secondApp(dataDir, { 'database.url': relay.url })
  const remove = purger.files.remove.bind(purger.files)
  const [reached, resumed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  purger.files.remove = async (address) => {
    reached.resolve()
    await resumed.promise
    await remove(address)
  }
  const worker = await startWorker(purger, { queues: ['maintenance'], concurrency: 1, name: 'purger/1' })
  await reached.promise
  await relay.cut()
  // Waits for the server to give up the transaction of the purge, where it has one.
  const again = await upload(asAda, 'a.txt', bytes)
  resumed.resolve()
  await relay.resume()
  await worker.idle().catch(() => {})
  await worker.stop(5000)
  expect(await (await asAda.documents.download(again.id)).text()).toBe(bytes)
  await app.db
    .updateTable('jobs')
    .set({ run_at: new Date(0), lease_until: null })
    .execute()
  await runJobs()
  expect(await (await asAda.documents.download(again.id)).text()).toBe(bytes)
  expect(await app.db.selectFrom('file_removals').selectAll().execute()).toEqual([])
})

test.each(['allow', 'return', 'reject'] as const)(
  'a flipped byte is replaced by the bytes of a new upload of the same owner (on_duplicate=%s), and logged',
  async (on_duplicate) => {
    const { app, asAda, runJobs, dataDir } = await startApp()
    const bytes = 'x'.repeat(2_000_000)
    const { id, sha256 } = await upload(asAda, 'a.txt', bytes)
    const before = await storedPath(app, sha256)
    await flip(before)
    const error = quiet(app)
    const code = await upload(asAda, 'a.txt', bytes, { on_duplicate }).then(
      () => 'stored',
      (failure: { code: string }) => failure.code,
    )
    expect(code).toBe(on_duplicate === 'reject' ? 'DUPLICATE_RESOURCE' : 'stored')
    expect(await (await asAda.documents.download(id)).text()).toBe(bytes)
    expect(error.mock.calls.map(([, message]) => message)).toEqual([expect.stringContaining('damaged')])
    await runJobs(['maintenance'])
    expect((await storeFiles(dataDir)).named).toEqual([sha256])
    await expect(stat(before)).rejects.toThrow('ENOENT')
  },
)

test('a flipped byte is not given to another user who uploads intact bytes', async () => {
  const { app, asAda, asBob, runJobs, dataDir } = await startApp()
  const { id, sha256 } = await upload(asAda, 'a.txt', 'Harbour fees')
  await flip(await storedPath(app, sha256))
  const bobs = await upload(asBob, 'b.txt', 'Harbour fees')
  expect(await (await asBob.documents.download(bobs.id)).text()).toBe('Harbour fees')
  expect(await (await asAda.documents.download(id)).text()).toBe('Harbour fees')
  await runJobs(['maintenance'])
  expect((await storeFiles(dataDir)).named).toEqual([sha256])
})

test('intact bytes of the same owner keep their file', async () => {
  const { app, asAda } = await startApp()
  const bytes = 'y'.repeat(2_000_000)
  const { sha256 } = await upload(asAda, 'a.txt', bytes)
  const address = await addressOf(app.db, sha256)
  await upload(asAda, 'b.txt', bytes)
  expect(await addressOf(app.db, sha256)).toBe(address)
})

test('a thumbnail of one user is rendered again for another user with equal bytes', async () => {
  const { app, asAda, asBob } = await startApp()
  const [hers, his] = [await upload(asAda, 'a.txt', 'the same'), await upload(asBob, 'a.txt', 'the same')]
  const made = vi.spyOn(app.previewer, 'thumbnail')
  const see = async (who: typeof asAda, id: string) => {
    await (await who.send('GET', `/api/documents/${id}/thumbnail`)).arrayBuffer()
    return made.mock.calls.length
  }
  expect([await see(asAda, hers.id), await see(asAda, hers.id), await see(asBob, his.id), await see(asBob, his.id)]).toEqual([1, 1, 2, 2])
})

test('no thumbnail is left of a document that is destroyed while it is drawn, or whose thumbnails cannot be removed at first', async () => {
  const { app, asAda, runJobs } = await startApp()
  const see = async (id: string) => (await asAda.send('GET', `/api/documents/${id}/thumbnail`)).arrayBuffer()
  const derived = () => Array.fromAsync(app.files.listDerived())
  const one = await upload(asAda, 'a.txt', 'one')
  await runJobs()
  const draw = app.previewer.thumbnail.bind(app.previewer)
  vi.spyOn(app.previewer, 'thumbnail').mockImplementationOnce(async (...file) => {
    await asAda.documents.delete(one.id, { permanent: true })
    await runJobs(['maintenance'])
    return draw(...file)
  })
  await see(one.id)
  expect(await derived()).toEqual([])

  const two = await upload(asAda, 'b.txt', 'two')
  await see(two.id)
  expect(await derived()).toHaveLength(1)
  await asAda.documents.delete(two.id, { permanent: true })
  vi.spyOn(app.files, 'removeDerived').mockRejectedValueOnce(new Error('EIO'))
  await expect(purgeOrphans(app)).rejects.toThrow('EIO')
  await purgeOrphans(app)
  expect(await derived()).toEqual([])
})

test('200 for a thumbnail below storage.min_free, which is not stored', async () => {
  const { asAda, ada, databaseUrl, dataDir } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const files = () => readdir(join(dataDir, 'files'), { recursive: true })
  const before = await files()
  const full = await secondApp(dataDir, { 'database.url': databaseUrl, 'storage.min_free': '1000TB' })
  const response = await localClient(full, ada.actor).send('GET', `/api/documents/${id}/thumbnail`)
  expect([response.status, (await response.arrayBuffer()).byteLength > 0]).toEqual([200, true])
  expect(await files()).toEqual(before)
})

test('200 for a thumbnail if the folder of thumbnails is not writable', async () => {
  const { asAda, dataDir } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  await writeFile(join(dataDir, 'files', '.derived'), 'no folder')
  const response = await asAda.send('GET', `/api/documents/${id}/thumbnail`)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/webp'])
  expect(await readdir(join(dataDir, 'files', '.tmp'))).toEqual([])
})

test.each([
  ['stored_files.address', `update stored_files set address = '../../../../etc/passwd'`],
  ['stored_files.address of other bytes', `update stored_files set address = repeat('a', 64) || '.abcdefgh'`],
  ['stored_files.address with more behind', `update stored_files set address = sha256 || '.abcdefgh/../../x'`],
  ['stored_files.address with a line behind', `update stored_files set address = sha256 || E'.abcdefgh\\n'`],
  ['stored_files.sha256', `insert into stored_files (sha256, address, size) values ('../../x', '../../x', 1)`],
  ['file_removals.address', `insert into file_removals (address) values ('../../x')`],
  ['documents.sha256', `update documents set sha256 = '../../x'`],
])('the database refuses what is no address: %s', async (_, statement) => {
  const { app, asAda } = await startApp()
  await upload(asAda, 'a.txt', 'hello')
  await expect(sql.raw(statement).execute(app.db)).rejects.toThrow(/_form|foreign key/)
})

test('a removal does not remove an address that is in use', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { id, sha256 } = await upload(asAda, 'a.txt', 'hello')
  await app.db
    .insertInto('file_removals')
    .values({ address: await addressOf(app.db, sha256) })
    .execute()
  await sql`insert into jobs (kind, queue, payload) values ('purge', 'maintenance', ${JSON.stringify({ sha256 })})`.execute(app.db)
  await runJobs(['maintenance'])
  expect(await (await asAda.documents.download(id)).text()).toBe('hello')
  expect(await app.db.selectFrom('file_removals').selectAll().execute()).toEqual([])
})

test('a stored file that cannot be removed does not keep maintenance from removing the others', async () => {
  const { app, asAda, dataDir } = await startApp()
  for (const text of ['one', 'two', 'three']) {
    const { id } = await upload(asAda, `${text}.txt`, text)
    await asAda.documents.delete(id, { permanent: true })
  }
  const [first] = (await app.db.selectFrom('stored_files').select('address').orderBy('address').execute()).map(({ address }) => address)
  const remove = app.files.remove
  vi.spyOn(app.files, 'remove').mockImplementation(async (address) => {
    if (address === first) throw Object.assign(new Error('EACCES: permission denied, unlink'), { code: 'EACCES', syscall: 'unlink' })
    await remove(address)
  })
  await expect(purgeOrphans(app)).rejects.toThrow('EACCES')
  expect((await storeFiles(dataDir)).named).toEqual([first?.slice(0, 64)])
})
