import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createThrottle } from '../../../src/cli/arguments/throttle.ts'
import { unknownStats } from '../../../src/cli/upload/find-files.ts'
import { openFile, sendFiles } from '../../../src/cli/upload/send.ts'
import { createClient } from '../../../src/client/client.ts'
import { localTransport } from '../../../src/client/local.ts'
import { startApp } from '../../support/app.ts'

test('several files in one request are stored once when the answer is lost', async () => {
  const { app, ada } = await startApp()
  const folder = await mkdtemp(join(tmpdir(), 'dms-send-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const files = await Promise.all(
    ['a', 'b', 'c'].map(async (name) => {
      const path = join(folder, `${name}.txt`)
      await writeFile(path, name)
      return { ...unknownStats, path, relativePath: `${name}.txt`, size: 1 }
    }),
  )
  const transport = localTransport(app, ada.actor)
  let requestCount = 0
  const client = createClient(
    async (request) => {
      const response = await transport(request)
      if (++requestCount === 1) throw Object.assign(new Error('reset'), { code: 'ECONNRESET' })
      return response
    },
    { pause: async () => {} },
  )
  const sending = { client, options: {}, stdinName: undefined, throttle: createThrottle(undefined) }
  const sent = (await sendFiles(sending, files, () => {})).map((result) => result())
  const stored = await app.db.selectFrom('documents').select('id').execute()
  expect(requestCount).toBe(2)
  expect(stored.map(({ id }) => id).sort()).toEqual(sent.map(({ id }) => id).sort())
})

test('a file is read with buffers of at most 256 KiB, a small one with a buffer of its size', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-send-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'file')
  await writeFile(path, Buffer.alloc(300_000, 1))
  const read = async (size: number | null) => {
    const chunks = await Array.fromAsync(openFile(path, size))
    return [Math.max(...chunks.map(({ length }) => length)), Buffer.concat(chunks).length]
  }
  expect(await read(300_000)).toEqual([262_144, 300_000])
  expect(await read(null)).toEqual([262_144, 300_000])
  // Also where it has grown since its size was read.
  expect(await read(9_999)).toEqual([10_000, 300_000])
})
