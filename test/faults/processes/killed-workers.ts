/** F04: the worker is killed while it reads a document, or only its reader processes. */
import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isStillThere, processTree, signal, type TreeProcess } from '../../support/processes/process-tree.ts'
import { type Fault, type FaultContext, type FaultResult, needsTracing, openFaultRun } from '../fault.ts'
import type { Installation } from '../installation.ts'
import { type CrashPoint, crashAt, nameOf, oneFileThread, randomPoints } from './crash-points.ts'
import { fakeTesseract, picture } from './tesseract.ts'

const leaseMs = 2000
/** maximum milliseconds from the death of a worker until another worker has its job */
const mostUntilNextMs = 60_000
/** calls while a document is read, with the maximum number per thread */
const calls = { openat: 12, writev: 12, write: 25, unlink: 2, rename: 2 }
const sample: readonly CrashPoint[] = [{ call: 'write', at: 4, moment: 'after' }]

export const killedWorkers: Fault = {
  id: 'F04',
  name: 'kill -9 of the worker during OCR, or of its reader or tesseract',
  isLong: true,
  skipReason: needsTracing,
  run,
}

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const tesseract = await fakeTesseract(installation.folder)
  const env = { ...tesseract.env, DMS_WORKER_LEASE: `${leaseMs}ms`, DMS_OCR_MAX_ATTEMPTS: '10' }
  const server = await installation.start({ env: { ...env, DMS_WORKER_EMBEDDED: 'false' } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const startWorker = () => installation.startWorker({ env: { ...env, ...oneFileThread, DMS_WORKER_CONCURRENCY: '1' } })
  let worker = await startWorker()
  const untilNext: number[] = []
  let kills = 0

  /** Starts another worker and measures the time until it has the job of the dead one. */
  const takeOver = async (id: string | null, killedAt: number, below: readonly TreeProcess[], name: string): Promise<void> => {
    worker = await startWorker()
    kills++
    const hasIt = await until(mostUntilNextMs, async () => {
      const { status, worker: owner } = await jobOf(installation, id)
      return status === 'completed' || (owner?.includes(`/${worker.pid}`) ?? false)
    })
    expect(hasIt, `${name}: no worker has the job of the dead one after ${mostUntilNextMs / 1000} s`)
    untilNext.push(performance.now() - killedAt)
    const areGone = await until(30_000, async () => !below.some(isStillThere))
    expect(areGone, `${name}: processes of the dead worker remain: ${below.find(isStillThere)?.command}`)
  }

  try {
    // While tesseract runs, kills the whole worker, then only tesseract, then only the reader.
    for (const whom of ['worker', 'tesseract', 'reader'] as const)
      for (let round = 0; round < (isShort ? 1 : 10); round++) {
        await tesseract.behave('slow')
        const { id } = await caller.upload(await picture(), 'scan.png')
        const below = () => processTree(worker.pid).slice(1)
        const isReading = await until(60_000, async () => below().some(({ command }) => isTesseract(command)))
        expect(isReading, `${whom}: tesseract was not started`)
        const all = below()
        await tesseract.behave('good')
        const killedAt = performance.now()
        if (whom === 'worker') {
          await worker.kill()
          await takeOver(id, killedAt, all, 'killed while tesseract ran')
        } else {
          kills++
          const pid = all.find(({ command }) => (whom === 'tesseract' ? isTesseract(command) : /node|dms/.test(command)))?.pid
          if (pid) signal(pid, 'SIGKILL')
          expect(
            await until(90_000, async () => ['completed', 'failed'].includes((await jobOf(installation, id)).status)),
            `${whom}: no end`,
          )
          expect(worker.isRunning(), `${whom} killed: the worker ended`)
        }
      }
    const points = isShort ? sample : randomPoints(calls, 60)
    for (const point of points) {
      let id: string | null = null
      const below = processTree(worker.pid).slice(1)
      const isDead = await crashAt(worker, point, async () => {
        id = (await caller.upload(await picture(), 'scan.png')).id
        return until(60_000, async () => !worker.isRunning() || (await jobOf(installation, id)).status === 'completed')
      })
      if (isDead) await takeOver(id, performance.now(), below, nameOf(point))
    }
    const sorted = untilNext.toSorted((a, b) => a - b)
    const displayed = (ms = 0) => (ms / 1000).toFixed(1)
    notes.push(
      `another worker has the job after ${displayed(sorted[sorted.length >> 1])} s, at most ${displayed(sorted.at(-1))} s (lease ${displayed(leaseMs)} s)`,
    )
    const result = await faultRun.finish(`${kills} kills`)
    const remaining = (await readdir(installation.tempDir)).filter((name) => name.startsWith('dms-'))
    expect(remaining.length <= 1, `temporary folders remain: ${remaining.join(' ')}`)
    return { ...result, problems: [...new Set([...result.problems, ...faultRun.problems])] }
  } finally {
    await worker.kill()
    await server.kill()
  }
}

const isTesseract = (command: string): boolean => /\/tesseract /.test(command)

async function jobOf({ query }: Installation, id: string | null): Promise<{ status: string; worker: string | null }> {
  const [row] = await query<{ status: string; worker: string | null }>(
    `select status, worker from jobs where document_id = '${id}' and kind = 'ocr' order by created_at desc limit 1`,
  )
  return row ?? { status: 'none', worker: null }
}

/** Returns whether the condition became true in time. */
async function until(mostMs: number, isTrue: () => Promise<boolean>): Promise<boolean> {
  for (const end = performance.now() + mostMs; performance.now() < end; await sleep(50)) if (await isTrue()) return true
  return false
}
