import { writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { runHere } from '../support/processes/run-here.ts'

test('audit log has shell actions with the Unix user name; list, export, verify; 3 after tampering', async () => {
  const { app, databaseUrl, dataDir } = await startApp()
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  const dms = (...args: string[]) => runHere(args, { env })
  await dms('users', 'disable', 'ada')
  await dms('users', 'enable', 'ada')
  const via = `cli:${userInfo().username}`
  const listed = await dms('audit', 'list', '--json')
  expect(JSON.parse(listed.stdout)).toMatchObject([
    { seq: 2, actor: 'operator', via, action: 'PUT /api/users/:id', details: { fields: { disabled: false } } },
    { seq: 1, actor: 'operator', via, action: 'PUT /api/users/:id', details: { fields: { disabled: true } } },
  ])
  const exported = await dms('audit', 'export', '--actor', 'operator', '--since', '1h')
  expect(
    exported.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).seq),
  ).toEqual([1, 2])
  expect((await dms('audit', 'list', '--limit', '1', '-o', 'tsv', '--fields', 'seq,outcome')).stdout).toBe('2\tok\n')
  expect((await dms('audit', 'list', '--since', '1h', '--from', '2026-01-01')).code).toBe(2)
  const array = JSON.parse((await dms('audit', 'export', '-o', 'json')).stdout)
  expect(array.map(({ seq }: { seq: number }) => seq)).toEqual([1, 2])
  expect((await dms('audit', 'export', '--fields', 'seq,outcome', '--since', '1h')).stdout).toBe(
    '{"seq":1,"outcome":"ok"}\n{"seq":2,"outcome":"ok"}\n',
  )
  expect((await dms('audit', 'list', '--limit', '1', '--all')).code).toBe(2)
  for (const flag of ['--actor', '--action', '--ip']) expect((await dms('audit', 'export', flag, '')).code).toBe(2)

  const head = /^head\t(\S+)$/m.exec((await dms('audit', 'verify')).stdout)?.[1] ?? ''
  expect(head).toMatch(/^2:[0-9a-f]{64}$/)
  expect((await dms('audit', 'verify', '--head', head)).code).toBe(0)
  const { stdout: whole } = await dms('audit', 'verify', '--json')
  expect((await dms('audit', 'verify', '--head', whole)).code).toBe(0)
  const { head: object } = JSON.parse(whole)
  expect((await dms('audit', 'verify', '--head', JSON.stringify(object, null, 2))).code).toBe(0)
  expect((await dms('audit', 'verify', '--head', '2')).code).toBe(2)
  await sql`alter table audit_entries disable trigger user; delete from audit_entries where seq = 2`.execute(app.db)
  expect(await dms('audit', 'verify', '--head', head)).toMatchObject({
    code: 3,
    stdout: expect.stringContaining('the earlier head is entry 2'),
  })
})

test('users token, --as, export, backup and config show --reveal are entries; the backup holds its own', async () => {
  const { app, ada, databaseUrl, dataDir } = await startApp()
  const dms = (...args: string[]) => runHere(args, { env: { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir } })
  const folder = join(dataDir, 'out')
  for (const line of [
    'users token ada',
    'documents list --as ada',
    `documents export --to ${folder}`,
    `backup create --to ${dataDir}/x.tar`,
    'users export --with-hashes',
    'config show --reveal auth',
    'config env --reveal',
  ])
    expect(await dms(...line.split(' ')), line).toMatchObject({ code: 0 })
  expect((await dms('backup', 'create', '--to', `${dataDir}/x.tar`)).code).toBe(7)
  const entries = await app.db
    .selectFrom('audit_entries')
    .select(['actor', 'via', 'action', 'target', 'outcome', 'details'])
    .orderBy('seq')
    .execute()
  const shell = { actor: 'operator', via: `cli:${userInfo().username}`, target: '', outcome: 'ok' }
  const target = `id=${ada.id}`
  expect(entries.map((entry) => ({ ...entry, details: JSON.parse(entry.details) }))).toEqual([
    { ...shell, action: 'dms users token', target, details: { username: 'ada' } },
    { ...shell, action: 'dms --as', target, details: { username: 'ada' } },
    { ...shell, action: 'dms documents export', details: { documents: 0, files: 0, to: folder } },
    { ...shell, action: 'dms backup create', details: { place: `${dataDir}/x.tar`, with_secrets: false } },
    { ...shell, action: 'dms users export', details: { users: 3, with_hashes: true } },
    { ...shell, action: 'dms config show --reveal', details: {} },
    { ...shell, action: 'dms config env --reveal', details: {} },
    { ...shell, action: 'dms backup create', details: { place: `${dataDir}/x.tar`, with_secrets: false } },
    {
      ...shell,
      action: 'dms backup create',
      outcome: 'failed',
      details: { place: `${dataDir}/x.tar`, with_secrets: false, error: `${dataDir}/x.tar exists already` },
    },
  ])
})

test('a key rotation and a migration of the store are entries, and their failures second ones', async () => {
  const { app, databaseUrl, dataDir } = await startApp()
  const dms = (...args: string[]) => runHere(args, { env: { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir } })
  const shortKey = join(dataDir, 'short.key')
  await writeFile(shortKey, 'c2hvcnQ=\n', { mode: 0o600 })
  expect((await dms('sources', 'rotate-key')).code).toBe(0)
  expect((await dms('sources', 'rotate-key', '--old-key-file', shortKey)).code).toBe(78)
  // No bucket is configured.
  expect((await dms('storage', 'migrate', '--to', 's3', '-n')).code).toBe(78)
  expect((await dms('storage', 'migrate', '--to', 's3')).code).toBe(78)
  const entries = await app.db.selectFrom('audit_entries').select(['action', 'target', 'outcome', 'details']).orderBy('seq').execute()
  const flags = { verify: false, keep: false }
  expect(entries.map((entry) => ({ ...entry, details: JSON.parse(entry.details) }))).toEqual([
    { action: 'dms sources rotate-key', target: '', outcome: 'ok', details: {} },
    { action: 'dms sources rotate-key', target: '', outcome: 'ok', details: {} },
    {
      action: 'dms sources rotate-key',
      target: '',
      outcome: 'failed',
      details: { error: expect.stringContaining('not a key of 32 bytes') },
    },
    { action: 'dms storage migrate', target: 's3', outcome: 'ok', details: flags },
    {
      action: 'dms storage migrate',
      target: 's3',
      outcome: 'failed',
      details: { ...flags, error: expect.stringContaining('storage.s3_bucket is not set') },
    },
  ])
})
