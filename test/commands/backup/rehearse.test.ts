/** Rehearsals: temporary restores that leave nothing but the time of the last success. */
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp, upload } from '../../support/app.ts'
import { archiveOf, consistent, entriesOf } from '../../support/data/crafted-backup.ts'
import { begin, connection, emptyPlace, folder, here } from '../../support/places.ts'

async function backedUp() {
  const { app, databaseUrl, dataDir, asAda } = await startApp()
  const place = { databaseUrl, dataDir }
  // Under root the database runs as another user, who needs access.
  await chmod(dataDir, 0o711)
  await upload(asAda, 'harbour.txt', 'Harbour fees for 2026')
  await upload(asAda, 'minutes.txt', 'Minutes, with "quotes", a\ttab, a \\ backslash and\nlines')
  await here(place, ['backup', 'create'])
  const archive = join(dataDir, 'backups', JSON.parse((await here(place, ['backup', 'list', '--json'])).stdout)[0].name as string)
  const lastSuccess = async () => (await sql`select from runs where name = 'rehearsal'`.execute(app.db)).rows.length === 1
  const doctor = async () => {
    const { stdout } = await here(place, ['doctor', '--only', 'rehearsal', '--json'])
    return stdout
  }
  return { place, archive, lastSuccess, doctor, scratch: join(dataDir, 'rehearsal') }
}

/** Creates an empty database and a function that tells whether it is still empty. */
async function emptyDatabase() {
  const place = await emptyPlace()
  const client = await connection(place)
  return {
    url: place.databaseUrl,
    isEmpty: async () => (await client.query(`select from pg_tables where schemaname = 'public'`)).rowCount === 0,
  }
}

test('rehearse restores the newest backup to a temporary PostgreSQL, compares it, and removes it; with -q it prints nothing', {
  timeout: 120_000,
}, async () => {
  const { place, archive, lastSuccess, doctor, scratch } = await backedUp()
  expect(await doctor()).toContain('no backup was ever rehearsed')
  const { ended, stdout, stderr } = begin(place, ['backup', 'rehearse', '-q'])
  let printed = ''
  for (const output of [stdout, stderr]) output.on('data', (chunk) => (printed += chunk))
  let code: number | null | undefined
  void ended.then((ending) => (code = ending))
  // Also while it is removed, the folder tells the next rehearsal that it may be removed.
  while (code === undefined) {
    const names = await readdir(scratch).catch((): string[] => [])
    if (names.includes('postgres')) expect(names).toContain('.dms-rehearsal')
  }
  expect([code, printed]).toEqual([0, ''])
  expect([existsSync(scratch), await lastSuccess()]).toEqual([false, true])
  expect(await doctor()).toContain('succeeded 0 days ago')
  expect(existsSync(archive)).toBe(true)
})

test('the next rehearsal stops and removes the PostgreSQL and files of a killed one', { timeout: 120_000 }, async () => {
  const { place, archive, scratch } = await backedUp()
  const bytes = await readFile(archive)
  const child = begin(place, ['backup', 'rehearse', '-'])
  child.stdin.write(bytes.subarray(0, bytes.indexOf('SHA256SUMS\0') - 60))
  await expect.poll(() => existsSync(join(scratch, 'files')), { timeout: 60_000 }).toBe(true)
  child.kill('SIGKILL')
  await child.ended
  const pid = Number((await readFile(join(scratch, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0])
  const isAlive = () => existsSync(`/proc/${pid}/cmdline`)
  expect(isAlive()).toBe(true)
  expect(await here(place, ['backup', 'rehearse', archive, '-q', '--lock-timeout', '2m'])).toMatchObject({ code: 0, stdout: '' })
  await expect.poll(isAlive, { timeout: 30_000 }).toBe(false)
  expect(existsSync(scratch)).toBe(false)
})

test('--to-database compares in that database and leaves it empty', async () => {
  const { place, archive, scratch } = await backedUp()
  const { url, isEmpty } = await emptyDatabase()
  const { code, stdout } = await here(place, ['backup', 'rehearse', 'latest', '--to-database', url, '--json'])
  expect([code, JSON.parse(stdout)]).toEqual([
    0,
    expect.objectContaining({ backup: archive, documents: 2, files: 2, has_compared_rows: true, findings: 0, items: [], exit_code: 0 }),
  ])
  expect((JSON.parse(stdout) as { rows: number }).rows).toBeGreaterThan(4)
  expect([await isEmpty(), existsSync(scratch)]).toEqual([true, false])
  expect((await here(place, ['backup', 'rehearse', '--to-database', place.databaseUrl])).code).toBe(7)
})

test('the newest archive with files is rehearsed, also if a newer one has tables only, a time in the future or another store', async () => {
  const { place, archive } = await backedUp()
  const inFolder = (name: string) => join(place.dataDir, 'backups', name)
  const others = consistent(await entriesOf(archive), { store_id: 'another', created_at: new Date().toISOString() })
  await writeFile(inFolder('dms-20260102T000000Z.tar'), archiveOf(others))
  await here(place, ['backup', 'create', '--no-files', '--to', inFolder('dms-20260101T000000Z.tar')])
  const entries = consistent(await entriesOf(archive), { created_at: '2099-01-01T00:00:00.000Z' })
  await writeFile(inFolder('dms-20990101T000000Z.tar'), archiveOf(entries))
  const { url } = await emptyDatabase()
  const { code, stdout } = await here(place, ['backup', 'rehearse', '--to-database', url, '--json'])
  expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ backup: archive, files: 2 })])
})

test('a damaged backup: exit 3 with the problem, no last success, nothing left', async () => {
  const { place, archive, lastSuccess, scratch } = await backedUp()
  const { url, isEmpty } = await emptyDatabase()
  const bytes = await readFile(archive)
  const flipped = Buffer.from(bytes)
  flipped.write('feet', flipped.indexOf('Harbour fees', flipped.indexOf('files/')) + 8)
  await writeFile(archive, flipped)
  const rehearse = () => here(place, ['backup', 'rehearse', archive, '--to-database', url, '-q'])
  const { code, stderr } = await rehearse()
  expect([code, stderr]).toEqual([3, expect.stringMatching(/files\/\S+ is corrupt/)])
  expect([await isEmpty(), existsSync(scratch), await lastSuccess()]).toEqual([true, false, false])
})

test('rows that differ after the restore are reported, although counts and checksums agree', async () => {
  const { place, archive, lastSuccess } = await backedUp()
  const { url } = await emptyDatabase()
  const entries = (await entriesOf(archive)).map((entry) =>
    /tables\/users\./.test(entry.path) ? { ...entry, bytes: Buffer.from(entry.bytes.toString().replace(/\+00(?=[\t\n])/, '-01')) } : entry,
  )
  await writeFile(archive, archiveOf(consistent(entries)))
  expect((await here(place, ['backup', 'verify', archive])).code).toBe(0)
  const { code, stderr } = await here(place, ['backup', 'rehearse', archive, '--to-database', url, '-q'])
  expect([code, stderr]).toEqual([3, expect.stringContaining('rows differ')])
  expect(await lastSuccess()).toBe(false)
})

test('SIGINT: 130, nothing left', async () => {
  const { place, archive, lastSuccess, scratch } = await backedUp()
  const { url, isEmpty } = await emptyDatabase()
  const bytes = await readFile(archive)
  const child = begin(place, ['backup', 'rehearse', '-', '--to-database', url])
  // All but the end: the rehearsal waits for the rest with rows and files restored.
  child.stdin.write(bytes.subarray(0, bytes.indexOf('SHA256SUMS\0') - 60))
  await expect.poll(() => existsSync(join(scratch, 'files')), { timeout: 30_000 }).toBe(true)
  child.kill('SIGINT')
  child.stdin.end(bytes.subarray(bytes.indexOf('SHA256SUMS\0') - 60))
  expect(await child.ended).toBe(130)
  expect([await isEmpty(), existsSync(scratch), await lastSuccess()]).toEqual([true, false, false])
})

test('6 without a backup; 7 for a work folder with foreign files, which stay', async () => {
  const place = await backedUp().then((made) => made.place)
  expect((await here(place, ['backup', 'rehearse', 'nothing.tar'])).code).toBe(6)
  const work = await folder()
  await mkdir(join(work, 'rehearsal'))
  await writeFile(join(work, 'rehearsal', 'thesis.txt'), 'mine')
  const { code, stderr } = await here(place, ['backup', 'rehearse', '--work-dir', work])
  expect([code, stderr]).toEqual([7, expect.stringContaining('thesis.txt')])
  expect(await readFile(join(work, 'rehearsal', 'thesis.txt'), 'utf8')).toBe('mine')
})
