/** Files while they move between two stores, here two folders; test/commands/admin/storage.test.ts has commands and servers with S3. */
import { copyFile, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createClient } from '../../src/client/client.ts'
import { localTransport } from '../../src/client/local.ts'
import { loadConfig } from '../../src/config/load.ts'
import { purgeUncommitted } from '../../src/documents/purge.ts'
import { AppError } from '../../src/errors.ts'
import { type MigrationOptions, migrateStore, zeroCounts } from '../../src/files/store-migration.ts'
import { describeStores } from '../../src/files/store-status.ts'
import { openDisk } from '../../src/files/stores/disk.ts'
import { openS3Store } from '../../src/files/stores/s3/s3.ts'
import { withSecondary } from '../../src/files/stores/secondary.ts'
import type { FileStore, StoreKind, Stores } from '../../src/ports/file-store.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { hasS3Server, startS3 } from '../support/servers/s3-server.ts'
import { bucketSettings } from '../support/servers/s3-settings.ts'

/** An archive whose store “s3” is a second folder. */
async function openArchive(primary: StoreKind = 'disk') {
  const { app, ada } = await startApp()
  const path = await mkdtemp(join(tmpdir(), 'dms-stores-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  const opened: Record<StoreKind, FileStore> = {
    disk: app.files,
    s3: await openDisk({ path, tmp_path: '', min_free: 0, fsync: false }),
  }
  const retired: StoreKind[] = []
  const stores: Stores = {
    primary,
    open: async (kind) => opened[kind],
    create: async (kind) => opened[kind],
    retire: async (kind) => void retired.push(kind),
    locate: (kind) => kind,
  }
  const other = primary === 's3' ? 'disk' : 's3'
  const both = { ...app, stores, files: withSecondary(opened[primary], async () => opened[other]) }
  const asAda = createClient(localTransport(both, ada.actor))
  const failures: string[] = []
  const migrate = async (to: StoreKind, options: Partial<MigrationOptions> = {}) => {
    const counts = zeroCounts()
    failures.length = 0
    await migrateStore(both, counts, {
      ...{ to, verify: false, keep: false, isDryRun: false, lockTimeoutMs: 0, signal: new AbortController().signal },
      ...{
        wait: async () => {},
        throttle: async () => {},
        onProgress: () => {},
        onFailure: (_, { message }) => void failures.push(message),
      },
      ...options,
    })
    return Object.fromEntries(Object.entries(counts).flatMap(([name, { files }]) => (files > 0 ? [[name, files]] : [])))
  }
  const status = async () =>
    Object.fromEntries((await describeStores(both)).map(({ store, files, derived_files }) => [store, [files, derived_files]]))
  const address = async (sha256: string) =>
    (await app.db.selectFrom('stored_files').select('address').where('sha256', '=', sha256).executeTakeFirstOrThrow()).address
  return { app: both, asAda, opened, retired, migrate, failures, status, address }
}

test('moves documents, versions and thumbnails there and back; a second run has nothing to do', async () => {
  const { asAda, migrate, status, retired, failures } = await openArchive()
  const documents = await Promise.all(['one', 'two', 'three'].map((bytes, index) => upload(asAda, `${index}.txt`, bytes)))
  const [first] = documents
  await asAda.documents.thumbnail(first?.id ?? '', {})
  expect(await status()).toEqual({ disk: [3, 1], s3: [0, 0] })
  expect(await migrate('s3', { isDryRun: true })).toEqual({ moved: 4 })
  expect(await status()).toEqual({ disk: [3, 1], s3: [0, 0] })
  expect(await migrate('s3', { verify: true })).toEqual({ moved: 4 })
  expect(await status()).toEqual({ disk: [0, 0], s3: [3, 1] })
  for (const [index, bytes] of ['one', 'two', 'three'].entries())
    expect(await text((await asAda.documents.download(documents[index]?.id ?? '')).body as never)).toBe(bytes)
  expect([await migrate('s3'), retired]).toEqual([{}, []])
  expect(await migrate('disk')).toEqual({ moved: 4 })
  expect([await status(), retired, failures]).toEqual([{ disk: [3, 1], s3: [0, 0] }, ['s3'], []])
})

test('whatever file an interrupted run ended at, the next run moves the rest', async () => {
  const { asAda, migrate, status, opened, app } = await openArchive()
  for (let index = 0; index < 12; index++) await upload(asAda, `${index}.txt`, `text ${index}`)
  const { disk, s3 } = opened
  for (const step of ['stage', 'commit', 'confirm', 'remove'] as const) {
    let left = 2
    const controller = new AbortController()
    /** From then on no call has an effect, as after a kill. */
    const die = async <T>(work: () => Promise<T>): Promise<T> => {
      if (left-- <= 0) controller.abort(new Error(`killed at ${step}`))
      controller.signal.throwIfAborted()
      return work()
    }
    opened.disk = { ...disk, remove: (address) => (step === 'remove' ? die(() => disk.remove(address)) : disk.remove(address)) }
    opened.s3 = {
      ...s3,
      async stage(...args) {
        const staged = await (step === 'stage' ? die(() => s3.stage(...args)) : s3.stage(...args))
        const on = (name: typeof step, work: () => Promise<void>) => () => (step === name ? die(work) : work())
        const discard = async () => (controller.signal.aborted ? undefined : staged.discard())
        return { ...staged, discard, commit: on('commit', () => staged.commit()), confirm: on('confirm', () => staged.confirm()) }
      },
    }
    await expect(migrate('s3', { signal: controller.signal })).rejects.toThrow(`killed at ${step}`)
    for await (const { id } of asAda.documents.list({}))
      expect(await text((await asAda.documents.download(id)).body as never)).toMatch(/^text \d+$/)
  }
  Object.assign(opened, { disk, s3 })
  await migrate('s3')
  expect(await status()).toEqual({ disk: [0, 0], s3: [12, 0] })
  expect(await Array.fromAsync(app.files.list())).toHaveLength(12)
})

test('a purge between copy and removal leaves the file in neither store', async () => {
  const { asAda, migrate, status, opened, app, address } = await openArchive()
  const [first, second] = [await upload(asAda, 'one.txt', 'one'), await upload(asAda, 'two.txt', 'two')]
  const purged = [await address(first.sha256), await address(second.sha256)]
  const { disk, s3 } = opened
  // One is purged while it is copied, the other before it is read.
  opened.s3 = {
    ...s3,
    async stage(...args) {
      const staged = await s3.stage(...args)
      for (const each of purged) await app.files.remove(each)
      return staged
    },
  }
  opened.disk = {
    ...disk,
    async read(each, range) {
      if (each === purged[1]) await app.files.remove(each)
      return disk.read(each, range)
    },
  }
  expect(await migrate('s3')).toEqual({ skipped: 2 })
  expect(await status()).toEqual({ disk: [0, 0], s3: [0, 0] })
})

test('a file without a row, of an upload that was killed, stays where its write session leads to', async () => {
  const { app, opened, migrate } = await openArchive()
  const staged = await opened.s3.stage(
    (async function* () {
      yield Buffer.from('begun')
    })(),
    100,
  )
  await staged.commit()
  await staged.discard()
  expect(await migrate('disk', { isDryRun: true })).toEqual({ skipped: 1 })
  expect(await migrate('disk')).toEqual({ skipped: 1 })
  expect([await opened.s3.size(staged.address), await opened.disk.size(staged.address)]).toEqual([5, null])
  await purgeUncommitted(app)
  const worker = await startWorker(app, { queues: ['maintenance'], concurrency: 1 })
  await expect.poll(() => opened.s3.size(staged.address)).toBeNull()
  await worker.stop(10_000)
})

test('a corrupt original stays where it is, and the others are moved', async () => {
  const { asAda, migrate, status, opened, address, failures, retired } = await openArchive('s3')
  const [first] = [await upload(asAda, 'one.txt', 'one'), await upload(asAda, 'two.txt', 'two')]
  await writeFile(opened.s3.describeLocation(await address(first.sha256)), 'ONE')
  expect(await migrate('disk')).toEqual({ moved: 1 })
  expect(failures).toEqual([expect.stringMatching(/^the stored file is corrupt: its SHA-256 is [0-9a-f]{64}$/)])
  expect([await status(), retired]).toEqual([{ disk: [1, 0], s3: [1, 0] }, []])
})

describe.runIf(hasS3Server())('a server of S3', () => {
  test('a corrupt original with the bytes of another file does not remove that file', async () => {
    const server = await startS3()
    onTestFinished(() => server.stop())
    const { app, asAda, migrate, opened, address, failures } = await openArchive()
    const [first, second] = [await upload(asAda, 'one.txt', 'one'), await upload(asAda, 'two.txt', 'two')]
    // As after a restore, which gives all files one generation.
    for (const { sha256 } of [first, second]) {
      const restored = `${sha256}.restored1`
      await rename(opened.disk.describeLocation(await address(sha256)), opened.disk.describeLocation(restored))
      await app.db.updateTable('stored_files').set({ address: restored }).where('sha256', '=', sha256).execute()
    }
    const [kept = first, corrupt = second] = [first, second].sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
    await copyFile(opened.disk.describeLocation(await address(kept.sha256)), opened.disk.describeLocation(await address(corrupt.sha256)))
    const { config } = loadConfig({ env: {}, flags: { data_dir: app.config.data_dir, ...(await bucketSettings(server)) } })
    opened.s3 = openS3Store(config, join(app.config.data_dir, 'cache'))
    onTestFinished(() => opened.s3.close())
    expect(await migrate('s3')).toEqual({ moved: 1 })
    expect(failures).toEqual([`the stored file is corrupt: its SHA-256 is ${kept.sha256}`])
    expect(await opened.s3.size(await address(kept.sha256))).toBe(3)
  })
})

test('with keep the originals stay; a damaged copy is never taken for one, and an intact copy of a damaged original stays', async () => {
  const { asAda, migrate, status, opened, address } = await openArchive()
  const { sha256 } = await upload(asAda, 'one.txt', 'one')
  expect(await migrate('s3', { keep: true })).toEqual({ copied: 1 })
  expect(await migrate('s3', { keep: true, isDryRun: true })).toEqual({ unchanged: 1 })
  expect(await migrate('s3', { keep: true })).toEqual({ unchanged: 1 })
  expect(await status()).toEqual({ disk: [1, 0], s3: [1, 0] })
  const copy = opened.s3.describeLocation(await address(sha256))
  await writeFile(copy, 'on')
  expect(await migrate('s3', { keep: true })).toEqual({ copied: 1 })
  await writeFile(copy, 'ONE')
  expect(await migrate('s3', { keep: true, verify: true })).toEqual({ copied: 1 })
  const original = opened.disk.describeLocation(await address(sha256))
  await writeFile(original, 'o')
  expect(await migrate('s3', { keep: true })).toEqual({ unchanged: 1 })
  expect(await text(await opened.s3.read(await address(sha256)))).toBe('one')
  await writeFile(original, 'one')
  await writeFile(copy, 'ONE')
  expect(await migrate('s3')).toEqual({ moved: 1 })
  expect([await text(await opened.s3.read(await address(sha256))), await status()]).toEqual(['one', { disk: [0, 0], s3: [1, 0] }])
})

test('a copy that differs when it is read back is removed, and the original stays', async () => {
  const { asAda, migrate, status, opened, failures } = await openArchive()
  await upload(asAda, 'one.txt', 'one')
  const { s3 } = opened
  opened.s3 = {
    ...s3,
    async stage(...args) {
      const staged = await s3.stage(...args)
      return { ...staged, commit: () => staged.commit().then(() => writeFile(s3.describeLocation(staged.address), 'ONE')) }
    },
  }
  expect(await migrate('s3', { verify: true })).toEqual({})
  expect([failures, await status()]).toEqual([['the copy differs from the original'], { disk: [1, 0], s3: [0, 0] }])
})

test('STORAGE_UNAVAILABLE when a store stays out of reach, a short outage is waited out, and no original stays open', async () => {
  const { asAda, migrate, status, opened } = await openArchive()
  await upload(asAda, 'one.txt', 'one')
  const { disk, s3 } = opened
  const originals: Readable[] = []
  opened.disk = {
    ...disk,
    async read(address, range) {
      originals.push(await disk.read(address, range))
      return originals.at(-1) as Readable
    },
  }
  let outages = 3
  opened.s3 = {
    ...s3,
    stage: (...args) => (outages-- > 0 ? Promise.reject(new AppError('STORAGE_UNAVAILABLE')) : s3.stage(...args)),
  }
  expect(await migrate('s3')).toEqual({ moved: 1 })
  outages = 100
  await migrate('disk')
  await expect(migrate('s3')).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
  expect(await status()).toEqual({ disk: [1, 0], s3: [0, 0] })
  // Each attempt has opened the original.
  expect(originals.map(({ destroyed }) => destroyed)).toEqual(Array(10).fill(true))
})

test.for([
  [true, { copied: 4 }, { disk: [3, 1], s3: [3, 1] }],
  [false, { moved: 4 }, { disk: [0, 0], s3: [3, 1] }],
] as const)('each file counts once when every list breaks off after each file, keep=%s', async ([keep, counts, files]) => {
  const { asAda, migrate, status, opened } = await openArchive()
  const [first] = await Promise.all(['one', 'two', 'three'].map((bytes, index) => upload(asAda, `${index}.txt`, bytes)))
  await asAda.documents.thumbnail(first?.id ?? '', {})
  const { disk } = opened
  let [listed, breaks] = [0, 0]
  async function* breakOff<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
    let rank = 0
    for await (const item of items) {
      yield item
      if (++rank <= listed) continue
      listed = rank
      breaks++
      throw new AppError('STORAGE_UNAVAILABLE')
    }
    listed = 0
  }
  opened.disk = { ...disk, list: () => breakOff(disk.list()), listDerived: () => breakOff(disk.listDerived()) }
  expect(await migrate('s3', { keep })).toEqual(counts)
  opened.disk = disk
  expect([await status(), breaks > 6]).toEqual([files, true])
})

test('Busy while another migration runs, and a run whose lock is lost removes nothing more', async () => {
  const { app, asAda, migrate, status } = await openArchive()
  for (const bytes of ['one', 'two', 'three']) await upload(asAda, `${bytes}.txt`, bytes)
  let second: Promise<unknown> | null = null
  const throttle = async () => {
    second ??= migrate('disk').catch((error: Error) => error.name)
    await second
    await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name like 'dms storage migrate%'`.execute(app.db)
  }
  await expect(migrate('s3', { throttle })).rejects.toMatchObject({ name: 'LockLost' })
  expect(await second).toBe('Busy')
  expect(await status()).toMatchObject({ disk: [3, 0] })
})

test('documents are uploaded, downloaded and deleted while files move there and back', async () => {
  const { asAda, migrate, app } = await openArchive()
  const ids: string[] = []
  const add = async (bytes: string) => ids.push((await upload(asAda, 'text.txt', bytes)).id)
  for (let index = 0; index < 20; index++) await add(`text ${index}`)
  let isOver = false
  const use = async () => {
    for (let round = 0; !isOver; round++) {
      await add(`later ${round}`)
      const [id = ''] = ids.splice(round % ids.length, 1)
      expect(await text((await asAda.documents.download(id)).body as never)).toMatch(/^(text|later) \d+$/)
      await asAda.documents.delete(id, { permanent: true })
    }
  }
  const worker = await startWorker(app, { queues: ['maintenance'], concurrency: 2 })
  const users = [use(), use()]
  for (const to of ['s3', 'disk', 's3'] as const) await migrate(to, { verify: true })
  isOver = true
  await Promise.all(users)
  await worker.idle()
  await worker.stop(10_000)
  for (const id of ids) expect(await text((await asAda.documents.download(id)).body as never)).toMatch(/^(text|later) \d+$/)
  const rows = await app.db.selectFrom('stored_files').select('address').orderBy('address').execute()
  expect((await Array.fromAsync(app.files.list())).map(({ address }) => address)).toEqual(rows.map(({ address }) => address))
})
