/** Documents while they move between a folder and a bucket of OpenStack Swift by commands, with servers of either kind. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createClient } from '../../../src/client/client.ts'
import { localTransport } from '../../../src/client/local.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { s3Markers } from '../../../src/files/stores/s3/s3.ts'
import { openLog } from '../../../src/log/log.ts'
import { openApp } from '../../../src/open-app.ts'
import { startApp, upload } from '../../support/app.ts'
import { folder, otherFileSystem } from '../../support/places.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { hasS3Server, type S3Server, startS3 } from '../../support/servers/s3-server.ts'
import { bucketSettings } from '../../support/servers/s3-settings.ts'

let server: S3Server

describe.skipIf(!hasS3Server())('with a server of S3', () => {
  beforeAll(async () => {
    server = await startS3()
  })
  afterAll(() => server.stop())

  /** Starts a server with documents in its folder, and the settings of a bucket that it reads too. */
  async function openArchive() {
    const { 'storage.kind': _, ...bucket } = await bucketSettings(server)
    const started = await startApp(bucket)
    const env: Record<string, string> = { DATABASE_URL: started.databaseUrl, DMS_DATA_DIR: started.dataDir, DMS_STORAGE_MIN_FREE: '0' }
    const names = {
      endpoint: 'ENDPOINT',
      bucket: 'BUCKET',
      prefix: 'PREFIX',
      access_key_id: 'ACCESS_KEY_ID',
      secret_access_key: 'SECRET_ACCESS_KEY',
      force_path_style: 'FORCE_PATH_STYLE',
    }
    for (const [key, name] of Object.entries(names)) env[`DMS_S3_${name}`] = String(bucket[`storage.s3_${key}`])
    const dms = async (args: string, more: Record<string, string> = {}) => {
      const { code, stdout, stderr } = await runHere([...args.split(' '), '--json'], { env: { ...env, ...more } })
      return { code, stderr, output: stdout === '' ? null : JSON.parse(stdout) }
    }
    const counts = async (more: Record<string, string> = {}) =>
      Object.fromEntries(
        (await dms('storage status', more)).output.map((row: { store: string; files: number; state: string }) => [
          row.store,
          row.files ?? row.state,
        ]),
      )
    /** Starts another server of the same archive, whose new files go to the bucket. */
    const startOther = async (settings: Record<string, string> = { 'storage.kind': 's3' }) => {
      const flags = { data_dir: started.dataDir, 'database.url': started.databaseUrl, 'storage.min_free': 0, ...bucket, ...settings }
      const app = await openApp(loadConfig({ env: {}, flags }).config, openLog({ level: 'error', format: 'json' }), { migrate: 'never' })
      onTestFinished(() => app.close())
      return { app, asAda: createClient(localTransport(app, started.ada.actor)) }
    }
    return { ...started, dms, counts, startOther }
  }
  const bytesOf = async (client: Awaited<ReturnType<typeof startApp>>['asAda'], id: string) =>
    text((await client.documents.download(id)).body as never)

  test('files move to the bucket and back; servers of both kinds find all of them at any time', async () => {
    const { asAda, dms, counts, startOther, app } = await openArchive()
    const documents = [await upload(asAda, 'one.txt', 'one'), await upload(asAda, 'large.txt', 'large '.repeat(1_500_000))]
    await asAda.documents.thumbnail(documents[0]?.id ?? '', {})
    expect(await counts()).toEqual({ disk: 2, s3: 'unused' })
    expect(await dms('storage migrate --to s3 -n')).toMatchObject({
      code: 0,
      output: { dry_run: true, moved: 3, bytes: expect.any(Number) },
    })
    expect(await counts()).toEqual({ disk: 2, s3: 'unused' })
    const other = await startOther()
    documents.push(await upload(other.asAda, 'two.txt', 'two'))
    const check = async () => {
      const sizes = [3, 9_000_000, 3]
      for (const client of [asAda, other.asAda])
        for (const [index, { id }] of documents.entries()) expect(await bytesOf(client, id)).toHaveLength(sizes[index] ?? 0)
    }
    await check()
    expect(await counts()).toEqual({ disk: 2, s3: 1 })
    const there = await dms('storage migrate --to s3 --verify', { DMS_STORAGE_KIND: 's3' })
    expect(there).toMatchObject({
      code: 0,
      output: { command: 'storage migrate', to: 's3', moved: 3, failed: 0, items: [{ action: 'moved', count: 3 }] },
    })
    expect(await counts()).toEqual({ disk: 0, s3: 3 })
    await check()
    expect(await dms('storage migrate --to s3')).toMatchObject({ code: 0, output: { total: 0 } })
    // The large file gets other data in the bucket than the server remembers.
    for (const to of ['disk', 's3']) {
      expect(await dms(`storage migrate --to ${to}`)).toMatchObject({ code: 0, output: { moved: 4 } })
      await check()
    }
    expect(await counts()).toEqual({ disk: 0, s3: 3 })
    const entries = await app.db
      .selectFrom('audit_entries')
      .select(['action', 'target', 'details'])
      .where('action', '=', 'dms storage migrate')
      .orderBy('seq')
      .execute()
    // Two of each migration.
    expect(entries).toHaveLength(8)
    expect(entries[0]).toMatchObject({ target: 's3', details: '{"verify":true,"keep":false}' })
    expect(JSON.parse(entries.at(-1)?.details ?? '')).toMatchObject({ moved: { files: 4 } })
  })

  test('uploads of known bytes, deletions, dms check and dms doctor with files in both', async () => {
    const { asAda, dms, counts, startOther, app } = await openArchive()
    const [one, two] = [await upload(asAda, 'one.txt', 'one'), await upload(asAda, 'two.txt', 'two')]
    const other = await startOther()
    await upload(other.asAda, 'again.txt', 'one')
    await asAda.documents.delete(two.id, { permanent: true })
    expect(await counts()).toEqual({ disk: 2, s3: 0 })
    expect(await dms('storage migrate --to s3 --keep')).toMatchObject({ code: 0, output: { copied: 2 } })
    expect(await counts()).toEqual({ disk: 2, s3: 2 })
    const s3 = { DMS_STORAGE_KIND: 's3' }
    expect(await dms('maintenance purge-trash', s3)).toMatchObject({ code: 0, output: { files: 1 } })
    expect(await counts()).toEqual({ disk: 1, s3: 1 })
    for (const more of [{}, s3])
      expect(await dms('check --sample 100% --checks files,checksums,orphans,references', more)).toMatchObject({ code: 0 })
    const diagnosis = await dms('doctor --only stores', s3)
    expect([diagnosis.code, JSON.stringify(diagnosis.output)]).toEqual([0, expect.stringContaining('files are left in')])
    expect(await bytesOf(asAda, one.id)).toBe('one')
    expect(await Array.fromAsync(app.files.list())).toHaveLength(1)
  })

  test('503 STORAGE_UNAVAILABLE, never a missing file, while the other store is out of reach or its settings are missing', async () => {
    const { asAda, dms, counts, startOther, dataDir } = await openArchive()
    const [one, two] = [await upload(asAda, 'one.txt', 'one'), await upload(asAda, 'two.txt', 'two')]
    expect(await dms('storage migrate --to s3')).toMatchObject({ code: 0, output: { moved: 2 } })
    const blind = await startOther({ 'storage.s3_bucket': '' })
    const answer = (client: typeof asAda, id: string) =>
      client.documents.download(id).then(
        ({ status }) => status,
        ({ status, code }) => [status, code],
      )
    expect(await answer(blind.asAda, one.id)).toEqual([503, 'STORAGE_UNAVAILABLE'])
    const unreachable = await startOther({ 'storage.s3_endpoint': 'http://127.0.0.1:1' })
    const three = await upload(unreachable.asAda, 'three.txt', 'three')
    expect([await answer(unreachable.asAda, two.id), await answer(unreachable.asAda, three.id)]).toEqual([
      [503, 'STORAGE_UNAVAILABLE'],
      200,
    ])
    expect(await dms('storage migrate --to s3', { DMS_S3_BUCKET: '' })).toMatchObject({
      code: 78,
      stderr: expect.stringContaining('s3_bucket'),
    })
    expect(await dms('storage status', { DMS_S3_BUCKET: '' })).toMatchObject({ code: 69 })
    // The folder is not mounted.
    const other = await startOther()
    await rm(join(dataDir, 'files'), { recursive: true })
    expect([await answer(other.asAda, three.id), await answer(other.asAda, one.id)]).toEqual([[503, 'STORAGE_UNAVAILABLE'], 200])
    expect(await counts({ DMS_STORAGE_KIND: 's3' })).toEqual({ disk: 'unavailable', s3: 2 })
  })

  test.skipIf(otherFileSystem === undefined)('78 if storage.tmp_path is on another file system than the folder to move to', async () => {
    const { asAda, dms, counts } = await openArchive()
    await upload(asAda, 'one.txt', 'one')
    expect(await dms('storage migrate --to s3')).toMatchObject({ code: 0, output: { moved: 1 } })
    const s3 = { DMS_STORAGE_KIND: 's3', DMS_STORAGE_TMP_PATH: await folder(otherFileSystem) }
    const refused = await dms('storage migrate --to disk', s3)
    expect(refused).toMatchObject({ code: 78, stderr: expect.stringContaining('storage.tmp_path') })
    expect(await counts()).toEqual({ disk: 0, s3: 1 })
  })

  test('storage migrate: 2 without --to, for an unknown store, and for an invalid rate', async () => {
    const { dms } = await openArchive()
    for (const args of ['storage migrate', 'storage migrate --to tape', 'storage migrate --to s3 --limit-rate fast'])
      expect(await dms(args)).toMatchObject({ code: 2 })
  })

  test('storage adopt takes over both stores; 69 names a bucket that is unreachable', async () => {
    const { app, asAda, dms, dataDir } = await openArchive()
    await upload(asAda, 'one.txt', 'one')
    expect((await dms('storage migrate --to s3 --keep')).code).toBe(0)
    const path = join(dataDir, 'files', '.dms-database')
    const marker = await readFile(path, 'utf8')
    const [storeId = '', database = ''] = marker.trim().split(' ')
    const markers = s3Markers(app.config)
    expect(await markers.read('.dms-database')).toBe(marker.trim())
    await writeFile(path, `${storeId} 1/1\n`)
    await markers.write('.dms-database', `${storeId} 1/2`)
    expect((await dms('storage status')).code).toBe(78)
    const unreachable = await dms('storage adopt --yes', { DMS_S3_ENDPOINT: 'http://127.0.0.1:1' })
    expect([unreachable.code, unreachable.stderr]).toEqual([69, expect.stringContaining('127.0.0.1')])
    expect(await dms('storage adopt --yes')).toMatchObject({
      code: 0,
      output: [
        { action: 'adopted', store: 'disk', previous: '1/1', database },
        { action: 'adopted', store: 's3', previous: '1/2', database },
      ],
    })
    expect([await readFile(path, 'utf8'), await markers.read('.dms-database')]).toEqual([marker, marker.trim()])
    expect((await dms('storage status')).code).toBe(0)
  })
})
