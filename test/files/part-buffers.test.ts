/** Parts of uploads in memory and in temporary files. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { openPartBuffers, type PartBuffer } from '../../src/files/stores/s3/part-buffers.ts'

async function start() {
  const root = await mkdtemp(join(tmpdir(), 'dms-parts-'))
  const folder = join(root, 'data', 'cache')
  const open = openPartBuffers(folder)
  const parts: PartBuffer[] = []
  onTestFinished(async () => {
    await Promise.all(parts.map((part) => part.discard()))
    await rm(root, { recursive: true, force: true })
  })
  const fill = async (bytes: Uint8Array, pieceSize: number) => {
    const part = open()
    parts.push(part)
    for (let at = 0; at < bytes.length; at += pieceSize) await part.append(bytes.subarray(at, at + pieceSize))
    return part
  }
  const countFiles = async () => {
    const targets = await Promise.all((await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
    return targets.filter((target) => target.startsWith(folder)).length
  }
  return { root, folder, fill, countFiles }
}

test.each([0, 1, 65_536, 65_537, 1_000_003])('%i bytes in tiny, odd and large pieces are read back, twice', async (size) => {
  const { fill } = await start()
  const bytes = randomBytes(size)
  for (const pieceSize of [size > 100_000 ? 997 : 1, 79_190, 10_000_000]) {
    const part = await fill(bytes, pieceSize)
    expect(part.size()).toBe(size)
    for (const time of [1, 2]) expect((await buffer(part.read())).equals(bytes), `time ${time}`).toBe(true)
    await part.discard()
    expect(part.size()).toBe(0)
  }
})

test('parts beyond 64 MiB are in files without names; a discarded part makes room in memory', async () => {
  const { folder, fill, countFiles } = await start()
  const bytes = randomBytes(8_300_003)
  const parts: PartBuffer[] = []
  for (let count = 0; count < 12; count++) parts.push(await fill(bytes, 100_000))
  expect(await countFiles()).toBe(4)
  expect(await readdir(folder)).toEqual([])
  for (const part of parts) expect((await buffer(part.read())).equals(bytes)).toBe(true)
  for (const part of parts) await part.discard()
  expect(await countFiles()).toBe(0)
  await fill(bytes, 100_000)
  expect(await countFiles()).toBe(0)
})

test('503 SERVICE_UNAVAILABLE if there is neither memory nor a folder for files', async () => {
  const { root, fill } = await start()
  await writeFile(join(root, 'data'), 'no folder')
  await expect(fill(randomBytes(70_000_000), 1_000_000)).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE', status: 503 })
})
