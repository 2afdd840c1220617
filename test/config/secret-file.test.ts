/** Generated secrets survive a power failure and a kill. */
import { type FileHandle, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createSecretWriter } from '../../src/backup/restore/file-writer.ts'
import { readOrCreateSecret, replaceSecretFile } from '../../src/config/secret-file.ts'
import { mountSmallDisk } from '../support/small-disk.ts'

test('the name of a new, replaced or restored secret is flushed', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-secret-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { ino } = await stat(folder)
  const handle = await open(folder)
  const flushed: number[] = []
  const spy = vi.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'sync').mockImplementation(async function (this: FileHandle) {
    flushed.push((await this.stat()).ino)
  })
  onTestFinished(async () => {
    spy.mockRestore()
    await handle.close()
  })
  const path = join(folder, 'sources_key')
  const writer = createSecretWriter(folder)
  writer.add('jwt_secret', Buffer.from('a secret of the backup'))
  for (const write of [() => readOrCreateSecret(path, 32), () => replaceSecretFile(path, 'another'), () => writer.write()]) {
    flushed.length = 0
    await write()
    expect(flushed.at(-1)).toBe(ino)
  }
})

test('a restore that ends before it has written a key leaves no empty one, and the next restore writes it', async ({ skip }) => {
  const folder = await mountSmallDisk(skip, 'size=8k')
  const filler = join(folder, 'filler')
  await writeFile(filler, Buffer.alloc(8192))
  const secret = Buffer.from([0xff, 0, 0x0a, 0x80])
  const path = join(folder, 'sources_key')
  const restore = () => {
    const writer = createSecretWriter(folder)
    writer.add('sources_key', secret)
    return writer.write()
  }
  await expect(restore()).rejects.toThrow('ENOSPC')
  expect(await readdir(folder)).toEqual(['filler'])
  await rm(filler)
  expect(await restore()).toEqual([])
  expect([await readFile(path), (await stat(path)).mode & 0o777, await readdir(folder)]).toEqual([secret, 0o600, ['sources_key']])
  expect(await restore()).toEqual([])
  await writeFile(path, 'another key')
  expect([await restore(), await readFile(path, 'utf8'), await readdir(folder)]).toEqual([['sources_key'], 'another key', ['sources_key']])
})
