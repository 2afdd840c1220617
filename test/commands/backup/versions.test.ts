/** Backups of documents with several versions, in the trash, under retention and under hold. */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { operator } from '../../../src/actor.ts'
import { destroyDocuments } from '../../../src/documents/trash/destroy.ts'
import { moveToTrash } from '../../../src/documents/trash/trash.ts'
import { startApp, upload } from '../../support/app.ts'
import { lockTable, rowsOf, summary } from '../../support/backups.ts'
import { archiveOf, consistent, entriesOf, entryOf } from '../../support/data/crafted-backup.ts'
import { replace } from '../../support/data/versions.ts'
import { begin, connection, emptyPlace, folder, here, opened, type Place } from '../../support/places.ts'
import { storeFiles } from '../../support/servers/server.ts'

const texts = ['First plan of the harbour', 'Second plan', 'Third plan']

/** Starts an installation: a plan with three versions, a letter in the trash with two, and a contract under retention and hold. */
async function filled() {
  const { databaseUrl, dataDir, app, asAda, runJobs } = await startApp()
  const place: Place = { databaseUrl, dataDir }
  const [plan, letter, contract] = [
    await upload(asAda, 'plan.txt', texts[0] ?? ''),
    await upload(asAda, 'letter.txt', 'First letter'),
    await upload(asAda, 'contract.txt', 'The contract'),
  ]
  await runJobs()
  await replace(asAda, letter.id, 'letter.txt', 'Second letter')
  for (const text of texts.slice(1)) {
    await replace(asAda, plan.id, 'plan.txt', text)
    await runJobs()
  }
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, null, [letter.id]))
  await sql`update documents set retain_until = now() + interval '1 year' where id = ${contract.id}`.execute(app.db)
  await sql`
    with hold as (insert into holds (name, name_key) values ('audit', 'audit') returning id)
    insert into hold_documents (hold_id, document_id) select id, ${contract.id} from hold`.execute(app.db)
  return { place, app, asAda, runJobs, plan, letter, contract }
}

const tables = ['documents', 'document_versions', 'document_pages', 'version_pages', 'holds', 'hold_documents', 'labels']

/** Expects that `other` has the rows of `place`, and every version byte for byte with its text. */
async function expectSame(place: Place, other: Place, { plan, letter }: Record<'plan' | 'letter', { id: string }>) {
  for (const table of tables) expect([table, await rowsOf(other, table)]).toEqual([table, await rowsOf(place, table)])
  expect(await here(other, ['check', '--sample', '100%'])).toMatchObject({ code: 0, stdout: '' })
  const { app, asOperator } = await opened(other)
  for (const [index, text] of texts.entries()) {
    expect(await (await asOperator.documents.downloadVersion(plan.id, index + 1)).text()).toBe(text)
    expect(await asOperator.documents.versionText(plan.id, index + 1)).toBe(text)
  }
  const { rows } = await sql<{ address: string }>`
    select address from stored_files join document_versions using (sha256) where document_id = ${letter.id} order by number`.execute(app.db)
  const letters = await Promise.all(rows.map(({ address }) => readFile(app.files.describeLocation(address), 'utf8')))
  expect(letters).toEqual(['First letter', 'Second letter'])
  await expect(sql`delete from documents where id in (select document_id from hold_documents)`.execute(app.db)).rejects.toThrow(/retention/)
}

test('all versions with texts and pages, the trash, retention and holds come back from an archive and a folder', async () => {
  const { place, ...documents } = await filled()
  const to = await folder()
  const [archive, mirror] = [join(to, 'x.tar'), join(to, 'mirror')]
  const created = await here(place, ['backup', 'create', '--to', archive, '--json'])
  const counts = { documents: 3, versions: 6, trashed: 1, files: 6 }
  expect([created.code, summary(created.stdout)]).toMatchObject([0, counts])
  expect((await here(place, ['backup', 'create', '--format', 'dir', '--to', mirror])).code).toBe(0)
  const scratch = ['--work-dir', to, '--to-database', (await emptyPlace()).databaseUrl]
  const rehearsed = await here(place, ['backup', 'rehearse', archive, ...scratch, '--json'])
  expect([rehearsed.code, summary(rehearsed.stdout)]).toMatchObject([0, { ...counts, has_compared_rows: true }])
  for (const path of [archive, mirror]) {
    const other = await emptyPlace()
    expect(summary((await here(other, ['restore', path, '-n', '--json'])).stdout)).toMatchObject(counts)
    const restored = await here(other, ['restore', path, '--json'])
    expect([restored.code, summary(restored.stdout)]).toMatchObject([0, { ...counts, without_file: 0, old_without_file: 0 }])
    await expectSame(place, other, documents)
  }
})

test('the next run of a folder adds the files of new versions and keeps those of old ones', async () => {
  const { place, asAda, plan, runJobs } = await filled()
  const mirror = join(await folder(), 'mirror')
  const stored = async () =>
    (await readdir(join(mirror, 'files'), { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile()).length
  const create = () => here(place, ['backup', 'create', '--format', 'dir', '--to', mirror])
  expect([(await create()).code, await stored()]).toEqual([0, 6])
  await replace(asAda, plan.id, 'plan.txt', 'Fourth plan')
  await runJobs()
  expect([(await create()).code, await stored()]).toEqual([0, 7])
  await asAda.documents.deleteVersion(plan.id, 1)
  await runJobs()
  expect([(await create()).code, await stored()]).toEqual([0, 6])
  const other = await emptyPlace()
  expect((await here(other, ['restore', mirror, '-q'])).code).toBe(0)
  expect(await (await (await opened(other)).asOperator.documents.downloadVersion(plan.id, 2)).text()).toBe(texts[1])
})

test('3 for a lost file of an old version: the restore names document and version, and has all others', async () => {
  const { place, app, plan, asAda } = await filled()
  const [, second] = (await asAda.documents.versions(plan.id)).toReversed()
  const sha256 = second?.sha256 ?? ''
  const { address } = await app.db.selectFrom('stored_files').select('address').where('sha256', '=', sha256).executeTakeFirstOrThrow()
  await rm(app.files.describeLocation(address))
  const archive = join(await folder(), 'x.tar')
  expect((await here(place, ['backup', 'create', '--to', archive])).code).toBe(3)
  const other = await emptyPlace()
  const { code, stdout, stderr } = await here(other, ['restore', archive, '--json'])
  const item = { document_id: plan.id, version: 2, current: false, sha256, problem: 'missing', origin: 'store' }
  expect([code, summary(stdout)]).toMatchObject([3, { without_file: 0, old_without_file: 1, items: [item] }])
  expect(stderr).toContain(`version 2 of document ${plan.id} "plan" (plan.txt) has no file`)
  const checked = await here(other, ['check', '--checks', 'files', '-o', 'json'])
  const message = 'version 2: the stored file is missing: restore it from a backup'
  expect([checked.code, JSON.parse(checked.stdout).items]).toMatchObject([3, [{ document_id: plan.id, version: 2, sha256, message }]])
  const { asOperator } = await opened(other)
  expect((await asOperator.send('GET', `/api/documents/${plan.id}/versions/2/download`)).status).toBe(503)
  expect(await (await asOperator.documents.download(plan.id)).text()).toBe(texts[2])
})

test('an archive without counts of versions is restored, and its documents count as versions', async () => {
  const { place } = await filled()
  const archive = join(await folder(), 'x.tar')
  await here(place, ['backup', 'create', '--to', archive])
  const entries = await entriesOf(archive)
  const bytes = archiveOf(consistent(entries, { versions: undefined, trashed: undefined }))
  expect(entryOf(entries, /head\.json$/).bytes.includes('"versions": 6')).toBe(true)
  await writeFile(archive, bytes)
  const { stdout } = await here(await emptyPlace(), ['restore', archive, '-n', '--json'])
  expect(summary(stdout)).toMatchObject({ documents: 3, versions: 3, trashed: 0 })
})

test('versions and documents that are destroyed while a backup runs are in it; their files are removed afterwards', async () => {
  const { place, app, asAda, plan, letter, runJobs } = await filled()
  const release = await lockTable(place, 'user_settings')
  const archive = join(await folder(), 'x.tar')
  const child = begin(place, ['backup', 'create', '--to', archive])
  const client = await connection(place)
  const snapshots = async () =>
    (
      await client.query(`
        select from pg_stat_activity
        where datname = current_database() and application_name = 'dms backup snapshot' and wait_event_type = 'Lock'`)
    ).rowCount
  await expect.poll(snapshots, { timeout: 20_000 }).toBe(1)
  await asAda.documents.deleteVersion(plan.id, 1)
  await app.db.transaction().execute((trx) => destroyDocuments(app, trx, operator, [letter.id], 'trash_emptied'))
  await runJobs()
  expect((await storeFiles(place.dataDir)).named).toHaveLength(6)
  await release()
  expect(await child.ended).toBe(0)
  const other = await emptyPlace()
  expect(await here(other, ['restore', archive, '--json'])).toMatchObject({ code: 0 })
  const { asOperator } = await opened(other)
  expect(await (await asOperator.documents.downloadVersion(plan.id, 1)).text()).toBe(texts[0])
  expect((await storeFiles(other.dataDir)).named).toHaveLength(6)
  await app.db
    .updateTable('jobs')
    .set({ run_at: new Date(0) })
    .execute()
  await runJobs()
  expect((await storeFiles(place.dataDir)).named).toHaveLength(3)
})
