/** Copies of a database on the document store of the original: only one of the two may use it. */
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { purgeOrphans } from '../../../src/documents/purge.ts'
import { claimStore } from '../../../src/files/database-marker.ts'
import { folderMarkers } from '../../../src/files/folder-markers.ts'
import type { Markers } from '../../../src/ports/file-store.ts'
import { administer } from '../../support/administer.ts'
import { dms, emptyPlace, folder, here, opened, type Place } from '../../support/places.ts'
import { startServed } from '../../support/servers/served.ts'

vi.setConfig({ testTimeout: 120_000 })

const nameOf = ({ databaseUrl }: Place): string => new URL(databaseUrl).pathname.slice(1)

const markerOf = ({ dataDir }: Place): string => join(dataDir, 'files', '.dms-database')

/** Creates an archive with a document, and a copy of its database on the same data folder. */
async function copiedArchive() {
  const original = await emptyPlace()
  expect((await here(original, ['migrate'])).code).toBe(0)
  const admin = ['--username', 'admin', '--email', 'admin@example.org', '--role', 'admin', '--no-password']
  expect((await here(original, ['users', 'add', ...admin])).code).toBe(0)
  const file = join(await folder(), 'invoice.txt')
  await writeFile(file, 'hello')
  const { code, stdout, stderr } = await here(original, ['documents', 'upload', file, '-o', 'id'])
  expect(code, stderr).toBe(0)
  return { original, copy: await copyOf(original), id: stdout.trim() }
}

async function copyOf(original: Place): Promise<Place> {
  const name = `dms_test_${randomUUID().replaceAll('-', '')}`
  const owner = nameOf(original)
  await administer(`create database ${name} template ${owner} owner ${owner} strategy file_copy`)
  onTestFinished(() => administer(`drop database ${name} with (force)`))
  return { ...original, databaseUrl: original.databaseUrl.replace(`/${owner}?`, `/${name}?`) }
}

/** Runs a statement as the superuser in the database of a place. */
async function runAsSuperuser(place: Place, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: inject('databaseUrl').replace('NAME', nameOf(place)) })
  await client.connect()
  await client.query(statement).finally(() => client.end())
}

test('78 for a copy of the database on the store of the original, until storage adopt; then 78 for the original', async () => {
  const { original, copy, id } = await copiedArchive()
  const refused = await dms(copy, ['serve'])
  expect(refused).toMatchObject({ code: 78, stdout: '' })
  expect(refused.stderr).toContain('was last used by another database')
  expect(refused.stderr).toContain('fix: if the other database is not used any more: dms storage adopt')
  for (const args of [['worker'], ['backup', 'create'], ['check'], ['maintenance', 'run']]) {
    const { code, stderr } = await here(copy, args)
    expect([code, stderr], args.join(' ')).toEqual([78, expect.stringContaining('was last used by another database')])
  }
  expect(JSON.parse((await here(copy, ['documents', 'list', '--json'])).stderr)).toMatchObject({
    error: { code: 'CONFIG', details: { fix: expect.stringContaining('dms storage adopt') } },
    exit_code: 78,
  })
  expect((await here(original, ['documents', 'list', '-o', 'id'])).stdout.trim()).toBe(id)

  expect((await here(copy, ['storage', 'adopt'])).code).toBe(2)
  expect((await here(original, ['storage', 'adopt', '--json'])).stdout).toContain('"unchanged"')
  const adopted = await here(copy, ['storage', 'adopt', '--yes', '--json'])
  expect(adopted.code, adopted.stderr).toBe(0)
  const [row] = JSON.parse(adopted.stdout)
  expect(row).toMatchObject({ action: 'adopted', store: 'disk', location: join(original.dataDir, 'files') })
  expect(row.previous).not.toBe(row.database)
  expect(JSON.parse((await here(copy, ['storage', 'adopt', '--json'])).stdout)).toMatchObject([{ action: 'unchanged' }])
  expect((await here(copy, ['documents', 'list', '-o', 'id'])).stdout.trim()).toBe(id)
  const audit = JSON.parse((await here(copy, ['audit', 'list', '--action', 'storage adopt', '--json'])).stdout)
  expect(audit).toMatchObject([{ actor: 'operator', outcome: 'ok', details: { previous: [row.previous], database: row.database } }])

  expect((await here(original, ['documents', 'list'])).code).toBe(78)
  const doctor = JSON.parse((await here(original, ['doctor', '--only', 'storage', '--json'])).stdout)
  expect(doctor.checks).toMatchObject([
    {
      id: 'storage',
      status: 'fail',
      message: expect.stringContaining('another database'),
      fix: expect.stringContaining('dms storage adopt'),
    },
  ])
})

test('a server whose store was adopted by a copy of its database removes no file', async () => {
  const { original, copy, id } = await copiedArchive()
  const { app, asOperator } = await opened(original)
  const document = await asOperator.documents.get(id)
  const path = app.files.describeLocation((await app.db.selectFrom('stored_files').select('address').executeTakeFirstOrThrow()).address)
  expect((await here(copy, ['storage', 'adopt', '--yes'])).code).toBe(0)
  await app.db.deleteFrom('documents').where('id', '=', document.id).execute()
  await expect(purgeOrphans(app)).rejects.toMatchObject({
    code: 'STORAGE_UNAVAILABLE',
    message: expect.stringContaining('another database'),
  })
  expect(existsSync(path)).toBe(true)
  expect((await here(original, ['storage', 'adopt', '--yes'])).code).toBe(0)
  await expect.poll(() => purgeOrphans(app).then(() => existsSync(path)), { timeout: 30_000 }).toBe(false)
})

test('of two databases that start at the same time on a store without a record, one is refused with 78', async () => {
  const { original, copy } = await copiedArchive()
  await rm(markerOf(original))
  const both = await Promise.all([original, copy].map((place) => dms(place, ['documents', 'list'])))
  expect(both.map(({ code }) => code).sort()).toEqual([0, 78])
  const again = await Promise.all([original, copy].map((place) => dms(place, ['documents', 'list'])))
  expect(again.map(({ code }) => code)).toEqual(both.map(({ code }) => code))
})

test('several programs of one database use one store, also after the database was renamed', async () => {
  const { original } = await copiedArchive()
  const marker = await readFile(markerOf(original), 'utf8')
  const all = await Promise.all([1, 2, 3].map(() => here(original, ['documents', 'list'])))
  expect(all.map(({ code }) => code)).toEqual([0, 0, 0])
  expect(await readFile(markerOf(original), 'utf8')).toBe(marker)
  const name = `${nameOf(original)}_moved`
  await administer(`alter database ${nameOf(original)} rename to ${name}`)
  onTestFinished(() => administer(`alter database ${name} rename to ${nameOf(original)}`))
  const renamed = { ...original, databaseUrl: original.databaseUrl.replace(`/${nameOf(original)}?`, `/${name}?`) }
  expect((await here(renamed, ['documents', 'list'])).code).toBe(0)
})

test('a role that may not call pg_control_system() is not checked, and storage adopt is 78', async () => {
  const { copy } = await copiedArchive()
  await runAsSuperuser(copy, 'revoke execute on function pg_control_system() from public')
  const list = await here(copy, ['documents', 'list'])
  expect([list.code, list.stderr]).toEqual([0, ''])
  const adopt = await here(copy, ['storage', 'adopt', '--yes'])
  expect([adopt.code, adopt.stderr]).toEqual([78, expect.stringContaining('grant execute on function pg_control_system()')])
})

test('the record of another archive, which a restore replaced, and a store that cannot be written stop nobody', async () => {
  const { original } = await copiedArchive()
  const marker = await readFile(markerOf(original), 'utf8')
  await writeFile(markerOf(original), `${randomUUID()} 1/1\n`)
  expect((await here(original, ['documents', 'list'])).code).toBe(0)
  expect(await readFile(markerOf(original), 'utf8')).toBe(marker)
  await rm(markerOf(original))
  const { app } = await opened({ ...original })
  await rm(markerOf(original))
  const readOnly: Markers = {
    ...folderMarkers(join(original.dataDir, 'files')),
    write: () => Promise.reject(Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS', syscall: 'open' })),
  }
  await claimStore(app.db, readOnly, app.config)
  expect(existsSync(markerOf(original))).toBe(false)
})

test('the embedded database is the same one at its socket and after an upgrade of its cluster', async () => {
  const { dataDir, remove } = await startServed({ env: { DMS_WORKER_EMBEDDED: 'false' } })
  onTestFinished(remove)
  const [, , , , socketFolder] = (await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')
  const place = { dataDir, databaseUrl: `postgres://dms@localhost/dms?host=${socketFolder}&port=5432` }
  const marker = await readFile(markerOf(place), 'utf8')
  expect(await here(place, ['documents', 'list'])).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse((await here(place, ['storage', 'adopt', '--json'])).stdout)).toMatchObject([{ action: 'unchanged' }])
  expect(await readFile(markerOf(place), 'utf8')).toBe(marker)

  const { app } = await opened(place)
  const [storeId] = marker.split(' ')
  await writeFile(markerOf(place), `${storeId} embedded:1/1\n`)
  expect((await here(place, ['documents', 'list'])).code).toBe(78)
  await claimStore(app.db, folderMarkers(join(dataDir, 'files')), { ...app.config, database: { ...app.config.database, url: '' } })
  expect(await readFile(markerOf(place), 'utf8')).toBe(marker)
  expect((await here(place, ['documents', 'list'])).code).toBe(0)
})
