import { mkdir, mkdtemp, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { acquireFileLock, staleLockMs } from '../../../src/cli/runtime/file-lock.ts'
import { pidNamespace } from '../../../src/processes.ts'

/** Returns the path of a lock that does not exist. */
async function newLock(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-lock-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  return join(folder, 'run.lock')
}

/** Returns a lock that exists and cannot be read, by any user: it is a folder. */
async function makeUnreadableLock(): Promise<string> {
  const lock = await newLock()
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

test('the lock of a dead process is removed; that of a process in another container is held', async () => {
  const lock = await newLock()
  const deadline = () => performance.now() + 100
  await writeFile(lock, `${hostname()} 99999999 0123456789ab-x`)
  await expect(acquireFileLock(lock, { deadline: deadline(), heldError })).rejects.toThrow(`held by "${hostname()} 99999999 `)
  await writeFile(lock, `${hostname()} 99999999 ${pidNamespace}-x`)
  await (await acquireFileLock(lock, { deadline: deadline(), heldError }))()
  await expect(stat(lock)).rejects.toThrow('ENOENT')
})

test('75 with the file to remove for a stale lock that cannot be removed', async () => {
  // No file beside it can have a longer name.
  const lock = join(dirname(await newLock()), 'x'.repeat(255))
  await writeFile(lock, `${hostname()} 99999999 ${pidNamespace}-x`)
  await expect(acquireFileLock(lock, { deadline: performance.now() + 100, heldError })).rejects.toMatchObject({
    exit: 'BUSY',
    fix: `rm ${lock}`,
  })
})

test('a signal ends the wait', async () => {
  const lock = await makeUnreadableLock()
  const deadline = performance.now() + 60_000
  await expect(acquireFileLock(lock, { deadline, heldError, signal: AbortSignal.timeout(50) })).rejects.toThrow(/abort/)
  await expect(acquireFileLock(lock, { deadline, heldError, signal: AbortSignal.abort() })).rejects.toThrow(/abort/)
})
