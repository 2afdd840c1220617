import { mkdir, mkdtemp, rm, stat, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { acquireFileLock, staleLockMs } from '../../../src/cli/runtime/file-lock.ts'

/** Returns a lock that exists and cannot be read, by any user: it is a folder. */
async function makeUnreadableLock(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-lock-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const lock = join(folder, 'run.lock')
  await mkdir(lock)
  return lock
}

const heldError = (owner: string) => new Error(`held by "${owner}"`)

test('a lock that cannot be read is held until it is stale', async () => {
  const lock = await makeUnreadableLock()
  await expect(acquireFileLock(lock, { deadline: performance.now() + 100, heldError })).rejects.toThrow('held by ""')
  const longAgo = new Date(Date.now() - staleLockMs - 1000)
  await utimes(lock, longAgo, longAgo)
  const release = await acquireFileLock(lock, { deadline: performance.now() + 10_000, heldError })
  expect((await stat(lock)).isFile()).toBe(true)
  await release()
  await expect(stat(lock)).rejects.toThrow('ENOENT')
})

test('a signal ends the wait', async () => {
  const lock = await makeUnreadableLock()
  const deadline = performance.now() + 60_000
  await expect(acquireFileLock(lock, { deadline, heldError, signal: AbortSignal.timeout(50) })).rejects.toThrow(/abort/)
  await expect(acquireFileLock(lock, { deadline, heldError, signal: AbortSignal.abort() })).rejects.toThrow(/abort/)
})
