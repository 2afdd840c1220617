import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createThrottle, sendFiles } from '../../../src/cli/upload/send.ts'
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
      return { path, relativePath: `${name}.txt`, size: 1, mtimeNs: '0' }
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
