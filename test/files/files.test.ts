import { execFileSync } from 'node:child_process'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, open, readdir, readFile, readlink, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { AppError } from '../../src/errors.ts'
import { hasSameBytes } from '../../src/files/compare-files.ts'
import { folderMarkers } from '../../src/files/folder-markers.ts'
import { openStores } from '../../src/files/open-stores.ts'
import { checkStoreMarker } from '../../src/files/store-marker.ts'
import { openDisk } from '../../src/files/stores/disk.ts'
import { type DerivedKey, FileMissing, type FileStore, InvalidAddress } from '../../src/ports/file-store.ts'
import { pidNamespace } from '../../src/processes.ts'
import { startApp, upload } from '../support/app.ts'
import { openFiles } from '../support/servers/server.ts'

const sha = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex')
/** Longer than the maximum file name. */
const deadPid = 2 ** 22 + 1

async function openStore(settings: { min_free?: number; fsync?: boolean } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'dms-files-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const open = () => openDisk({ path: folder, tmp_path: '', min_free: 0, fsync: true, ...settings })
  return { folder, staging: join(folder, '.tmp'), open, store: await open() }
}

/** Stores the bytes. Returns their address. */
async function keep(store: FileStore, bytes: Uint8Array | string): Promise<string> {
  const staged = await store.stage(Readable.from([Buffer.from(bytes)]), 1 << 30)
  await staged.commit()
  await staged.confirm()
  await staged.discard()
  return staged.address
}

async function textOf(readable: Readable): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of readable) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('a staged file is measured, has no name before commit, and is read completely and in parts', async () => {
  const { folder, staging, store } = await openStore()
  const bytes = randomBytes(5_000_000)
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += 7_919) yield bytes.subarray(at, at + 7_919)
  }
  const staged = await store.stage(pieces(), bytes.length)
  expect({ sha256: staged.sha256, size: staged.size }).toEqual({ sha256: sha(bytes), size: bytes.length })
  expect(Buffer.from(staged.head).equals(bytes.subarray(0, 4100))).toBe(true)
  expect(await store.size(staged.address)).toBeNull()
  await staged.commit()
  expect(await store.size(staged.address)).toBe(bytes.length)
  await staged.confirm()
  await staged.discard()
  expect(await readdir(staging)).toEqual([])
  expect(sha(await readFile((await store.openLocal(staged.address)).path))).toBe(sha(bytes))
  const part: Buffer[] = []
  for await (const chunk of await store.read(staged.address, { start: 10, end: 1_000_000 })) part.push(chunk)
  expect(Buffer.concat(part).equals(bytes.subarray(10, 1_000_001))).toBe(true)
  expect((await stat((await store.openLocal(staged.address)).path)).mode & 0o777).toBe(0o600)
  expect(await openFiles(folder)).toEqual([])
})

test('thousands of tiny chunks, and none', async () => {
  const { store } = await openStore()
  async function* crumbs() {
    for (let index = 0; index < 20_000; index++) yield Buffer.from([index & 255])
  }
  const staged = await store.stage(crumbs(), 20_000)
  expect([staged.size, staged.sha256]).toEqual([20_000, sha(Buffer.from(Array.from({ length: 20_000 }, (_, index) => index & 255)))])
  expect((await store.stage(Readable.from([]), 1)).size).toBe(0)
})

test('bytes of a sender that hardly sends are written after a second, not collected in memory', async () => {
  const { staging, store } = await openStore()
  const sizes: number[] = []
  async function* slow() {
    yield randomBytes(900_000)
    await sleep(1100)
    for (let time = 0; time < 2; time++) {
      yield randomBytes(1)
      const [name = ''] = await readdir(staging)
      await vi.waitFor(async () => expect((await stat(join(staging, name))).size).toBe(900_001))
      sizes.push((await stat(join(staging, name))).size)
    }
  }
  await (await store.stage(slow(), 1 << 30)).discard()
  expect(sizes).toEqual([900_001, 900_001])
})

test('PAYLOAD_TOO_LARGE above the limit, and a failing source: nothing is left', async () => {
  const { folder, staging, store } = await openStore()
  await expect(store.stage(Readable.from([Buffer.alloc(11)]), 10)).rejects.toMatchObject({
    code: 'PAYLOAD_TOO_LARGE',
    details: { max_bytes: 10 },
  })
  async function* broken() {
    yield Buffer.alloc(3_000_000)
    throw new Error('the sender went away')
  }
  await expect(store.stage(broken(), 1 << 30)).rejects.toThrow('the sender went away')
  expect(await readdir(staging)).toEqual([])
  expect(await openFiles(folder)).toEqual([])
})

test('equal bytes have two addresses: removing one does not affect the other', async () => {
  const { store } = await openStore()
  const [first, second] = [await keep(store, 'hello'), await keep(store, 'hello')]
  expect([first.slice(0, 65), second.slice(0, 65), first === second]).toEqual([`${sha('hello')}.`, `${sha('hello')}.`, false])
  await store.remove(first)
  expect(await textOf(await store.read(second))).toBe('hello')
})

test('staged bytes are compared with stored ones to the last byte; a missing or unreadable file is not equal', async () => {
  const { store } = await openStore()
  const bytes = randomBytes(3_000_001)
  const stored = await keep(store, bytes)
  const isEqual = async () => (await store.stage(Readable.from([bytes]), 1 << 30)).equals(stored)
  expect(await isEqual()).toBe(true)
  const damaged = Buffer.from(bytes)
  damaged[3_000_000] = 255 - (damaged[3_000_000] ?? 0)
  await writeFile(store.describeLocation(stored), damaged)
  expect(await isEqual()).toBe(false)
  await writeFile(store.describeLocation(stored), bytes.subarray(1))
  expect(await isEqual()).toBe(false)
  await rm(store.describeLocation(stored))
  expect(await isEqual()).toBe(false)
  await mkdir(store.describeLocation(stored))
  expect(await isEqual()).toBe(false)
})

test('FileMissing for an unknown address; removing it again does nothing', async () => {
  const { store } = await openStore()
  const address = await keep(store, 'hello')
  await store.remove(address)
  await store.remove(address)
  await expect(store.read(address)).rejects.toThrow(FileMissing)
  await expect(store.openLocal(address)).rejects.toThrow(FileMissing)
})

test('a local path has its bytes until it is released, also after their removal', async () => {
  const { staging, store } = await openStore()
  const address = await keep(store, 'hello')
  const { path, release } = await store.openLocal(address)
  await store.remove(address)
  expect(await readFile(path, 'utf8')).toBe('hello')
  await release()
  expect(await readdir(staging)).toEqual([])
})

test('derived files belong to one owner, outlive a replaced file and are removed with all files of their SHA-256', async () => {
  const { store } = await openStore()
  const [ada, bob] = [
    { sha256: sha('hello'), ownerId: 'ada' },
    { sha256: sha('hello'), ownerId: 'bob' },
  ]
  const read = async (key: DerivedKey) => Buffer.from((await store.readDerived(key, '1x1.webp')) ?? []).toString()
  await store.writeDerived(ada, '1x1.webp', Buffer.from('picture'))
  expect([await read(ada), await read(bob)]).toEqual(['picture', ''])
  await store.removeDerived(sha('hello'))
  expect(await read(ada)).toBe('')
})

test('InvalidAddress for every text that is no address: nothing outside of the folder is read, moved or removed', async () => {
  const { folder, store } = await openStore()
  const outside = `${folder}-outside`
  onTestFinished(() => rm(outside, { force: true }))
  await writeFile(outside, 'secret')
  const name = basename(outside)
  const sum = sha('a')
  const texts = [
    `../${name}`,
    `${'../'.repeat(3)}${name}`,
    `aa/../../../${name}`,
    outside,
    '',
    '.',
    '..',
    sum.slice(1),
    sum.toUpperCase(),
    `${sum}.`,
    `${sum}.short`,
    `${sum}.${'a'.repeat(33)}`,
    `${sum}.../../${name}`,
    `${sum}/../../../../${name}`,
    `${sum}.abcdefgh/..`,
    `${sum}\n`,
    `${sum}.abcdefgh\0`,
    `${sum}.ABCDEFGH`,
  ]
  for (const text of texts) {
    const works: (() => unknown)[] = [
      () => store.read(text),
      () => store.openLocal(text),
      () => store.describeLocation(text),
      () => store.size(text),
      () => store.remove(text),
      () => store.quarantine(text),
      () => store.removeDerived(text),
      () => store.readDerived({ sha256: text, ownerId: 'a' }, 'b'),
    ]
    for (const [index, work] of works.entries()) await expect((async () => work())(), `${text} ${index}`).rejects.toThrow(InvalidAddress)
  }
  for (const text of texts.filter((text) => /[^\w]/.test(text))) {
    await expect(store.readDerived({ sha256: sum, ownerId: text }, 'b')).rejects.toThrow(InvalidAddress)
    if (/[/\n\0]/.test(text) || text.startsWith('.'))
      await expect(store.writeDerived({ sha256: sum, ownerId: 'a' }, text, Buffer.from('x'))).rejects.toThrow(InvalidAddress)
  }
  expect(await readFile(outside, 'utf8')).toBe('secret')
})

test('a derived file is refused below min_free', async () => {
  const { folder } = await openStore()
  const full = await openDisk({ path: folder, tmp_path: '', min_free: Number.MAX_SAFE_INTEGER, fsync: true })
  await expect(full.writeDerived({ sha256: sha('a'), ownerId: 'ada' }, '1x1.webp', Buffer.from('x'))).rejects.toThrow(
    'The document store is full.',
  )
})

test('opening removes files of dead processes, and none of running processes and other containers', async () => {
  const { staging, open } = await openStore()
  const old = new Date(Date.now() - 25 * 3600 * 1000)
  const names = {
    dead: `${pidNamespace}_${deadPid}_1_a.part`,
    predecessor: `${pidNamespace}_${process.pid}_1_a.part`,
    living: `${pidNamespace}_1_1_a.part`,
    elsewhere: 'elsewhere_5_1_a.part',
    otherContainer: `elsewhere_${process.pid}_1_a.part`,
    forgotten: 'elsewhere_5_1_b.part',
    unknown: 'x.part',
  }
  for (const name of Object.values(names)) await writeFile(join(staging, name), 'x')
  await utimes(join(staging, names.forgotten), old, old)
  await open()
  expect((await readdir(staging)).sort()).toEqual([names.elsewhere, names.living, names.otherContainer].sort())
})

test('opening keeps files of running processes when the clock has jumped by a day', async () => {
  const { staging, open } = await openStore()
  const names = [`${pidNamespace}_1_1_a.part`, 'elsewhere_5_1_a.part'].sort()
  for (const name of names) await writeFile(join(staging, name), 'x')
  vi.setSystemTime(Date.now() + 25 * 3600 * 1000)
  onTestFinished(() => void vi.useRealTimers())
  await open()
  expect((await readdir(staging)).sort()).toEqual(names)
})

test('a committed file that was not confirmed is uncommitted: after a rollback and after a crash', async () => {
  const { staging, store, open } = await openStore()
  const staged = await store.stage(Readable.from([Buffer.from('failed')]), 100)
  await staged.commit()
  expect(await store.listUncommitted()).toEqual([])
  staged.rollback()
  await staged.confirm()
  await staged.discard()
  await writeFile(join(staging, `${pidNamespace}_${deadPid}_1_a_${sha('crashed')}.named`), '')
  await writeFile(join(staging, `${pidNamespace}_1_1_a_${sha('under way')}.named`), '')
  await keep(store, 'kept')
  const unsettled = await (await open()).listUncommitted()
  expect(unsettled.map(({ address }) => address).sort()).toEqual([sha('crashed'), staged.address].sort())
  for (const { remove } of unsettled) await remove()
  expect(await store.listUncommitted()).toEqual([])
})

test('SERVICE_UNAVAILABLE while the folder is too full or missing, STORAGE_UNAVAILABLE while it is not mounted', async () => {
  const { open, folder, store } = await openStore()
  const take = (one: FileStore) =>
    one.stage(Readable.from([Buffer.from('x')]), 10).then(
      () => 'taken',
      (error: AppError) => [error.code, error.message],
    )
  const full = await openDisk({ path: folder, tmp_path: '', min_free: Number.MAX_SAFE_INTEGER, fsync: true })
  expect(await take(full)).toEqual(['SERVICE_UNAVAILABLE', 'The document store is full.'])
  await writeFile(join(folder, '.dms-store'), 'id')
  expect(await take(store)).toBe('taken')
  await rename(join(folder, '.dms-store'), join(folder, 'elsewhere'))
  expect(await take(store)).toEqual(['STORAGE_UNAVAILABLE', 'The document store is not mounted.'])
  const other = await open()
  await rename(folder, `${folder}-gone`)
  onTestFinished(() => rm(`${folder}-gone`, { recursive: true, force: true }))
  expect(await take(other)).toMatchObject(['SERVICE_UNAVAILABLE', 'The document store cannot take the file now.'])
  await mkdir(folder)
})

test('STORAGE_UNAVAILABLE instead of a missing, removed or listed file while the folder is not mounted', async () => {
  const { open, folder } = await openStore()
  await writeFile(join(folder, '.dms-store'), 'id')
  const store = await open()
  const { address, sha256, ...staged } = await store.stage(Readable.from([Buffer.from('x')]), 10)
  await staged.commit()
  const volume = `${folder}-volume`
  await rename(folder, volume)
  await mkdir(folder)
  const derived = { sha256, ownerId: randomUUID() }
  const methods = [
    () => store.size(address),
    () => store.read(address),
    () => store.openLocal(address),
    () => store.quarantine(address),
    () => store.readDerived(derived, 'thumbnail'),
    () => store.remove(address),
    () => Array.fromAsync(store.list()),
  ]
  const unmounted = { code: 'STORAGE_UNAVAILABLE', message: 'The document store is not mounted.' }
  for (const method of methods) await expect(method(), String(method)).rejects.toMatchObject(unmounted)
  await writeFile(join(folder, '.dms-store'), 'id of another store')
  for (const method of methods) await expect(method(), String(method)).rejects.toMatchObject(unmounted)
  await rm(folder, { recursive: true })
  await rename(volume, folder)
  expect(await store.size(address)).toBe(1)
  await store.remove(address)
  expect(await store.size(address)).toBeNull()
})

test('STORAGE_UNAVAILABLE for a removal in a folder that was unmounted while it was opened', async () => {
  const dms = await startApp()
  const path = join(dms.dataDir, 'files')
  const address = await keep(dms.app.files, 'x')
  await rename(path, `${path}-volume`)
  await mkdir(path)
  const config = { ...dms.app.config, storage: { ...dms.app.config.storage, path } }
  const { files, close } = await openStores(config, dms.app.db)
  onTestFinished(close)
  const unmounted = { code: 'STORAGE_UNAVAILABLE', message: 'The document store is not mounted.' }
  await expect(files.remove(address)).rejects.toMatchObject(unmounted)
  await expect(keep(files, 'y')).rejects.toMatchObject(unmounted)
  await rm(path, { recursive: true })
  await rename(`${path}-volume`, path)
  expect(await files.size(address)).toBe(1)
  await files.remove(address)
  expect(await files.size(address)).toBeNull()
})

test('opening refuses a folder that belongs to another database or is not mounted', async () => {
  const [one, other] = [await startApp(), await startApp()]
  const folder = (dms: typeof one) => join(dms.dataDir, 'files')
  const check = (dms: typeof one, path: string) => checkStoreMarker(dms.app.db, folderMarkers(path), { creates: true })
  await check(one, folder(one))
  await expect(check(one, folder(other))).rejects.toThrow('belongs to another database')
  await upload(one.asAda, 'a.txt', 'hello')
  const empty = await mkdtemp(join(tmpdir(), 'dms-files-'))
  onTestFinished(() => rm(empty, { recursive: true, force: true }))
  await expect(check(one, empty)).rejects.toThrow('is the folder not mounted?')
  await check(other, empty)
  expect(await readFile(join(empty, '.dms-store'), 'utf8')).toBe(await readFile(join(folder(other), '.dms-store'), 'utf8'))
})

test('concurrent commits share a marker: it names those that were never confirmed', async () => {
  const { staging, store } = await openStore()
  const [failed, ...confirmed] = await Promise.all(['a', 'b', 'c'].map((text) => store.stage(Readable.from([Buffer.from(text)]), 100)))
  await Promise.all([failed, ...confirmed].map((staged) => staged?.commit()))
  expect(await readdir(staging)).toEqual([expect.stringMatching(/\.named$/)])
  await Promise.all(confirmed.map((staged) => staged.confirm()))
  expect(await store.listUncommitted()).toEqual([])
  await Promise.all([failed, ...confirmed].map((staged) => staged?.discard()))
  const uncommitted = await store.listUncommitted()
  expect(uncommitted.map(({ address }) => address)).toContain(failed?.address)
  for (const { remove } of uncommitted) await remove()
  expect(await readdir(staging)).toEqual([])
})

test('a file is removed whose volume is mounted between the attempt and its check', async () => {
  const { folder, open: reopen } = await openStore()
  const [marker, away] = [join(folder, '.dms-store'), `${folder}-away`]
  await writeFile(marker, 'one\n')
  const store = await reopen()
  const address = await keep(store, 'hello')
  await rename(folder, away)
  await mkdir(folder)
  execFileSync('mkfifo', [marker])
  const removing = store.remove(address)
  // Opens when the marker is read, after the first attempt.
  const pipe = await open(marker, 'w')
  await rm(folder, { recursive: true })
  await rename(away, folder)
  await pipe.writeFile('one\n')
  await pipe.close()
  await removing
  expect(await store.size(address)).toBeNull()
})

test('a comparison with a file that cannot be opened leaves no file open', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-compare-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [intact, loop] = [join(folder, 'intact'), join(folder, 'loop')]
  await writeFile(intact, 'bytes')
  await symlink(loop, loop)
  await expect(hasSameBytes(intact, loop)).rejects.toMatchObject({ code: 'ELOOP' })
  const opened = await Promise.all((await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  expect(opened).not.toContain(intact)
})
