/** Upgrades the data of every release: restores its backup, and migrates its database. */
import { hash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import type pg from 'pg'
import { describe, expect, test } from 'vitest'
import { operator } from '../../src/actor.ts'
import type { App } from '../../src/app.ts'
import { openSource, readHead } from '../../src/backup/backup-source.ts'
import { openTableCopy } from '../../src/backup/restore/row-writer.ts'
import { localClient } from '../../src/client/local.ts'
import { listMigrations } from '../../src/db/migrate.ts'
import { connection, dms, emptyPlace, opened, type Place } from '../support/places.ts'
import { type Description, describeInstallation } from './describe-installation.ts'
import { listSchema } from './schema-lines.ts'

const fixtures = fileURLToPath(new URL('../fixtures/releases/', import.meta.url))
const releases = await readdir(fixtures)

test('the first release has a fixture', () => {
  expect(releases).toContain('1.0.0-rc.1')
})

describe.each(releases)('data of %s', (release) => {
  const backup = join(fixtures, release, 'backup.tar')
  const read = (name: string) => readFile(join(fixtures, release, name), 'utf8')
  const readContents = async () => JSON.parse(await read('contents.json')) as Description

  test('a restored backup has every document, label, comment, link, user, source, token and audit entry', async () => {
    const place = await emptyPlace()
    expect(await dms(place, ['restore', backup, '-q'])).toMatchObject({ code: 0, stderr: '' })
    const checked = await dms(place, ['check', '--sample', '100%', '-o', 'json'])
    expect([checked.code, JSON.parse(checked.stdout).items]).toEqual([0, []])
    const { app } = await opened(place)
    await expectContents(app, await readContents())
    await expectFirstVersions(app, await readContents())
    await expectFound(app, await readContents())
  }, 120_000)

  test('its migrations create its schema: a migration does not change after its release', async () => {
    const { migrations } = await readHead(await openSource(backup))
    const place = await emptyPlace()
    await migrateTo(place, migrations.at(-1))
    // Before the release of this version: npm run release:fixture
    expect(await listSchema(await connection(place))).toEqual((await read('schema.txt')).trimEnd().split('\n'))
    expect((await listMigrations()).slice(0, migrations.length)).toEqual(migrations)
  }, 120_000)

  test('dms migrate keeps every row and file of its installation', async () => {
    const { migrations } = await readHead(await openSource(backup))
    const place = await emptyPlace()
    await migrateTo(place, migrations.at(-1))
    const client = await connection(place)
    await loadInstallation(place, client, backup)
    expect(await dms(place, ['migrate', '-q'])).toMatchObject({ code: 0, stderr: '' })
    expect(await dms(place, ['migrate', 'check', '-q'])).toMatchObject({ code: 0 })
    expect(await dms(place, ['search', 'reindex', '-q'])).toMatchObject({ code: 0, stderr: '' })
    expect(await dms(place, ['check', '--sample', '100%'])).toMatchObject({ code: 0, stdout: '' })
    const { app } = await opened(place)
    await expectContents(app, await readContents())
    await expectFirstVersions(app, await readContents())
    await expectFound(app, await readContents())
  }, 120_000)

  test('dms migrate down to it and up again keeps every document', async () => {
    const { migrations } = await readHead(await openSource(backup))
    const place = await emptyPlace()
    expect(await dms(place, ['restore', backup, '-q', '--no-reindex'])).toMatchObject({ code: 0, stderr: '' })
    expect(await dms(place, ['migrate', 'down', '--to', migrations.at(-1) ?? '', '-y'])).toMatchObject({ code: 0 })
    expect(await dms(place, ['migrate', '-q'])).toMatchObject({ code: 0, stderr: '' })
    const { app } = await opened(place)
    await expectContents(app, await readContents())
    await expectFirstVersions(app, await readContents())
  }, 120_000)
})

async function migrateTo(place: Place, name = ''): Promise<void> {
  expect(await dms(place, ['migrate', '--to', name, '-q'])).toMatchObject({ code: 0, stderr: '' })
}

/** Copies the rows of a backup into the tables of its version, and its files into a store as the first release wrote it. */
async function loadInstallation({ dataDir }: Place, client: pg.Client, backup: string): Promise<void> {
  const head = await readHead(await openSource(backup))
  const columns = new Map(head.tables.map((table) => [table.name, table.columns]))
  for (const { name } of head.tables) {
    const { rowCount } = await client.query(`select from ${name} limit 1`)
    if (rowCount) await client.query(`truncate ${name} cascade`)
  }
  for await (const { path, bytes } of (await openSource(backup)).entries({ skipsDamaged: false })) {
    const [, table, sha256] = /\/tables\/(\w+)\.\d+$|^files\/.*\/([0-9a-f]{64})$/.exec(path) ?? []
    if (table && bytes) {
      const copy = openTableCopy(client as unknown as pg.PoolClient, table, columns.get(table) ?? [])
      await copy.put(bytes)
      await copy.end()
    }
    if (sha256 && bytes) {
      const { rows } = await client.query<{ address: string }>('select address from stored_files where sha256 = $1', [sha256])
      const folder = join(dataDir, 'files', sha256.slice(0, 2), sha256.slice(2, 4))
      await mkdir(folder, { recursive: true })
      await writeFile(join(folder, rows[0]?.address ?? ''), bytes)
    }
  }
  for (const { name, value, called } of head.sequences) await client.query('select setval($1::regclass, $2, $3)', [name, value, called])
  await writeFile(join(dataDir, 'files/.dms-store'), `${head.store_id}\n`)
}

async function expectContents(app: App, contents: Description): Promise<void> {
  const person = contents.users.find(({ username }) => username === 'ada')
  const asPerson = localClient(app, { id: person?.id ?? '', role: 'user', username: 'ada' })
  const found = await describeInstallation(localClient(app, operator), asPerson)
  // A restore adds an entry.
  const audited = { ...found, audit: found.audit.slice(0, contents.audit.length) }
  // Nobody chose a language, and the default was eng.
  expect(audited).toEqual({ ...contents, settings: { ...contents.settings, ocr_default_language: 'auto' } })
  const sums = await Promise.all(contents.documents.map(({ id }) => hashDownload(app, id)))
  expect(sums).toEqual(contents.documents.map(({ sha256 }) => sha256))
  const audit = await localClient(app, operator).audit.verify()
  expect(audit).toMatchObject({ ok: true, problem: null })
  const credentials = { username: 'ada', password: 'correct horse battery' }
  expect((await localClient(app, null).send('POST', '/api/auth/login', credentials)).status).toBe(200)
}

/** Expects one version of every document, with its file and text, and none in the trash. */
async function expectFirstVersions(app: App, { documents }: Description): Promise<void> {
  const client = localClient(app, operator).documents
  for (const { id, sha256, size, mime_type, filename, source_id, text } of documents) {
    const version = { number: 1, sha256, size, mime_type, filename, origin: source_id === null ? 'upload' : 'sync', current: true }
    expect(await client.versions(id)).toEqual([{ ...version, created_at: expect.any(String), created_by: null }])
    expect(await client.versionText(id, 1)).toBe(text)
    expect(hash('sha256', Buffer.from(await (await client.downloadVersion(id, 1)).arrayBuffer()))).toBe(sha256)
  }
  const { rows } = await sql`select from documents where current_version <> 1 or last_version <> 1 or deleted_at is not null`.execute(
    app.db,
  )
  expect(rows).toEqual([])
}

/** Expects that a search for words of its text finds each document. */
async function expectFound(app: App, { documents }: Description): Promise<void> {
  const client = localClient(app, operator)
  for (const { id, text } of documents) {
    const [word] = /\p{L}{4,}/u.exec(text) ?? []
    if (!word) continue
    const { results } = await client.call<{ results: { document_id: string }[] }>('GET', `/api/search?q=${encodeURIComponent(word)}`)
    expect(results.map(({ document_id }) => document_id)).toContain(id)
  }
}

async function hashDownload(app: App, id: string): Promise<string> {
  const response = await localClient(app, operator).documents.download(id)
  return hash('sha256', Buffer.from(await response.arrayBuffer()))
}
