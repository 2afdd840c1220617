/** The check `versions`: documents and their versions agree. */
import { rename, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { check, type Finding } from '../../../src/check/check.ts'
import { addressOf } from '../../../src/documents/stored-files.ts'
import { moveToTrash } from '../../../src/documents/trash/trash.ts'
import { startApp, upload } from '../../support/app.ts'
import { replace } from '../../support/data/versions.ts'
import { storeFiles } from '../../support/servers/server.ts'
import { storedPath } from '../../support/stored-path.ts'

async function start() {
  const { app, asAda, runJobs, dataDir, setProcessClock } = await startApp()
  const find = async ({ repair = false } = {}): Promise<Finding[]> => {
    const found: Finding[] = []
    const signal = new AbortController().signal
    await check(app, { only: ['files', 'checksums', 'orphans', 'versions'], repair, sample: 1, signal, onProgress() {} }, (one) =>
      found.push(one),
    )
    return found
  }
  const add = async (text: string) => {
    const { id, sha256 } = await upload(asAda, 'note.txt', text)
    await runJobs()
    return { id, sha256 }
  }
  return { app, asAda, find, add, runJobs, dataDir, setProcessClock }
}

test('a document whose current version is not recorded: --repair records it, and its file is no orphan', async () => {
  const { app, asAda, find, add } = await start()
  const { id } = await add('The harbour is closed')
  await sql`delete from document_versions where document_id = ${id}`.execute(app.db)
  const missing = expect.objectContaining({ check: 'versions', severity: 'error', document_id: id, version: 1, repaired: null })
  expect(await find()).toContainEqual(missing)
  expect(await find({ repair: true })).toContainEqual(expect.objectContaining({ document_id: id, repaired: 'recorded' }))
  expect(await find()).toEqual([])
  expect(await (await asAda.documents.download(id)).text()).toBe('The harbour is closed')
})

test('a document with another file than its current version, and with a number that would be given again', async () => {
  const { app, find, add } = await start()
  const [one, two] = [await add('The harbour is closed'), await add('The harbour is open')]
  await sql`update documents set sha256 = ${two.sha256}, size = 19 where id = ${one.id}`.execute(app.db)
  const about = { check: 'versions', severity: 'error', document_id: one.id, version: 1 }
  const fix = `dms documents restore ${one.id} --version 1`
  expect(await find({ repair: true })).toEqual([
    expect.objectContaining({ ...about, message: expect.stringContaining(fix), expected: one.sha256, actual: two.sha256, repaired: null }),
  ])
  await sql`update documents set sha256 = ${one.sha256}, size = 21 where id = ${one.id}`.execute(app.db)
  expect(await find()).toEqual([])

  await sql`
    insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at)
    select document_id, 4, sha256, size, mime_type, filename, origin, created_at from document_versions where document_id = ${one.id}`.execute(
    app.db,
  )
  const found = await find({ repair: true })
  expect(found.map(({ severity, version, expected, actual, repaired }) => [severity, version, expected, actual, repaired])).toEqual([
    ['error', 4, 4, 1, null],
    ['error', 4, 4, 1, 'continues after it'],
    ['warning', 4, 0, 0, null],
  ])
  expect((await sql`select last_version from documents where id = ${one.id}`.execute(app.db)).rows).toEqual([{ last_version: 4 }])
})

test('a lost or damaged file of an old version is reported with its number, also in the trash, once for each version', async () => {
  const { app, asAda, find, add, runJobs } = await start()
  const { id, sha256 } = await add('The harbour is closed')
  await replace(asAda, id, 'note.txt', 'The harbour is open')
  await runJobs()
  expect(await find()).toEqual([])
  const path = await storedPath(app, sha256)
  await writeFile(path, 'the harbour is closed')
  const about = { document_id: id, version: 1, sha256, path, severity: 'error', repaired: null }
  const corrupt = expect.objectContaining({ ...about, check: 'checksums', message: expect.stringMatching(/^version 1: .* corrupt/) })
  expect(await find({ repair: true })).toEqual([corrupt])
  await asAda.documents.restore(id, 1)
  await runJobs()
  const current = expect.objectContaining({ ...about, version: 3, message: expect.stringMatching(/^the stored file is corrupt/) })
  expect(await find()).toEqual([corrupt, current])
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, null, [id]))
  await rm(path)
  expect((await find()).map(({ check, version }) => [check, version])).toEqual([
    ['files', 1],
    ['files', 3],
  ])
})

test('--repair moves no file of an old version or of a document in the trash, however old', async () => {
  const { app, asAda, find, add, runJobs, dataDir } = await start()
  const [one, two] = [await add('The harbour is closed'), await add('The lighthouse is dark')]
  await replace(asAda, one.id, 'note.txt', 'The harbour is open')
  await runJobs()
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, null, [two.id]))
  const before = (await storeFiles(dataDir)).named
  expect(before).toHaveLength(3)
  for (const { address } of await app.db.selectFrom('stored_files').select('address').execute())
    await utimes(app.files.describeLocation(address), new Date(0), new Date(0))
  expect(await find({ repair: true })).toEqual([])
  await runJobs()
  expect((await storeFiles(dataDir)).named).toEqual(before)
})

test('a second copy of stored bytes without a row: --repair moves it, and keeps the one that the document has', async () => {
  const { app, asAda, find, add } = await start()
  const { id, sha256 } = await add('The harbour is closed')
  const copy = await app.files.stage(Readable.from([Buffer.from('The harbour is closed')]), 100)
  await copy.commit()
  await copy.confirm()
  for (const address of [copy.address, await addressOf(app.db, sha256)])
    await utimes(app.files.describeLocation(address), new Date(0), new Date(0))
  const path = app.files.describeLocation(copy.address)
  const moved = expect.objectContaining({ check: 'orphans', path, repaired: expect.stringContaining(`.quarantine/${copy.address}`) })
  expect(await find({ repair: true })).toEqual([moved])
  expect(await find()).toEqual([])
  expect(await (await asAda.documents.download(id)).text()).toBe('The harbour is closed')
})

test('--repair keeps the renditions of a store whose volume is lost during the check', async () => {
  const { app, find, add, dataDir } = await start()
  const { id } = await add('The harbour is closed')
  const rendition = await app.files.stage(Readable.from([Buffer.from('%PDF-1.7')]), 100)
  await rendition.commit()
  await rendition.confirm()
  const { sha256, size, address } = rendition
  await app.db.insertInto('stored_files').values({ sha256, size, address }).execute()
  await sql`insert into renditions (document_id, number, kind, state, sha256, size, finished_at)
    values (${id}, 1, 'pdfa', 'completed', ${sha256}, ${size}, now())`.execute(app.db)
  expect(await find()).toEqual([])
  await rename(join(dataDir, 'files'), join(dataDir, 'away'))
  await expect(find({ repair: true })).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
  await rename(join(dataDir, 'away'), join(dataDir, 'files'))
  expect(await find()).toEqual([])
  expect((await sql`select from renditions where sha256 = ${sha256}`.execute(app.db)).rows).toHaveLength(1)
  await rm(app.files.describeLocation(address))
  expect(await find({ repair: true })).toEqual([expect.objectContaining({ check: 'files', document_id: id, repaired: 'removed' })])
  expect((await sql`select from renditions where sha256 = ${sha256}`.execute(app.db)).rows).toHaveLength(0)
})

test('an old version without its pages, and a current one with the text of an old one, which --repair removes', async () => {
  const { app, asAda, find, add, runJobs } = await start()
  const { id } = await add('The harbour is closed')
  await replace(asAda, id, 'note.txt', 'The harbour is open')
  await runJobs()
  await sql`insert into version_pages select document_id, 2, page, text from version_pages where document_id = ${id}`.execute(app.db)
  await sql`delete from version_pages where document_id = ${id} and number = 1`.execute(app.db)
  const found = await find({ repair: true })
  expect(found.map(({ version, expected, actual, repaired }) => [version, expected, actual, repaired])).toEqual([
    [1, 1, 0, null],
    [2, undefined, undefined, 'removed'],
  ])
  expect((await find()).map(({ version, message }) => [version, message])).toEqual([[1, expect.stringContaining('has lost its text')]])
})

test('a file that an upload has just written is no orphan when the clock of the host is two days ahead of the store', async () => {
  const { app, find, setProcessClock } = await start()
  const staged = await app.files.stage(Readable.from([Buffer.from('uploading')]), 100)
  await staged.commit()
  setProcessClock(2 * 86_400_000)
  expect(await find({ repair: true })).toEqual([])
  expect(await app.files.size(staged.address)).toBe(9)
  await utimes(app.files.describeLocation(staged.address), new Date(0), new Date(0))
  expect(await find()).toMatchObject([{ check: 'orphans', sha256: staged.sha256 }])
  await staged.discard()
})
