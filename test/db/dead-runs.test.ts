import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { expect, inject, onTestFinished, test } from 'vitest'
import { createRunFolder, removeDeadRuns } from '../support/dead-runs.ts'
import { bareEnvironment } from '../support/processes/run.ts'

test('a test run removes folders and databases of killed runs, and none of running ones', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'dms-runs-'))
  onTestFinished(() => rm(parent, { recursive: true, force: true }))
  const alive = await createRunFolder(parent)
  const gone = spawn('true')
  await once(gone, 'exit')
  const dead = join(parent, `dms-test-${gone.pid}-abcdef`)
  await mkdir(join(dead, 'postgres'), { recursive: true })
  const database = spawn('sh', ['-c', 'while :; do sleep 0.1; done', 'postgres', '-D', join(dead, 'postgres')])
  const ended = once(database, 'exit')
  await mkdir(join(parent, 'dms-test-of-somebody'))
  expect(await removeDeadRuns(parent)).toEqual([dead])
  expect((await ended)[1]).toBe('SIGQUIT')
  expect((await readdir(parent)).sort()).toEqual([basename(alive), 'dms-test-of-somebody'].sort())
})

test('commands in tests have their home in the folder of the run', () => {
  const socket = decodeURIComponent(/host=([^&]*)/.exec(inject('databaseUrl'))?.[1] ?? '')
  expect(bareEnvironment().HOME).toBe(join(dirname(socket), 'home'))
})
