import { existsSync } from 'node:fs'
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { addressOf } from '../../../src/documents/stored-files.ts'
import { lockTable, rowsOf, someDocuments, summary } from '../../support/backups.ts'
import { begin, connection, emptyPlace, here } from '../../support/places.ts'
import { storeFiles } from '../../support/servers/server.ts'

describe('damaged backups', () => {
  test('a flipped byte, a truncated end, a foreign file: verify exits 3 with the problem, restore changes nothing', {
    timeout: 120_000,
  }, async () => {
    const { place, dataDir } = await someDocuments()
    const archive = join(dataDir, 'x.tar')
    await here(place, ['backup', 'create', '--to', archive])
    const whole = await readFile(archive)
    const other = await emptyPlace()
    const damage = async (bytes: Buffer, problem: RegExp) => {
      await writeFile(archive, bytes)
      const verified = await here(place, ['backup', 'verify', archive, '--json'])
      expect([verified.code, JSON.stringify(summary(verified.stdout))]).toEqual([3, expect.stringMatching(problem)])
      const restored = await here(other, ['restore', archive, '-q'])
      expect([restored.code, restored.stderr]).toEqual([1, expect.stringContaining('nothing was restored')])
      expect((await storeFiles(other.dataDir)).named).toEqual([])
      const client = await connection(other)
      expect((await client.query(`select from pg_tables where schemaname = 'public'`)).rows).toEqual([])
    }
    const flipped = Buffer.from(whole)
    const at = whole.indexOf('Harbour fees for 2026', whole.indexOf('files/'))
    flipped[at] = (flipped[at] ?? 0) ^ 1
    await damage(flipped, /"problem":"corrupt"/)
    const table = Buffer.from(whole)
    table[whole.indexOf('ada@example.org')] = 'b'.charCodeAt(0)
    await damage(table, /tables\/users\.000001.*"problem":"corrupt"/)
    await damage(whole.subarray(0, whole.length - 5000), /ends/)
    await damage(Buffer.from('this is no archive at all'.repeat(100)), /not an archive/)
    await writeFile(archive, whole)
    expect((await here(other, ['restore', archive, '-q'])).code).toBe(0)
  })

  test('a folder with a missing file or an extra byte: verify exits 3', async () => {
    const { place, dataDir } = await someDocuments()
    const to = join(dataDir, 'mirror')
    await here(place, ['backup', 'create', '--format', 'dir', '--to', to])
    const whole = JSON.parse((await here(place, ['backup', 'verify', to, '--json'])).stdout)
    expect(whole).toMatchObject({
      type: 'summary',
      command: 'backup verify',
      findings: 0,
      backup: { documents: expect.any(Number) },
      exit_code: 0,
      items: [],
    })
    const files = (await readdir(join(to, 'files'), { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
    const [first, second] = files.map((entry) => join(entry.parentPath, entry.name)) as [string, string]
    await rm(first)
    await truncate(second, 1)
    const { code, stdout } = await here(place, ['backup', 'verify', to, '--json'])
    expect(code).toBe(3)
    const { items, ...summary } = JSON.parse(stdout) as { items: { problem: string }[]; findings: number; exit_code: number }
    expect(items.map(({ problem }) => problem).sort()).toEqual(['corrupt', 'missing'])
    expect(summary).toMatchObject({ findings: 2, exit_code: 3 })
    expect((await here(place, ['backup', 'verify', to, '-o', 'id'])).stdout.trimEnd().split('\n')).toHaveLength(2)
  })

  test('a missing stored file: backup and restore exit 3, name it, and have all others', async () => {
    const { place, app, first, dataDir } = await someDocuments()
    const { sha256 } = await app.db.selectFrom('documents').select('sha256').where('id', '=', first.id).executeTakeFirstOrThrow()
    await app.files.remove(await addressOf(app.db, sha256))
    const archive = join(dataDir, 'x.tar')
    const made = await here(place, ['backup', 'create', '--to', archive])
    expect([made.code, made.stderr]).toEqual([3, expect.stringContaining(`warning: stored file ${sha256} is missing\n`)])
    const verified = await here(place, ['backup', 'verify', archive, '--json'])
    expect([verified.code, summary(verified.stdout).items]).toEqual([3, [expect.objectContaining({ problem: 'missing', origin: 'store' })]])
    const other = await emptyPlace()
    expect((await here(other, ['restore', archive, '-q'])).code).toBe(3)
    const { stdout } = await here(other, ['check', '--json'])
    expect((summary(stdout).items as { document_id: string }[]).map(({ document_id }) => document_id)).toContain(first.id)
  })
})

test('7 for a database with users or a store with files, which stay untouched', async () => {
  const { place, dataDir } = await someDocuments()
  const archive = join(dataDir, 'x.tar')
  await here(place, ['backup', 'create', '--to', archive])
  const before = await rowsOf(place, 'documents')
  const full = await here(place, ['restore', archive])
  expect([full.code, full.stderr]).toEqual([7, expect.stringContaining('the database holds users')])
  expect(await rowsOf(place, 'documents')).toEqual(before)
  const database = await emptyPlace()
  const files = await here({ ...database, dataDir }, ['restore', archive])
  expect([files.code, files.stderr]).toEqual([7, expect.stringContaining('the document store holds files')])
  expect((await storeFiles(dataDir)).named).toHaveLength(2)
  expect((await here(place, ['backup', 'create', '--to', archive])).code).toBe(7)
})

test('6 for a missing backup, 2 for a password in a URL', async () => {
  const place = await emptyPlace()
  expect((await here(place, ['restore', 'nothing.tar'])).code).toBe(6)
  expect((await here(place, ['backup', 'verify', 'nothing.tar'])).code).toBe(6)
  const { code, stderr } = await here(place, ['restore', 'nothing.tar', '--to-database', 'postgres://dms:hunter2@db/dms'])
  expect([code, stderr]).toEqual([2, expect.not.stringContaining('hunter2')])
})

test('1 if the reader of standard output has gone', async () => {
  const { place } = await someDocuments()
  const child = begin(place, ['backup', 'create', '--to', '-'])
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (text) => {
    stderr += text
  })
  expect([await child.ended, stderr]).toEqual([1, 'error: cannot write the archive: write EPIPE\n'])
})

test('75 for a second backup, with the holder of the lock; a purge waits for the backup', async () => {
  const { place, dataDir, app, asAda, asBob, first, runJobs } = await someDocuments()
  const release = await lockTable(place, 'comments')
  const child = begin(place, ['backup', 'create', '--to', join(dataDir, 'x.tar')])
  await expect.poll(() => existsSync(join(dataDir, 'x.tar.partial')), { timeout: 20_000 }).toBe(true)
  const locks = () =>
    connection(place).then((client) =>
      client.query(`select from pg_stat_activity where datname = current_database() and application_name = 'dms backup snapshot'`),
    )
  await expect.poll(async () => (await locks()).rows.length, { timeout: 20_000 }).toBe(1)
  const second = await here(place, ['backup', 'create', '--to', join(dataDir, 'y.tar')])
  expect([second.code, second.stderr]).toEqual([
    75,
    expect.stringMatching(/backup: already running \(dms backup pid=\d+.*\n +fix: --lock-timeout 10m waits for it\n$/),
  ])
  expect((await readdir(dataDir)).filter((name) => name.startsWith('y.tar'))).toEqual([])
  await app.db
    .insertInto('jobs')
    .values({ kind: 'purge', queue: 'maintenance', payload: JSON.stringify({ sha256: 'f'.repeat(64) }) })
    .execute()
  await app.db
    .insertInto('file_removals')
    .values({ address: 'f'.repeat(64) })
    .execute()
  await runJobs(['maintenance'])
  const purges = () => app.db.selectFrom('jobs').select('status').where('kind', '=', 'purge').execute()
  expect(await purges()).toEqual([{ status: 'pending' }])
  await release()
  expect(await child.ended).toBe(0)
  for await (const { id } of asBob.documents.list()) await asBob.documents.delete(id, { permanent: true })
  await asAda.documents.delete(first.id, { permanent: true })
  await app.db
    .updateTable('jobs')
    .set({ run_at: new Date(0) })
    .execute()
  await runJobs()
  expect(await purges()).toEqual([])
  expect((await storeFiles(dataDir)).named).toHaveLength(1)
})
