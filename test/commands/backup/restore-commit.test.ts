/** A restore that loses its connection at COMMIT keeps either rows and files, or neither. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openSource } from '../../../src/backup/backup-source.ts'
import { restoreBackup } from '../../../src/backup/restore/restore.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { folderMarkers } from '../../../src/files/folder-markers.ts'
import { readClaim } from '../../../src/files/restore-marker.ts'
import { openLog } from '../../../src/log/log.ts'
import { openInstallation } from '../../../src/open-app.ts'
import { startApp, upload } from '../../support/app.ts'
import { connection, dms, emptyPlace, here, type Place } from '../../support/places.ts'
import { startRelay } from '../../support/servers/relay.ts'
import { storeFiles } from '../../support/servers/server.ts'

async function backedUp() {
  const { databaseUrl, dataDir, asAda } = await startApp()
  await upload(asAda, 'harbour.txt', 'Harbour fees for 2026')
  await upload(asAda, 'other.txt', 'Other fees')
  const archive = join(dataDir, 'x.tar')
  await here({ databaseUrl, dataDir }, ['backup', 'create', '--to', archive])
  return archive
}

/** A backup, and an empty place whose database is reached through a relay. */
async function backupAndEmptyPlace() {
  const archive = await backedUp()
  const place = await emptyPlace()
  return { archive, place, relay: await startRelay(place.databaseUrl) }
}

const users = async (place: Place) => {
  const client = await connection(place)
  const { rows } = await client.query(`select to_regclass('users') is not null as found`)
  return rows[0].found ? ((await client.query('select from users')).rowCount ?? 0) : 0
}

/** Restores over `url`, e.g. of a relay. After a lost COMMIT it asks for the outcome for one second only. */
async function restoreBy(place: Place, url: string, archive: string) {
  const flags = { data_dir: place.dataDir, 'database.url': url, 'storage.min_free': 0, 'database.connect_timeout': 1000 }
  const { config } = loadConfig({ env: {}, flags })
  const places = await openInstallation(config, openLog({ level: 'silent', format: 'json' }), { creates: true, isRestore: true })
  return restoreBackup(places, await openSource(archive), {
    key: null,
    acceptsUnsigned: false,
    skipsDamaged: false,
    keepsSources: false,
    lockTimeoutMs: 0,
    outcomeTimeoutMs: 1000,
    signal: new AbortController().signal,
    onHead() {},
    onProgress() {},
  }).finally(() => places.close().catch(() => {}))
}

test('answer of COMMIT lost, rows committed: files stay and the restore succeeds', async () => {
  const { archive, place, relay } = await backupAndEmptyPlace()
  const lost = relay.loseAnswerTo('commit')
  const restored = await here({ ...place, databaseUrl: relay.url }, ['restore', archive, '-q'])
  await lost
  expect(await users(place)).toBeGreaterThan(0)
  expect((await storeFiles(place.dataDir)).named).toHaveLength(2)
  expect(restored).toMatchObject({ code: 0 })
  expect((await here(place, ['check', '--sample', '100%'])).code).toBe(0)
  expect((await readdir(join(place.dataDir, 'files'))).filter((name) => name.startsWith('.dms-restore'))).toEqual([])
})

test('answer of COMMIT lost, database unreachable: nothing is removed, exit 69; the next restore decides', async () => {
  const { archive, place, relay } = await backupAndEmptyPlace()
  void relay.loseAnswerTo('commit').then(relay.cut)
  const failed = await restoreBy(place, relay.url, archive).catch((error: unknown) => error)
  expect(failed).toMatchObject({ code: 'SERVICE_UNAVAILABLE', fix: expect.stringContaining('run the same dms restore again') })
  expect((await storeFiles(place.dataDir)).named).toHaveLength(2)
  expect(await users(place)).toBeGreaterThan(0)
  // Database and store match, so a server starts.
  expect((await here(place, ['check', '--sample', '100%', '--checks', 'files,checksums'])).code).toBe(0)
  const again = await here(place, ['restore', archive])
  expect([again.code, again.stderr]).toEqual([7, expect.stringContaining('had been committed: it is complete')])
  expect(await readClaim(folderMarkers(join(place.dataDir, 'files')))).toBe(null)
  expect((await storeFiles(place.dataDir)).named).toHaveLength(2)
})

test('connection lost before COMMIT: the files are removed and the restore can be run again', async () => {
  const { archive, place, relay } = await backupAndEmptyPlace()
  void relay.loseAnswerTo('set constraints all immediate').then(relay.cut)
  await expect(restoreBy(place, relay.url, archive)).rejects.toThrow()
  expect((await storeFiles(place.dataDir)).named).toEqual([])
  expect(await users(place)).toBe(0)
  // PostgreSQL notices the lost connection, and releases its lock, a moment later.
  expect((await here(place, ['restore', archive, '-q', '--lock-timeout', '2m'])).code).toBe(0)
})

test('a folder of a possibly committed restore is refused by restore and serve, with its files untouched', async () => {
  const { archive, place, relay } = await backupAndEmptyPlace()
  void relay.loseAnswerTo('commit').then(relay.cut)
  await expect(restoreBy(place, relay.url, archive)).rejects.toThrow('is not known')
  const other = await emptyPlace()
  const into = { databaseUrl: other.databaseUrl, dataDir: place.dataDir }
  const refused = await here(into, ['restore', archive])
  expect([refused.code, refused.stderr]).toEqual([69, expect.stringContaining('is not known')])
  expect((await storeFiles(place.dataDir)).named).toHaveLength(2)
  const served = await dms(into, ['serve', '--migrate', '--check'])
  expect([served.code, served.stderr]).toEqual([78, expect.stringMatching(/has not finished: run dms restore again\n$/)])
})
