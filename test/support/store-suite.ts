/** Behaviour of every document store. */
import { createHash, randomBytes } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { type DerivedKey, FileMissing, type FileStore, InvalidAddress } from '../../src/ports/file-store.ts'

export const sha = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex')

export const stage = (store: FileStore, bytes: Uint8Array | string, generation?: string) =>
  store.stage(Readable.from([Buffer.from(bytes)]), 1 << 30, generation)

/** Stores the bytes. Returns their address. */
export async function keep(store: FileStore, bytes: Uint8Array | string, generation?: string): Promise<string> {
  const staged = await stage(store, bytes, generation)
  await staged.commit()
  await staged.confirm()
  await staged.discard()
  return staged.address
}

/** The cases; `open` returns an empty store of its own. */
export function testStore(open: () => Promise<FileStore>): void {
  const addressesOf = async (store: FileStore) => (await Array.fromAsync(store.list())).map(({ address }) => address)

  test.each([0, 1, 5_000_000, 9_000_000])('%i bytes are measured, and read back whole, in parts and by path', async (size) => {
    const store = await open()
    const bytes = randomBytes(size)
    async function* pieces() {
      for (let at = 0; at < bytes.length; at += 79_190) yield bytes.subarray(at, at + 79_190)
    }
    const staged = await store.stage(pieces(), size)
    expect({ sha256: staged.sha256, size: staged.size }).toEqual({ sha256: sha(bytes), size })
    expect(Buffer.from(staged.head).equals(bytes.subarray(0, 4100))).toBe(true)
    await staged.commit()
    await staged.commit()
    await staged.confirm()
    await staged.discard()
    const { address } = staged
    expect(await store.size(address)).toBe(size)
    expect(await Array.fromAsync(store.list())).toEqual([{ address, size, ageMs: expect.any(Number) }])
    expect(sha(await buffer(await store.read(address)))).toBe(sha(bytes))
    const part = await buffer(await store.read(address, { start: 10, end: 8_900_000 }))
    expect(part.equals(bytes.subarray(10, 8_900_001))).toBe(true)
    const { path, release } = await store.openLocal(address)
    expect([sha(await readFile(path)), (await stat(path)).mode & 0o777]).toEqual([sha(bytes), 0o600])
    await release()
    expect(store.describeLocation(address)).toMatch(size > 8_500_000 ? /\/.+/ : new RegExp(`/${address}$`))
    expect(await store.listUncommitted()).toEqual([])
  })

  test('PAYLOAD_TOO_LARGE above the limit, and a failing source: nothing is left', async () => {
    const store = await open()
    async function* broken(size: number) {
      yield Buffer.alloc(size)
      throw new Error('the sender went away')
    }
    for (const size of [11, 9_000_000]) {
      await expect(store.stage(Readable.from([Buffer.alloc(size)]), 10)).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
      await expect(store.stage(broken(size), 1 << 30)).rejects.toThrow('the sender went away')
    }
    expect([await addressesOf(store), await store.listUncommitted()]).toEqual([[], []])
  })

  test('equal bytes have two addresses, or the requested one; removing one does not affect the other', async () => {
    const store = await open()
    const [one, two, plain] = [await keep(store, 'hello'), await keep(store, 'hello'), await keep(store, 'hello', '')]
    const given = await keep(store, 'hello', 'abcd1234')
    expect([plain, given]).toEqual([sha('hello'), `${sha('hello')}.abcd1234`])
    expect(await addressesOf(store)).toEqual([one, two, plain, given].sort())
    for (const address of [one, plain]) await store.remove(address)
    await store.remove(one)
    expect(await addressesOf(store)).toEqual([two, given].sort())
    expect(await text(await store.read(two))).toBe('hello')
  })

  test('large and small files are listed in one order, and removed in the same way', async () => {
    const store = await open()
    const large = randomBytes(9_000_000)
    const addresses = [await keep(store, large, 'abcd1234'), await keep(store, 'b'), await keep(store, large), await keep(store, 'a')]
    expect(await addressesOf(store)).toEqual([...addresses].sort())
    for (const address of addresses) await store.remove(address)
    expect(await addressesOf(store)).toEqual([])
    await expect(store.read(addresses[0] ?? '')).rejects.toThrow(FileMissing)
  })

  test('staged bytes are compared with stored ones; a missing file is not equal', async () => {
    const store = await open()
    const bytes = randomBytes(300_001)
    const [stored, other] = [await keep(store, bytes), await keep(store, randomBytes(300_001))]
    const staged = await stage(store, bytes)
    expect([await staged.equals(stored), await staged.equals(other)]).toEqual([true, false])
    await store.remove(stored)
    const again = await stage(store, bytes)
    expect(await again.equals(stored)).toBe(false)
    await Promise.all([staged.discard(), again.discard()])
    expect(await addressesOf(store)).toEqual([other])
  })

  test('FileMissing for an unknown address', async () => {
    const store = await open()
    const none = `${sha('none')}.00000000`
    expect(await store.size(none)).toBeNull()
    await store.remove(none)
    for (const ask of [() => store.read(none), () => store.openLocal(none), () => store.quarantine(none)])
      await expect(ask()).rejects.toThrow(FileMissing)
  })

  test('a local path has its bytes until it is released, also after their removal', async () => {
    const store = await open()
    const address = await keep(store, 'hello')
    const { path, release } = await store.openLocal(address)
    await store.remove(address)
    expect(await readFile(path, 'utf8')).toBe('hello')
    await release()
    await expect(readFile(path)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('a file in quarantine is in no list and not read', async () => {
    const store = await open()
    const addresses = [await keep(store, 'hello'), await keep(store, randomBytes(9_000_000))]
    for (const address of addresses) {
      expect(await store.quarantine(address)).toContain('/')
      expect(await store.size(address)).toBeNull()
    }
    expect(await addressesOf(store)).toEqual([])
  })

  test('derived files belong to one owner, and go with all bytes of their SHA-256', async () => {
    const store = await open()
    const [ada, bob] = [
      { sha256: sha('hello'), ownerId: 'ada' },
      { sha256: sha('hello'), ownerId: 'bob' },
    ]
    const read = async (key: DerivedKey) => Buffer.from((await store.readDerived(key, '1x1.webp')) ?? []).toString()
    await store.writeDerived(ada, '1x1.webp', Buffer.from('picture'))
    expect([await read(ada), await read(bob)]).toEqual(['picture', ''])
    expect(await Array.fromAsync(store.listDerived())).toEqual([{ key: ada, name: '1x1.webp', size: 7 }])
    await store.removeDerived(sha('hello'))
    expect(await read(ada)).toBe('')
  })

  test('a committed file that was not confirmed is uncommitted; confirmed and discarded ones are not', async () => {
    const store = await open()
    const [failed, confirmed, discarded] = await Promise.all(['a', 'b', 'c'].map((bytes) => stage(store, bytes)))
    for (const staged of [failed, confirmed]) await staged?.commit()
    expect(await store.listUncommitted()).toEqual([])
    await confirmed?.confirm()
    await Promise.all([failed, confirmed, discarded].map((staged) => staged?.discard()))
    const uncommitted = await store.listUncommitted()
    expect(uncommitted.map(({ address }) => address)).toContain(failed?.address)
    expect(uncommitted.map(({ address }) => address)).not.toContain(discarded?.address)
    for (const { remove } of uncommitted) await remove()
    expect(await store.listUncommitted()).toEqual([])
  })

  test('InvalidAddress for anything but an address', async () => {
    const store = await open()
    const sum = sha('a')
    for (const address of [
      '',
      '..',
      '../x',
      sum.slice(1),
      `${sum}.`,
      `${sum}.short`,
      `${sum}.abcdefgh/..`,
      `${sum}\n`,
      `${sum}.ABCDEFGH`,
    ]) {
      const asks: (() => unknown)[] = [
        () => store.read(address),
        () => store.openLocal(address),
        () => store.describeLocation(address),
        () => store.size(address),
        () => store.remove(address),
        () => store.quarantine(address),
        () => store.removeDerived(address),
      ]
      for (const ask of asks) await expect((async () => ask())(), address).rejects.toThrow(InvalidAddress)
    }
    await expect(store.writeDerived({ sha256: sum, ownerId: 'a/b' }, '1', Buffer.from('x'))).rejects.toThrow(InvalidAddress)
  })
}
