/** F18: system calls fail: a flush, an open of a file, no free descriptors. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, needs, needsProgram, needsTracing, openFaultRun } from '../fault.ts'
import { attach } from '../processes/strace.ts'

const failures = [
  ['fsync', 'EIO', 1],
  ['fsync', 'EIO', 2],
  ['writev', 'EIO', 2],
  ['openat', 'EROFS', 1],
  ['openat', 'EMFILE', 1],
  ['rename', 'EIO', 1],
] as const

export const failingCalls: Fault = {
  id: 'F18',
  name: 'EIO on flush, write and rename; EROFS; no descriptors',
  skipReason: needs(needsTracing, needsProgram('prlimit')),
  run,
}

async function run({ installation }: FaultContext): Promise<FaultResult> {
  // One thread for files, so that the count of a call is the same each time; no worker, whose calls are not meant.
  const server = await installation.start({ env: { UV_THREADPOOL_SIZE: '1', DMS_WORKER_EMBEDDED: 'false' } })
  const worker = await installation.startWorker()
  const faultRun = await openFaultRun(installation)
  const { caller, expect } = faultRun
  await caller.uploadText()
  for (const [call, error, at] of failures) {
    // Of writev only what goes into files may fail: to a thread of files each of them is its own.
    const strace = await attach(server.pid, ['-o', '/dev/null', '-e', `trace=${call}`, '-e', `inject=${call}:error=${error}:when=${at}`])
    const { status, body } = await caller.uploadBytes(3_000_000)
    await strace.detach()
    const name = `${error} at ${call} ${at}`
    expect(status === 503 || (call === 'writev' && status === 0), `${name}: the upload is answered with ${status} ${body}`)
    expect(server.isRunning(), `${name}: the server ended`)
    const parts = (await readdir(join(installation.dataDir, 'files', '.tmp'))).filter((file) => file.endsWith('.part'))
    expect(parts.length === 0, `${name}: ${parts.length} files are left on their way`)
    const after = await caller.uploadBytes(1_000_000)
    expect(after.status === 201, `${name}: the next upload is answered with ${after.status}`)
  }

  const descriptors = () => readdirSync(`/proc/${server.pid}/fd`).length
  const limit = (most: number) => execFileSync('prlimit', ['--pid', String(server.pid), `--nofile=${most}:`])
  const before = Number(/^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/limits`, 'utf8'))?.[1])
  limit(descriptors() + 1)
  const statuses = await Promise.all(Array.from({ length: 8 }, () => caller.uploadText()))
  expect(
    statuses.every(({ status }) => [0, 201, 503].includes(status)),
    `without descriptors: ${statuses.map(({ status }) => status).join(' ')}`,
  )
  limit(before)
  let status = 0
  for (const end = performance.now() + 60_000; status !== 201 && performance.now() < end; await sleep(200))
    status = (await caller.uploadText()).status
  expect(status === 201, 'an upload is refused though there are descriptors again')
  expect(server.isRunning(), 'the server ended')
  const result = await faultRun.finish(`${failures.length + 1} failures`)
  await worker.kill()
  await server.kill()
  return result
}
