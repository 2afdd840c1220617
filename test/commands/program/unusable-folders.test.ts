/** Folders that cannot be created: no command waits for them. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../../support/processes/run.ts'
import { startServer } from '../../support/servers/server.ts'

// Nobody listens there.
const server = ['--url', 'http://127.0.0.1:9', '--insecure-http']

/** Time after which a command hangs. */
const timeout = 60_000

test.runIf(process.platform === 'linux')('69 documents upload -r without a server: a state folder in /proc is left out', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-upload-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'a.txt'), 'hello')
  const env = { DMS_TOKEN: 'x', XDG_STATE_HOME: '/proc/dms/state' }
  expect(await run(['documents', 'upload', '-r', folder, ...server], { env, timeout })).toMatchObject({ code: 69, signal: null })
})

test.runIf(process.platform === 'linux').each([
  ['documents', 'export', '--to', '/proc/dms/files'],
  ['documents', 'download', '01234567-89ab-7def-8123-456789abcdef', '--to', '/proc/dms/files/'],
])('2 %s %s into a folder in /proc', async (...args) => {
  const ended = await run([...args, ...server], { env: { DMS_TOKEN: 'x' }, timeout })
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('/proc/dms') })
})

test.runIf(process.platform === 'linux').each([
  ['config', 'init', '--to', '/proc/dms/config.toml'],
  ['docs', 'man', '--dir', '/proc/dms/pages'],
])('2 %s %s into a folder in /proc', async (...args) => {
  expect(await run(args, { timeout })).toMatchObject({ code: 2, stderr: expect.stringContaining('/proc/dms') })
})

test.runIf(process.platform === 'linux').each(['dir', 'tar'])('1 backup create --format %s into a folder in /proc', async (format) => {
  const { databaseUrl, dataDir } = await startServer()
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0' }
  const ended = await run(['backup', 'create', '--format', format, '--to', '/proc/dms/backup'], { env, timeout })
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('/proc/dms') })
})
