/** Two stores as one, here two folders: files are found at any time during a migration. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { AppError } from '../../src/errors.ts'
import { openDisk } from '../../src/files/stores/disk.ts'
import { withSecondary } from '../../src/files/stores/secondary.ts'
import { FileMissing, type FileStore } from '../../src/ports/file-store.ts'

async function openFolder(): Promise<FileStore> {
  const path = await mkdtemp(join(tmpdir(), 'dms-stores-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return openDisk({ path, tmp_path: '', min_free: 0, fsync: false })
}

async function openBoth() {
  const [primary, secondary] = [await openFolder(), await openFolder()]
  let outage: Error | null = null
  const files = withSecondary(primary, async () => {
    if (outage) throw outage
    return secondary
  })
  const lose = (error: Error = new AppError('SERVICE_UNAVAILABLE')) => {
    outage = error
  }
  return { primary, secondary, files, lose }
}

const stage = (store: FileStore, bytes: string | Uint8Array, generation?: string) =>
  store.stage(Readable.from([Buffer.from(bytes)]), 1e6, generation)

/** Stores the bytes. Returns their address. */
async function put(store: FileStore, bytes: string | Uint8Array, generation?: string): Promise<string> {
  const staged = await stage(store, bytes, generation)
  await staged.commit()
  await staged.confirm()
  return staged.address
}

const addressesOf = async (store: FileStore) => (await Array.fromAsync(store.list())).map(({ address }) => address)

test('new files go to the primary, and files of both are read, in parts and by path', async () => {
  const { primary, secondary, files } = await openBoth()
  const [one, two] = [await put(files, 'new'), await put(secondary, 'moved later')]
  expect([await primary.size(one), await secondary.size(one)]).toEqual([3, null])
  expect([await files.size(one), await files.size(two)]).toEqual([3, 11])
  expect(await text(await files.read(two, { start: 6, end: 10 }))).toBe('later')
  const { path, release } = await files.openLocal(two)
  expect(await readFile(path, 'utf8')).toBe('moved later')
  await release()
  const none = `${'0'.repeat(64)}.00000000`
  expect(await files.size(none)).toBeNull()
  await expect(files.read(none)).rejects.toThrow(FileMissing)
  await expect(files.openLocal(none)).rejects.toThrow(FileMissing)
})

test('a file that is moved between the two questions is found', async () => {
  const [primary, secondary] = [await openFolder(), await openFolder()]
  const address = await put(secondary, 'on its way', 'aaaaaaaa')
  const files = withSecondary(primary, async () => {
    await put(primary, 'on its way', 'aaaaaaaa')
    await secondary.remove(address)
    return secondary
  })
  expect(await text(await files.read(address))).toBe('on its way')
})

test('503 STORAGE_UNAVAILABLE instead of a missing file while the secondary is out of reach; the primary still serves', async () => {
  const { primary, secondary, files, lose } = await openBoth()
  const [one, two] = [await put(primary, 'here'), await put(secondary, 'there')]
  lose()
  expect(await text(await files.read(one))).toBe('here')
  const unavailable = { code: 'STORAGE_UNAVAILABLE', status: 503 }
  await expect(files.read(two)).rejects.toMatchObject(unavailable)
  await expect(files.size(two)).rejects.toMatchObject(unavailable)
  await expect(files.openLocal(two)).rejects.toMatchObject(unavailable)
  await expect(files.remove(two)).rejects.toMatchObject(unavailable)
  await expect(Array.fromAsync(files.list())).rejects.toMatchObject({ status: 503 })
  const unreadable: string[] = []
  expect(await Array.fromAsync(files.list((location) => unreadable.push(location)))).toHaveLength(1)
  expect(unreadable).toHaveLength(1)
  expect(await (await stage(files, 'there')).equals(two)).toBe(false)
  await put(files, 'an upload')
})

test('files of the secondary are read while the primary is out of reach', async () => {
  const secondary = await openFolder()
  const address = await put(secondary, 'still there')
  const lost = () => Promise.reject(new AppError('STORAGE_UNAVAILABLE', {}, 'primary'))
  const files = withSecondary({ ...secondary, read: lost, size: lost }, async () => secondary)
  expect(await text(await files.read(address))).toBe('still there')
  await expect(files.size(`${'0'.repeat(64)}.00000000`)).rejects.toMatchObject({ message: 'primary' })
  const damaged = withSecondary({ ...secondary, read: () => Promise.reject(new TypeError('a bug')) }, async () => secondary)
  await expect(damaged.read(address)).rejects.toThrow('a bug')
})

test('a removal is one in both, also of what a migration copies to the primary meanwhile', async () => {
  const [primary, secondary] = [await openFolder(), await openFolder()]
  const address = await put(secondary, 'purged', 'aaaaaaaa')
  const remove = async (removed: string) => {
    await put(primary, 'purged', 'aaaaaaaa')
    await secondary.remove(removed)
  }
  await withSecondary(primary, async () => ({ ...secondary, remove })).remove(address)
  expect([...(await addressesOf(primary)), ...(await addressesOf(secondary))]).toEqual([])
})

test('a list has every file once, in order of address', async () => {
  const { primary, secondary, files } = await openBoth()
  const all: string[] = []
  for (let index = 0; index < 12; index++) {
    const bytes = randomBytes(8)
    const stores = [[primary], [secondary], [primary, secondary]][index % 3] ?? []
    for (const store of stores) all.push(await put(store, bytes, 'aaaaaaaa'))
  }
  expect(await addressesOf(files)).toEqual([...new Set(all)].sort())
})

test('staged bytes are compared with those of the secondary: equal, damaged, gone', async () => {
  const { secondary, files } = await openBoth()
  const [whole, damaged, empty] = [await put(secondary, 'bytes'), await put(secondary, 'bytes'), await put(secondary, '')]
  await writeFile(secondary.describeLocation(damaged), 'bytez')
  const staged = await stage(files, 'bytes')
  expect([await staged.equals(whole), await staged.equals(damaged)]).toEqual([true, false])
  expect(await (await stage(files, '')).equals(empty)).toBe(true)
  await secondary.remove(whole)
  expect(await (await stage(files, 'bytes')).equals(whole)).toBe(false)
})

test('quarantine, derived files and uncommitted files are those of both', async () => {
  const { primary, secondary, files } = await openBoth()
  const address = await put(secondary, 'unused')
  expect(await files.quarantine(address)).toContain('.quarantine')
  await expect(files.quarantine(address)).rejects.toThrow(FileMissing)
  const key = { sha256: address.slice(0, 64), ownerId: 'owner' }
  await secondary.writeDerived(key, 'one.webp', Buffer.from('1'))
  expect(String(await files.readDerived(key, 'one.webp'))).toBe('1')
  await files.writeDerived(key, 'two.webp', Buffer.from('2'))
  expect(await Array.fromAsync(primary.listDerived())).toEqual([{ key, name: 'two.webp', size: 1 }])
  await files.removeDerived(key.sha256)
  expect([...(await Array.fromAsync(primary.listDerived())), ...(await Array.fromAsync(secondary.listDerived()))]).toEqual([])
  for (const store of [primary, secondary]) {
    const staged = await stage(store, 'aborted')
    await staged.commit()
    await staged.discard()
  }
  expect(await files.listUncommitted()).toHaveLength(2)
  expect((await buffer(await files.read(await put(files, '')))).length).toBe(0)
})
