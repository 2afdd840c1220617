import { createHash } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { openReadCache } from '../../src/files/stores/s3/read-cache.ts'

const bytesOf = (text: string) => ({
  address: createHash('sha256').update(text).digest('hex'),
  fetch: async () => Readable.from([Buffer.from(text)]),
})

async function start() {
  const top = await mkdtemp(join(tmpdir(), 'dms-cache-'))
  onTestFinished(() => rm(top, { recursive: true, force: true }))
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
