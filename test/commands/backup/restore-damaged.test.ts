/** Restores of damaged backups: intact files are restored, damaged ones are listed. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { filePath, type Manifest } from '../../../src/backup/manifest.ts'
import { findLostDocuments } from '../../../src/backup/restore/find-lost-documents.ts'
import { startApp, upload } from '../../support/app.ts'
import { archiveOf, consistent, entriesOf, entryOf } from '../../support/data/crafted-backup.ts'
import { connection, emptyPlace, folder, here, opened } from '../../support/places.ts'

const content = 'Harbour fees for 2026'
const flip = (bytes: Buffer, at: number) => bytes.writeUInt8((bytes[at] ?? 0) ^ 1, at)

async function backedUp() {
  const { databaseUrl, dataDir, asAda, asAdmin, app } = await startApp()
  const { id } = await upload(asAda, 'harbour.txt', content)
  const others = [await upload(asAda, 'other.txt', 'Other fees'), await upload(asAda, 'third.txt', 'Third fees')]
  const { sha256 } = await app.db.selectFrom('documents').select('sha256').where('id', '=', id).executeTakeFirstOrThrow()
  const to = await folder()
  const [archive, mirror] = [join(to, 'x.tar'), join(to, 'mirror')]
  const place = { databaseUrl, dataDir }
  await here(place, ['backup', 'create', '--to', archive])
  await here(place, ['backup', 'create', '--format', 'dir', '--to', mirror])
  return { place, id, others: others.map((other) => other.id), sha256, archive, mirror, asAdmin, bytes: await readFile(archive) }
}

interface Restored {
  items: { document_id: string; title: string; filename: string; sha256: string; problem: string; origin: string }[]
  skipped: object[]
}

/** Restores `path` without and with --skip-damaged. Returns the result of the second run and the installation. */
async function restoredWithout(path: string, id: string, others: string[]) {
  const place = await emptyPlace()
  const refused = await here(place, ['restore', path, '-q'])
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/nothing was restored\n +fix: dms restore --skip-damaged/)])
  const { code, stdout } = await here(place, ['restore', path, '-q', '--skip-damaged', '--json'])
  expect(code).toBe(3)
  const { asOperator } = await opened(place)
  expect((await asOperator.documents.get(id)).filename).toBe('harbour.txt')
  expect((await asOperator.send('GET', `/api/documents/${id}/download`)).status).toBe(503)
  for (const other of others) expect((await asOperator.send('GET', `/api/documents/${other}/download`)).status).toBe(200)
  return JSON.parse(stdout) as Restored
}

test('--skip-damaged skips a file with a flipped byte, lists its document, exits 3; without it exit 1 with a hint', async () => {
  const { id, others, sha256, archive, bytes } = await backedUp()
  flip(bytes, bytes.indexOf(content))
  await writeFile(archive, bytes)
  const { items, skipped } = await restoredWithout(archive, id, others)
  expect(items).toEqual([
    { document_id: id, title: 'harbour', filename: 'harbour.txt', version: 1, current: true, sha256, problem: 'corrupt', origin: 'backup' },
  ])
  expect(skipped).toEqual([{ path: filePath(sha256), problem: 'corrupt' }])
})

test('--skip-damaged restores the files after a damaged tar header', async () => {
  const { id, others, archive, bytes, sha256 } = await backedUp()
  flip(bytes, bytes.indexOf(filePath(sha256)) + 20)
  await writeFile(archive, bytes)
  const place = await emptyPlace()
  expect((await here(place, ['restore', archive, '-q'])).code).toBe(1)
  const { code, stdout } = await here(place, ['restore', archive, '-q', '--skip-damaged', '--json'])
  expect([code, (JSON.parse(stdout) as Restored).items]).toEqual([3, [expect.objectContaining({ document_id: id, problem: 'missing' })]])
  const { asOperator } = await opened(place)
  for (const other of others) expect((await asOperator.send('GET', `/api/documents/${other}/download`)).status).toBe(200)
})

test.each(['missing', 'corrupt'])('--skip-damaged restores a folder in which a file is %s', async (problem) => {
  const { id, others, sha256, mirror } = await backedUp()
  const path = join(mirror, filePath(sha256))
  await (problem === 'missing' ? rm(path) : writeFile(path, content.toLowerCase()))
  const { items } = await restoredWithout(mirror, id, others)
  expect(items).toEqual([expect.objectContaining({ document_id: id, problem, origin: 'backup' })])
})

test('--skip-damaged accepts a damaged checksum list if all tables match it; a damaged table is refused', async () => {
  const { id, archive, bytes, sha256 } = await backedUp()
  const list = Buffer.from(bytes)
  flip(list, list.indexOf(`${sha256}  files/`))
  await writeFile(archive, list)
  const { code, stdout } = await here(await emptyPlace(), ['restore', archive, '-q', '--skip-damaged', '--json'])
  expect([code, (JSON.parse(stdout) as Restored).items]).toEqual([3, []])

  const table = Buffer.from(bytes)
  flip(table, table.indexOf('ada@example.org'))
  await writeFile(archive, table)
  const place = await emptyPlace()
  const refused = await here(place, ['restore', archive, '-q', '--skip-damaged'])
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringMatching(/tables\/users\.000001 is corrupt; without it the rows cannot be verified.*nothing was restored/),
  ])
  expect((await (await connection(place)).query(`select from pg_tables where schemaname = 'public'`)).rows).toEqual([])
  expect(id).toBeTruthy()
})

test('refuses a backup with rows of a missing file, or with more rows than its manifest', async () => {
  const { archive, sha256 } = await backedUp()
  const entries = await entriesOf(archive)
  await writeFile(archive, archiveOf(consistent(entries.filter(({ path }) => path !== filePath(sha256)))))
  const refused = await here(await emptyPlace(), ['restore', archive, '-q'])
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(`${filePath(sha256)} is missing`)])
  const { rows } = JSON.parse(entryOf(entries, /^manifest/).bytes.toString()) as { rows: Record<string, number> }
  await writeFile(archive, archiveOf(consistent(entries, { rows: { ...rows, documents: 2 } })))
  const counted = await here(await emptyPlace(), ['restore', archive, '-q'])
  expect([counted.code, counted.stderr]).toEqual([1, expect.stringContaining('the table documents has 3 rows, and should have 2')])
})

test('a restore compares the rows with the list of the store, and asks only for files that the list lacks', async () => {
  const { app, asAda } = await startApp()
  for (const word of ['first', 'second', 'third']) await upload(asAda, `${word}.txt`, word)
  const lost = await app.db.selectFrom('stored_files').select(['sha256', 'address']).orderBy('sha256').offset(1).executeTakeFirstOrThrow()
  await app.files.remove(lost.address)
  const requested: string[] = []
  const size: typeof app.files.size = async (address) => {
    requested.push(address)
    return app.files.size(address)
  }
  const report = { manifest: { damaged: [] } as unknown as Manifest, skipped: [], skipsDamaged: true, signal: new AbortController().signal }
  const find = () => app.db.transaction().execute((trx) => findLostDocuments(trx, { ...app.files, size }, report))
  expect(await find()).toMatchObject([{ sha256: lost.sha256, problem: 'missing', origin: 'backup' }])
  expect(requested).toEqual([lost.address])
})
