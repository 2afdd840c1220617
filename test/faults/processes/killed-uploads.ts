/** F01: the server is killed at every system call of an upload; and the order in which data becomes durable. */
import { randomBytes, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Fault, type Given, needsTracing, openTrial, type Told, type Trial } from '../fault.ts'
import type { Running } from '../place.ts'
import { bothMoments, type CrashPoint, crashAt, nameOf, oneFileThread } from './crash-points.ts'
import { attach } from './strace.ts'

const size = 5_000_000
/** without a worker, whose calls are those of F04 */
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
  missing: needsTracing,
  run,
}

async function run({ place, isShort }: Given): Promise<Told> {
  let server = await place.start({ env })
  const trial = await openTrial(place)
  const { caller, ledger } = trial
  await checkOrder(trial, server, join(place.folder, 'order.trace'))
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
      if (first?.status !== 201) trial.problems.push(`${name}: ${first?.status} though nothing happened`)
      return false
    }
    server = await place.start({ env })
    restarts.push(server.startSeconds)
    const left = (await readdir(join(place.dataDir, 'files', '.tmp'))).filter((file) => file.endsWith('.part'))
    trial.expect(left.length === 0, `${name}: ${left.length} temporary files are left after the restart`)
    const again = await caller.upload(bytes, name, { key })
    trial.expect(again.status === 201, `${name}: the second try was answered with ${again.status}`)
    trial.expect(!first?.id || first.id === again.id, `${name}: kept twice`)
    return true
  }

  let points = 0
  try {
    if (isShort) for (const point of sample) points += Number(await killAt(point))
    else
      for (const call of calls)
        for (const moment of bothMoments) for (let at = 1; at <= most && (await killAt({ call, at, moment })); at++) points++
    trial.notes.push(`again ready in ${middle(restarts)} s, at most ${Math.max(...restarts).toFixed(1)} s`)
    ledger.problems.clear()
    await server.kill()
    server = await place.start()
    return await trial.conclude(`${points} crash points`)
  } finally {
    await server.kill()
  }
}

const middle = (numbers: readonly number[]): string => (numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0).toFixed(1)

/** Bytes are flushed, then named, then the name is flushed, then committed, then answered. */
async function checkOrder({ caller, expect, notes }: Trial, server: Running, path: string): Promise<void> {
  // Only calls that came back count for what had to be over; only calls that began, for what had to wait.
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
  const places = Object.values(order)
  const isRight = places.every((place, index) => place >= 0 && (index === 0 || place > (places[index - 1] ?? 0)))
  expect(isRight, `the order of an upload is ${JSON.stringify(order)}`)
  notes.push('fsync(file) < rename < fsync(folder) < COMMIT < 201')
}

/** Returns the line on which a call that began on another one returned. */
function endOf(lines: readonly string[], at: number): number {
  const line = lines[at]
  if (line === undefined || !line.includes('<unfinished')) return at
  const [, pid, call] = /^(\d+)\s+(\w+)\(/.exec(line) ?? []
  return lines.findIndex((other, index) => index > at && new RegExp(`^${pid}\\s+<\\.\\.\\. ${call} resumed>`).test(other))
}
