import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { fileSink } from '../../../src/backup/create/tar-sink.ts'
import type { Head } from '../../../src/backup/manifest.ts'
import { migrate } from '../../../src/db/migrate.ts'
import { openDatabase } from '../../../src/db/pool.ts'
import { openLog } from '../../../src/log/log.ts'
import { upload } from '../../support/app.ts'
import { rowsOf, someDocuments, summary } from '../../support/backups.ts'
import { archiveOf, consistent, entriesOf } from '../../support/data/crafted-backup.ts'
import { begin, connection, dms, emptyPlace, folder, here, opened, type Place } from '../../support/places.ts'
import { startServer } from '../../support/servers/server.ts'
import { mountSmallDisk } from '../../support/small-disk.ts'

const tables = [
  'users',
  'documents',
  'document_pages',
  'labels',
  'document_labels',
  'comments',
  'shared_links',
  'notifications',
  'user_settings',
]

test('a backup during eight parallel uploads restores every document acknowledged before it, with related rows', {
  timeout: 120_000,
}, async () => {
  const { app, asAda, asAdmin, ada, url, token, runJobs, databaseUrl, dataDir } = await startServer()
  const place = { databaseUrl, dataDir }
  await asAdmin.users.create({ username: 'carla', email: 'carla@example.org', password: 'a password of Carla', role: 'user' })
  const document = await upload(asAda, 'minutes.txt', 'Minutes of the harbour board, with "quotes", a\ttab and \\ a backslash')
  const label = await asAda.labels.create({ name: 'board', color: '#336699' })
  await asAda.labels.assign(label.id, [document.id])
  const comment = await asAda.comments.create(document.id, { content: 'first' })
  await asAda.comments.create(document.id, { content: 'reply', parent_id: comment.id })
  await asAda.sharedLinks.create({ document_id: document.id, password: 'open sesame' })
  await upload(asAda, 'copy.txt', 'Minutes of the harbour board, with "quotes", a\ttab and \\ a backslash')
  await runJobs()

  const ledger = new Map<string, string>()
  let isOver = false
  const uploader = async (number: number) => {
    for (let count = 0; !isOver && count < 200; count++) {
      const bytes = count % 4 === 0 ? randomBytes(200_000) : Buffer.from(`note ${number} ${count} ${randomBytes(8).toString('hex')}`)
      const form = new FormData()
      form.set('file', new Blob([bytes as BlobPart]), `${number}-${count}.txt`)
      const response = await fetch(`${url}/api/documents/upload`, {
        method: 'POST',
        body: form,
        headers: { authorization: `Bearer ${token}` },
      })
      if (response.status === 201)
        ledger.set(((await response.json()) as { id: string }).id, createHash('sha256').update(bytes).digest('hex'))
    }
  }
  const uploads = Promise.all(Array.from({ length: 8 }, (_, number) => uploader(number)))
  await expect.poll(() => ledger.size, { timeout: 40_000 }).toBeGreaterThan(16)
  const before = new Map(ledger)
  const archive = join(dataDir, 'x.tar')
  const made = await dms(place, ['backup', 'create', '--to', archive, '--json'])
  isOver = true
  await uploads
  expect([made.code, made.stderr]).toEqual([0, ''])
  expect(ledger.size).toBeGreaterThan(before.size)
  expect((await stat(archive)).mode & 0o777).toBe(0o600)
  expect((await here(place, ['backup', 'verify', archive])).code).toBe(0)

  const other = await emptyPlace()
  expect((await here(other, ['restore', archive, '--confirm', 'another'])).code).toBe(2)
  const restored = await dms(other, ['restore', archive, '-q', '--json'])
  expect([restored.code, restored.stderr]).toEqual([0, ''])
  expect(summary(restored.stdout).documents).toBe(summary(made.stdout).documents)
  const ending = { dry_run: false, exit_code: 0, started_at: expect.stringMatching(/Z$/), finished_at: expect.stringMatching(/Z$/) }
  for (const { stdout } of [made, restored]) expect(summary(stdout)).toMatchObject(ending)
  const checked = await here(other, ['check', '--sample', '100%'])
  expect([checked.code, checked.stdout]).toEqual([0, ''])

  for (const table of tables) {
    const restored = new Set(await rowsOf(other, table))
    const missing = (await rowsOf(place, table)).filter((row) => !restored.has(row))
    // Only later uploads are missing from the backup.
    expect(
      missing.every((row) => table === 'documents' && !before.has((JSON.parse(row) as { id: string }).id)),
      table,
    ).toBe(true)
  }
  const { app: theirs, asOperator, asStranger } = await opened(other)
  // Before its first statistics, PostgreSQL plans for an empty table.
  const { rows: estimates } = await sql<{ rows: number }>`select reltuples as rows from pg_class where oid = 'documents'::regclass`.execute(
    theirs.db,
  )
  expect(estimates[0]?.rows).toBe(summary(restored.stdout).documents)
  for (const [id, sha256] of before) {
    const response = await asOperator.send('GET', `/api/documents/${id}/download`)
    const bytes = Buffer.from(await response.arrayBuffer())
    expect([id, response.status, createHash('sha256').update(bytes).digest('hex')]).toEqual([id, 200, sha256])
  }
  const { token: carla } = await asStranger.auth.login('carla', 'a password of Carla')
  expect(carla).toMatch(/^ey/)
  const { results } = await asOperator.call<{ results: { document_id: string }[] }>('GET', '/api/search?q=harbour board')
  expect(results.map(({ document_id }) => document_id)).toContain(document.id)
  expect((await asOperator.documents.get(document.id)).owner).toBe(ada.username)
  const storeId = async (one: typeof app) =>
    (await one.db.selectFrom('instance').selectAll().where('key', '=', 'store_id').executeTakeFirst())?.value
  expect(await storeId(theirs)).not.toBe(await storeId(app))
})

test('a backup of an older schema is migrated by the restore', async () => {
  const old = await emptyPlace()
  const address = { connectionString: old.databaseUrl }
  const database = openDatabase({
    address,
    poolMax: 2,
    connectTimeoutMs: 5000,
    statementTimeoutMs: 0,
    log: openLog({ level: 'warn', format: 'json' }),
  })
  await migrate(database, { lockTimeoutMs: 10_000 }, undefined, '0011_servers')
  const content = 'written long ago'
  const sha256 = createHash('sha256').update(content).digest('hex')
  const client = await connection(old)
  await client.query(`insert into users (id, username, username_key, email, email_key) values
    ('01890a5d-ac96-774b-bcce-000000000001', 'old', 'old', 'old@example.org', 'old@example.org')`)
  await client.query(`insert into stored_files (sha256, size, address) values ($1, $2, $1)`, [sha256, content.length])
  await client.query(
    `insert into documents (id, owner_id, title, filename, content, status, mime_type, size, sha256, language)
     values ('01890a5d-ac96-774b-bcce-000000000002', '01890a5d-ac96-774b-bcce-000000000001', 'old', 'old.txt', $1, 'processing', 'text/plain', $2, $3, 'eng')`,
    [content, content.length, sha256],
  )
  await client.query(`insert into jobs (kind, queue, status, document_id, payload, worker, lease_until, attempts)
    values ('extract', 'ocr', 'processing', '01890a5d-ac96-774b-bcce-000000000002', '{"language":"eng"}', 'gone/1', now() + interval '1 minute', 1)`)
  await client.query(`insert into instance values ('store_id', 'the-old-one')`)
  await client.query(`insert into rate_hits values ('k'), ('k')`)
  const home = join(old.dataDir, 'files', sha256.slice(0, 2), sha256.slice(2, 4))
  await mkdir(home, { recursive: true })
  await writeFile(join(home, sha256), content)
  await writeFile(join(old.dataDir, 'files', '.dms-store'), 'the-old-one\n')
  await database.close()

  const archive = join(old.dataDir, 'old.tar')
  expect(await here(old, ['backup', 'create', '--to', archive, '-q'])).toMatchObject({ code: 0, stderr: '' })
  expect((await here(old, ['migrate', 'check'])).code).toBe(8)

  const now = await emptyPlace()
  expect(await here(now, ['restore', archive, '-q'])).toMatchObject({ code: 0, stderr: '' })
  expect((await here(now, ['migrate', 'check'])).code).toBe(0)
  expect(await here(now, ['check', '--sample', '100%'])).toMatchObject({ code: 0, stdout: '' })
  const { app, asOperator } = await opened(now)
  const job = await app.db
    .selectFrom('jobs')
    .select(['status', 'attempts', 'worker'])
    .where('kind', '=', 'extract')
    .executeTakeFirstOrThrow()
  expect(job).toEqual({ status: 'pending', attempts: 0, worker: null })
  expect((await asOperator.documents.get('01890a5d-ac96-774b-bcce-000000000002')).status).toBe('pending')
  expect(await app.db.selectFrom('rate_hits').selectAll().execute()).toEqual([])
  const { results } = await asOperator.call<{ results: object[] }>('GET', '/api/search?q=ago')
  expect(results).toHaveLength(1)
})

test('--format dir: writes new files, removes old ones, refuses foreign folders', async () => {
  const { place, dataDir, asAda, asBob, first, runJobs } = await someDocuments()
  const to = join(dataDir, 'mirror')
  const create = (...more: string[]) => here(place, ['backup', 'create', '--format', 'dir', '--to', to, ...more])
  expect((await create('--jobs', '0')).code).toBe(2)
  expect((await create('--jobs', '1')).code).toBe(0)
  const stored = async () => {
    const files = (await readdir(join(to, 'files'), { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
    return new Map(await Promise.all(files.map(async (file) => [file.name, (await stat(join(file.parentPath, file.name))).ino] as const)))
  }
  const before = await stored()
  expect(before.size).toBe(2)
  await asAda.documents.delete(first.id, { permanent: true })
  for await (const { id } of asBob.documents.list()) await asBob.documents.delete(id, { permanent: true })
  await upload(asAda, 'new.txt', 'something new')
  await runJobs()
  expect((await create()).code).toBe(0)
  const after = await stored()
  expect([...after].filter(([name, ino]) => before.get(name) === ino)).toHaveLength(1)
  expect(after.size).toBe(2)
  expect((await here(place, ['backup', 'verify', to])).code).toBe(0)

  expect((await create('--no-files')).code).toBe(7)
  expect(await stored()).toEqual(after)
  expect((await here(place, ['backup', 'verify', to])).code).toBe(0)

  const foreign = await folder()
  await writeFile(join(foreign, 'thesis.txt'), 'mine')
  expect((await here(place, ['backup', 'create', '--format', 'dir', '--to', foreign])).code).toBe(7)
  expect(await here(place, ['backup', 'create', '--format', 'dir', '--to', join(foreign, 'thesis.txt')])).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('thesis.txt is a file, not a folder'),
  })
  const other = await someDocuments()
  expect((await here(other.place, ['backup', 'create', '--format', 'dir', '--to', to])).code).toBe(7)
  expect((await here(place, ['backup', 'verify', to])).code).toBe(0)
})

test('pipes: create --to - to verify - and restore -; --include-secrets adds the keys', async () => {
  const { place, dataDir } = await someDocuments()
  await writeFile(join(dataDir, 'jwt_secret'), 'x'.repeat(64), { mode: 0o600 })
  const archive = async (args: string[]) => {
    const child = begin(place, ['backup', 'create', '--to', '-', '-q', ...args])
    const chunks: Buffer[] = []
    for await (const chunk of child.stdout) chunks.push(chunk)
    expect(await child.ended).toBe(0)
    return Buffer.concat(chunks)
  }
  const feed = async (to: Place, args: string[], bytes: Buffer) => {
    const child = begin(to, args)
    child.stdin.end(bytes)
    const said = await textOf(child.stdout)
    return [await child.ended, said]
  }
  const plain = await archive([])
  expect(plain.includes('x'.repeat(64))).toBe(false)
  expect(await feed(place, ['backup', 'verify', '-'], plain)).toEqual([0, ''])
  const other = await emptyPlace()
  expect((await feed(other, ['restore', '-', '-q'], await archive(['--include-secrets', '--include-config'])))[0]).toBe(0)
  expect(await readFile(join(other.dataDir, 'jwt_secret'), 'utf8')).toBe('x'.repeat(64))
  expect((await stat(join(other.dataDir, 'jwt_secret'))).mode & 0o777).toBe(0o600)
})

test('list prints the newest first, prune keeps --keep archives and foreign files; Prometheus has the last success', async () => {
  const { place, dataDir, app } = await someDocuments()
  const backupFolder = join(dataDir, 'backups')
  await here(place, ['backup', 'create'])
  const [name = ''] = await readdir(backupFolder)
  const bytes = await readFile(join(backupFolder, name))
  for (const older of ['dms-20200101T000000Z.tar', 'dms-20200102T000000Z.tar', 'dms-20200103T000000Z.tar.partial', 'mine.tar'])
    await writeFile(join(backupFolder, older), bytes)
  await utimes(join(backupFolder, 'dms-20200103T000000Z.tar.partial'), new Date(0), new Date(0))
  await chmod(backupFolder, 0o700)
  const listed = JSON.parse((await here(place, ['backup', 'list', '--json'])).stdout) as {
    name: string
    documents: number
    schema: string
  }[]
  expect(listed).toHaveLength(5)
  expect(listed[0]).toMatchObject({ documents: 3, schema: expect.stringMatching(/^\d{4}_/), complete: expect.any(Boolean) })
  expect((await here(place, ['backup', 'prune', '--keep', '1'])).code).toBe(2)
  expect((await here(place, ['backup', 'prune', '--keep', '1', '-y'])).code).toBe(0)
  const left = await readdir(backupFolder)
  expect(left).toHaveLength(2)
  expect(left).toContain('mine.tar')
  expect(await app.db.selectFrom('runs').select('name').execute()).toContainEqual({ name: 'backup' })
})

test('--to with a slash at the end is a folder, which is created', async () => {
  const { place, dataDir } = await someDocuments()
  const to = join(dataDir, 'usb', 'backups')
  expect((await here(place, ['backup', 'create', '--to', `${to}/`])).code).toBe(0)
  expect(await readdir(to)).toEqual([expect.stringMatching(/^dms-.*\.tar$/)])
})

test('prune keeps --keep archives with files, however many newer ones have tables only', async () => {
  const { place, dataDir } = await someDocuments()
  const backupFolder = join(dataDir, 'backups')
  await mkdir(backupFolder, { mode: 0o700 })
  const create = (name: string, ...more: string[]) => here(place, ['backup', 'create', '--to', join(backupFolder, name), ...more])
  const [whole, ...tables] = [1, 2, 3].map((day) => `dms-2026010${day}T000000Z.tar`) as [string, string, string]
  expect((await create(whole)).code).toBe(0)
  for (const name of tables) expect((await create(name, '--no-files')).code).toBe(0)
  expect((await here(place, ['backup', 'prune', '--keep', '1', '-y'])).code).toBe(0)
  expect((await readdir(backupFolder)).sort()).toEqual([whole, tables[1]])
})

test('prune keeps archives dated in the future beside --keep others, and warns about them', async () => {
  const { place, dataDir } = await someDocuments()
  const backupFolder = join(dataDir, 'backups')
  await mkdir(backupFolder, { mode: 0o700 })
  const [old, recent, future] = ['dms-20260101T000000Z.tar', 'dms-20260102T000000Z.tar', 'dms-20990101T000000Z.tar'] as const
  for (const name of [old, recent]) expect((await here(place, ['backup', 'create', '--to', join(backupFolder, name)])).code).toBe(0)
  const entries = consistent(await entriesOf(join(backupFolder, recent)), { created_at: '2099-01-01T00:00:00.000Z' })
  await writeFile(join(backupFolder, future), archiveOf(entries))
  const pruned = await here(place, ['backup', 'prune', '--keep', '1', '-y'])
  expect(pruned).toMatchObject({ code: 0, stderr: expect.stringContaining(`${future} is dated in the future`) })
  expect((await readdir(backupFolder)).sort()).toEqual([recent, future])
})

test('list shows a truncated archive as not complete; prune keeps it, does not count it, and warns', async () => {
  const { place, dataDir } = await someDocuments()
  const backupFolder = join(dataDir, 'backups')
  await mkdir(backupFolder, { mode: 0o700 })
  const [old, whole, truncated] = [1, 2, 3].map((day) => `dms-2026010${day}T000000Z.tar`) as [string, string, string]
  for (const name of [old, whole]) expect((await here(place, ['backup', 'create', '--to', join(backupFolder, name)])).code).toBe(0)
  const bytes = await readFile(join(backupFolder, whole))
  await writeFile(join(backupFolder, truncated), bytes.subarray(0, bytes.length / 2))
  const { stdout } = await here(place, ['backup', 'list', '--fields', 'name,complete'])
  expect(stdout.trim().split('\n').sort()).toEqual([`${old}\ttrue`, `${whole}\ttrue`, `${truncated}\tfalse`])
  await utimes(join(backupFolder, truncated), new Date(0), new Date(0))
  const pruned = await here(place, ['backup', 'prune', '--keep', '1', '-y'])
  expect(pruned).toMatchObject({ code: 0, stderr: `${truncated} is truncated: it is kept, and does not count towards --keep\n` })
  expect((await readdir(backupFolder)).sort()).toEqual([whole, truncated])
})

test('prune keeps --keep archives of each installation that shares the folder', async () => {
  const { place, dataDir } = await someDocuments()
  const backupFolder = join(dataDir, 'backups')
  await mkdir(backupFolder, { mode: 0o700 })
  const [others, old, recent] = [1, 2, 3].map((day) => `dms-2026010${day}T000000Z.tar`) as [string, string, string]
  for (const name of [old, recent]) expect((await here(place, ['backup', 'create', '--to', join(backupFolder, name)])).code).toBe(0)
  await writeFile(join(backupFolder, others), archiveOf(consistent(await entriesOf(join(backupFolder, old)), { store_id: 'another' })))
  expect((await here(place, ['backup', 'prune', '--keep', '1', '-y'])).code).toBe(0)
  expect((await readdir(backupFolder)).sort()).toEqual([others, recent])
})

test.for(['tar', 'dir'])(
  '1 with the name of the file if the disk of a backup (%s) is full; no backup is left',
  async (format, { skip }) => {
    const disk = await mountSmallDisk(skip, 'size=64k')
    const { place } = await someDocuments()
    const to = join(disk, 'backup')
    const { code, stderr } = await here(place, ['backup', 'create', '--format', format, '--to', to])
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^error: .*\/backup\S*: no space left on device$/m)])
    expect(existsSync(format === 'tar' ? to : join(to, 'manifest.json'))).toBe(false)
  },
)

test('two backups to one path at once: one is complete, the other fails', async () => {
  const path = join(await folder(), 'all.tar')
  const head = { created_at: '2026-01-01T00:00:00Z' } as Head
  const [first, second] = [fileSink(path), fileSink(path)]
  for (const [sink, text] of [
    [first, 'first'],
    [second, 'second'],
  ] as const) {
    await sink.begin(head)
    await sink.put('head.json', text.length, [Buffer.from(text)])
  }
  const noFiles = async function* () {}
  await expect(first.finish('{}', noFiles)).rejects.toMatchObject({ code: 'CONFLICT' })
  await first.discard()
  await second.finish('{}', noFiles)
  expect((await entriesOf(path)).map(({ bytes }) => bytes.toString())).toEqual(['second', '{}'])
})
