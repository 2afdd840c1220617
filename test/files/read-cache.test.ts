import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test, vi } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { stores } from '../../src/files/stores/registry.ts'
import { openReadCache } from '../../src/files/stores/s3/read-cache.ts'
import { storeSettings } from '../support/servers/s3-settings.ts'

const bytesOf = (text: string) => ({
  address: createHash('sha256').update(text).digest('hex'),
  fetch: async () => Readable.from([Buffer.from(text)]),
})

async function makeFolder() {
  const folder = await mkdtemp(join(tmpdir(), 'dms-cache-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function start() {
  const top = await makeFolder()
  const folder = join(top, 'cache')
  const cache = openReadCache(folder, 1 << 20)
  const read = async ({ address, fetch }: ReturnType<typeof bytesOf>) => {
    const { path, release } = await cache.open(address, fetch)
    const text = await readFile(path, 'utf8')
    await release()
    return text
  }
  return { folder, read }
}

test('a removed folder is created again with the next file', async () => {
  const { folder, read } = await start()
  expect(await read(bytesOf('one'))).toBe('one')
  await rm(folder, { recursive: true })
  expect([await read(bytesOf('one')), await read(bytesOf('two'))]).toEqual(['one', 'two'])
})

test('a download is closed that the cache cannot take', async () => {
  const { folder, read } = await start()
  await read(bytesOf('one'))
  await rm(folder, { recursive: true })
  await writeFile(folder, 'a file in its place')
  await chmod(folder, 0o400)
  const source = Readable.from([Buffer.from('two')])
  await expect(read({ ...bytesOf('two'), fetch: async () => source })).rejects.toThrow()
  expect(source.destroyed).toBe(true)
})

test('a file is flushed before it has its name: after a power failure no name is without its bytes', async () => {
  const { folder, read } = await start()
  const one = bytesOf('one')
  const probe = await open('/dev/null')
  const sync = vi.spyOn(Object.getPrototypeOf(probe), 'sync')
  await probe.close()
  const namesAtFlush: string[] = []
  sync.mockImplementation(async () => void namesAtFlush.push(...(await readdir(folder))))
  onTestFinished(() => sync.mockRestore())
  await read(one)
  expect(namesAtFlush).toEqual([expect.stringMatching(/\.part$/)])
  expect(await readdir(folder)).toEqual([one.address])
})

test('the cache of earlier releases is removed: its files may have lost their bytes', async () => {
  const data_dir = await makeFolder()
  const earlier = join(data_dir, 'tmp', 's3-cache')
  const { address } = bytesOf('one')
  await mkdir(earlier, { recursive: true })
  await writeFile(join(earlier, address), '')
  const server = createServer((_, response) => void response.end('one'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { config } = loadConfig({
    env: {},
    flags: {
      data_dir,
      ...storeSettings({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, username: 'id', password: 'secret' }, 'files'),
    },
  })
  const store = await stores.s3.open(config, null)
  onTestFinished(() => store.close())
  const { path, release } = await store.openLocal(address)
  expect(await readFile(path, 'utf8')).toBe('one')
  await release()
  expect(await readdir(join(data_dir, 'tmp'))).toEqual(['s3-read-cache'])
})
