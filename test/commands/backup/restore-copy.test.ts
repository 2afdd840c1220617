/** Side effects of a restored copy, and signatures of backups. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { recordUse } from '../../../src/files/used-stores.ts'
import { maintain } from '../../../src/worker/maintenance.ts'
import { startApp, upload } from '../../support/app.ts'
import { connection, emptyPlace, folder, here, opened } from '../../support/places.ts'

async function backedUp() {
  const started = await startApp()
  const place = { databaseUrl: started.databaseUrl, dataDir: started.dataDir }
  await upload(started.asAda, 'harbour.txt', 'Harbour fees for 2026')
  return { ...started, place, archive: join(await folder(), 'x.tar') }
}

test('a restored copy has disabled sources and neither sync nor mail jobs', async () => {
  const { app, place, archive, ada } = await backedUp()
  const source = (name: string, status: 'active' | 'syncing' | 'error' | 'disabled') => ({
    owner_id: ada.id,
    name,
    type: 'webdav' as const,
    url: 'https://cloud.example.org/',
    status,
    next_sync: new Date(0),
    totals: '{}',
  })
  await app.db
    .insertInto('sources')
    .values([source('a', 'active'), source('b', 'syncing'), source('c', 'error'), source('d', 'disabled')])
    .execute()
  await app.db
    .insertInto('jobs')
    .values([
      { kind: 'sync', queue: 'sync', payload: JSON.stringify({ source_id: ada.id, full: false }) },
      { kind: 'verify_email', queue: 'maintenance', payload: JSON.stringify({ user_id: ada.id }) },
    ])
    .execute()
  await here(place, ['backup', 'create', '--to', archive])

  const copy = await emptyPlace()
  const { code, stdout, stderr } = await here(copy, ['restore', archive, '--data-dir', copy.dataDir, '--json'])
  const states = async (of: typeof copy) =>
    (await (await connection(of)).query(`select name || ' ' || status as state from sources order by 1`)).rows.map(({ state }) => state)
  const jobs = async (of: typeof copy) =>
    (await (await connection(of)).query(`select kind from jobs where kind in ('sync', 'verify_email')`)).rows
  expect(await states(copy)).toEqual(['a disabled', 'b disabled', 'c disabled', 'd disabled'])
  expect(await jobs(copy)).toEqual([])
  expect([code, stderr]).toEqual([
    0,
    expect.stringContaining(
      `disabled sources: "a", "b", "c"; to enable one: dms sources update NAME --status active --data-dir ${copy.dataDir}`,
    ),
  ])
  const { disabled_sources } = JSON.parse(stdout) as { disabled_sources: { id: string; name: string }[] }
  expect(disabled_sources.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  const { asOperator } = await opened(copy)
  expect((await asOperator.send('POST', `/api/sources/${disabled_sources[0]?.id}/sync`)).status).toBe(409)

  const moved = await emptyPlace()
  expect((await here(moved, ['restore', archive, '-q', '--keep-sources-enabled'])).code).toBe(0)
  expect(await states(moved)).toEqual(['a active', 'b active', 'c error', 'd disabled'])
  expect(await jobs(moved)).toEqual([{ kind: 'sync' }])
})

test('a restored copy needs no other store of the original: check finds nothing, and destroyed documents lose their files', async () => {
  const { app, place, archive } = await backedUp()
  await recordUse(app.db, 's3')
  await here(place, ['backup', 'create', '--to', archive])
  const copy = await emptyPlace()
  expect(await here(copy, ['restore', archive, '-q'])).toMatchObject({ code: 0 })
  expect(await here(copy, ['check'])).toMatchObject({ code: 0 })
  const restored = await opened(copy)
  for await (const { id } of restored.asOperator.documents.list()) await restored.asOperator.documents.delete(id, { permanent: true })
  expect(await maintain(restored.app, ['files'])).toEqual({ files: 1 })
})

test('with backup.key_file a backup is signed; a changed, unsigned or otherwise signed one is refused', async () => {
  const { place, archive } = await backedUp()
  const keys = await folder()
  const [key, other] = [join(keys, 'key'), join(keys, 'other')]
  await writeFile(key, 'k'.repeat(40))
  await writeFile(other, 'o'.repeat(40))
  const env = { DMS_BACKUP_KEY_FILE: key }
  expect(await here(place, ['backup', 'create', '--to', archive], { env })).toMatchObject({ code: 0 })
  const verify = async (flags: string[]) => {
    const { code, stdout, stderr } = await here(place, ['backup', 'verify', archive, '--json', ...flags])
    return [code, (JSON.parse(stdout) as { backup: { signature: string } | null }).backup?.signature, stderr]
  }
  expect(await verify([])).toEqual([0, 'not checked', ''])
  expect(await verify(['--key-file', key])).toEqual([0, 'valid', ''])
  expect(await verify(['--key-file', other])).toEqual([
    3,
    undefined,
    expect.stringContaining('--key-file with the key that it was made with'),
  ])
  const restore = async (...flags: string[]) => {
    const { code, stderr } = await here(await emptyPlace(), ['restore', archive, '-q', ...flags])
    return [code, stderr]
  }
  expect(await restore('--key-file', key)).toEqual([0, ''])
  expect(await restore('--key-file', other, '--unsigned-ok', '--skip-damaged')).toEqual([
    1,
    expect.stringMatching(/wrong signature.*nothing was restored\n +fix: pass --key-file/),
  ])
  const mirror = join(keys, 'mirror')
  expect((await here(place, ['backup', 'create', '--format', 'dir', '--to', mirror], { env })).code).toBe(0)
  const dryRun = async (backup: string, ...flags: string[]) => {
    const { code, stdout, stderr } = await here(await emptyPlace(), ['restore', backup, '-n', ...flags])
    return [code, stdout !== '', stderr]
  }
  for (const backup of [archive, mirror]) {
    expect(await dryRun(backup)).toEqual([0, true, ''])
    expect(await dryRun(backup, '--key-file', key)).toEqual([0, true, ''])
    const refused = expect.stringMatching(new RegExp(`^error: ${backup}: has a wrong signature.*\n +fix: pass --key-file`))
    expect(await dryRun(backup, '--key-file', other, '--unsigned-ok')).toEqual([1, false, refused])
  }
  const bytes = await readFile(archive)
  bytes.write('1', bytes.lastIndexOf('"created_at": "2') + 15)
  await writeFile(archive, bytes)
  expect(await restore('--key-file', key)).toEqual([1, expect.stringContaining('wrong signature')])

  expect(await here(place, ['backup', 'create', '--to', `${archive}.plain`])).toMatchObject({ code: 0 })
  await writeFile(archive, await readFile(`${archive}.plain`))
  expect(await restore('--key-file', key)).toEqual([1, expect.stringMatching(/is not signed.*\n +fix: .*--unsigned-ok/)])
  expect(await dryRun(archive, '--key-file', key)).toEqual([1, false, expect.stringMatching(/is not signed.*\n +fix: .*--unsigned-ok/)])
  expect(await dryRun(archive, '--key-file', key, '--unsigned-ok')).toEqual([0, true, ''])
  expect(await restore('--key-file', key, '--unsigned-ok')).toEqual([0, ''])
  const piped = await here(await emptyPlace(), ['restore', '-', '-n', '--key-file', key], { input: await readFile(archive, 'latin1') })
  expect(piped).toMatchObject({ code: 0, stderr: expect.stringMatching(/^warning: .*the signature is: it was not checked\n$/) })
})

test('78 for a key that is missing, too short, or in the backup folder, before anything is written', async () => {
  const { place, archive, dataDir } = await backedUp()
  const short = join(await folder(), 'short')
  await writeFile(short, 'short')
  for (const [path, reason] of [
    [`${short}.none`, 'cannot be read (ENOENT): create one with openssl'],
    // The command that creates a key would overwrite that of earlier backups.
    [dataDir, 'cannot be read (EISDIR)\n'],
    [short, 'at least 32'],
    [join(dataDir, 'backups', 'key'), 'must not be in backup.path'],
  ] as const) {
    const { code, stderr } = await here(place, ['backup', 'create', '--to', archive], { env: { DMS_BACKUP_KEY_FILE: path } })
    expect([code, stderr]).toEqual([78, expect.stringContaining(reason)])
  }
  expect(await here(place, ['backup', 'verify', archive, '--key-file', `${short}.none`])).toMatchObject({
    code: 78,
    stderr: expect.stringContaining('cannot be read (ENOENT): pass the key that the backup was signed with'),
  })
  expect((await here(place, ['restore', archive])).code).toBe(6)
})
