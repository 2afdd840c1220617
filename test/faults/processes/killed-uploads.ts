/** F01: the server is killed at every system call of an upload. Also checks the order in which data becomes durable. */
import { randomBytes, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Fault, type FaultContext, type FaultResult, type FaultRun, needsTracing, openFaultRun } from '../fault.ts'
import type { RunningProcess } from '../installation.ts'
import { bothMoments, type CrashPoint, crashAt, nameOf, oneFileThread } from './crash-points.ts'
import { attach } from './strace.ts'

const size = 5_000_000
/** a server without a worker; F04 covers the calls of a worker */
const env = { ...oneFileThread, DMS_WORKER_EMBEDDED: 'false' }
const calls = ['openat', 'writev', 'write', 'fsync', 'rename', 'unlink'] as const
/** maximum number of each call in an upload */
const most = 60

const sample: readonly CrashPoint[] = [
  { call: 'writev', at: 3, moment: 'before' },
  { call: 'fsync', at: 1, moment: 'after' },
  { call: 'rename', at: 1, moment: 'before' },
  { call: 'rename', at: 1, moment: 'after' },
  { call: 'write', at: 3, moment: 'before' },
  { call: 'write', at: 4, moment: 'after' },
]
export const killedUploads: Fault = {
  id: 'F01',
  isLong: true,
  name: 'kill -9 at every system call of an upload',
  skipReason: needsTracing,
  run,
}

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  let server = await installation.start({ env })
  const faultRun = await openFaultRun(installation)
  const { caller, ledger } = faultRun
  await checkOrder(faultRun, server, join(installation.folder, 'order.trace'))
  const restarts: number[] = []

  /** Returns whether the server was killed. */
  const killAt = async (point: CrashPoint): Promise<boolean> => {
    const bytes = randomBytes(size)
    const key = randomUUID()
    const name = `${nameOf(point)}.bin`
    let first: Awaited<ReturnType<typeof caller.upload>> | undefined
    const isDead = await crashAt(server, point, async () => {
      first = await caller.upload(bytes, name, { key })
      return first.status !== 0
    })
    if (!isDead) {
      if (first?.status !== 201) faultRun.problems.push(`${name}: ${first?.status} though nothing happened`)
      return false
    }
    server = await installation.start({ env })
    restarts.push(server.startSeconds)
    const remaining = (await readdir(join(installation.dataDir, 'files', '.tmp'))).filter((file) => file.endsWith('.part'))
    faultRun.expect(remaining.length === 0, `${name}: ${remaining.length} temporary files are left after the restart`)
    const again = await caller.upload(bytes, name, { key })
    faultRun.expect(again.status === 201, `${name}: the second try was answered with ${again.status}`)
    faultRun.expect(!first?.id || first.id === again.id, `${name}: kept twice`)
    return true
  }

  let points = 0
  try {
    if (isShort) for (const point of sample) points += Number(await killAt(point))
    else
      for (const call of calls)
        for (const moment of bothMoments) for (let at = 1; at <= most && (await killAt({ call, at, moment })); at++) points++
    faultRun.notes.push(`again ready in ${middle(restarts)} s, at most ${Math.max(...restarts).toFixed(1)} s`)
    ledger.problems.clear()
    await server.kill()
    server = await installation.start()
    return await faultRun.finish(`${points} crash points`)
  } finally {
    await server.kill()
  }
}

const middle = (numbers: readonly number[]): string => (numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0).toFixed(1)

/** Checks the order: bytes flushed, renamed, folder flushed, committed, answered. */
async function checkOrder({ caller, expect, notes }: FaultRun, server: RunningProcess, path: string): Promise<void> {
  // Earlier steps must have returned; later steps must not have begun.
  const watched = 'trace=openat,write,writev,fsync,fdatasync,rename'
  const strace = await attach(server.pid, ['-yy', '-s', '64', '-o', path, '-e', watched])
  const { status } = await caller.uploadBytes(size)
  await strace.detach()
  expect(status === 201, `the watched upload was answered with ${status}`)
  const lines = (await readFile(path, 'utf8')).split('\n')
  const began = (pattern: RegExp, from = 0) => lines.findIndex((line, index) => index >= from && pattern.test(line))
  const renamed = began(/ rename\(".*\.part", "/)
  const folder = /rename\(".*", "(.*)\/[0-9a-f]{64}[.0-9a-z]*"/.exec(lines[renamed] ?? '')?.[1] ?? 'nowhere'
  const committed = began(/ write\(\d+<.*>, "Q\\0\\0\\0\\vcommit/, renamed)
  const answered = began(/"HTTP\/1\.1 201/, renamed)
  const fileFlushed = endOf(lines, began(/ fsync\(\d+<[^>]*\.part>/))
  const folderFlushed = endOf(lines, began(new RegExp(` fsync\\(\\d+<${folder.replaceAll(/[.*+?^$()[\]{}|\\]/g, '\\$&')}>`), renamed))
  const order = { fileFlushed, renamed, folderFlushed, committed, answered }
  const positions = Object.values(order)
  const isRight = positions.every((position, index) => position >= 0 && (index === 0 || position > (positions[index - 1] ?? 0)))
  expect(isRight, `the order of an upload is ${JSON.stringify(order)}`)
  notes.push('fsync(file) < rename < fsync(folder) < COMMIT < 201')
}

/** Returns the line with the end of a call that began on another line. */
function endOf(lines: readonly string[], at: number): number {
  const line = lines[at]
  if (line === undefined || !line.includes('<unfinished')) return at
  const [, pid, call] = /^(\d+)\s+(\w+)\(/.exec(line) ?? []
  return lines.findIndex((other, index) => index > at && new RegExp(`^${pid}\\s+<\\.\\.\\. ${call} resumed>`).test(other))
}
