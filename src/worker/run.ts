/** A worker as the configuration wants it, and a process that is nothing else. */
import { availableParallelism } from 'node:os'
import type { App } from '../app.ts'
import type { Config } from '../config.ts'
import type { Queue } from '../jobs.ts'
import { type Log, openLog, reopeningOnHangup } from '../log.ts'
import { openApp } from '../open-app.ts'
import { openHealth } from './health.ts'
import { startSchedule } from './schedule.ts'
import { startWorker, type Worker } from './worker.ts'

export type { Worker }

const known: readonly string[] = ['ocr', 'sync', 'index', 'maintenance'] satisfies Queue[]

/** Starts a worker for the configured queues, and what it has to see to besides. */
export async function startConfigured(app: App): Promise<Worker> {
  const { queues, concurrency } = app.config.worker
  const own = queues.filter((queue): queue is Queue => known.includes(queue))
  const worker = await startWorker(app, { queues: own, concurrency: concurrency || availableParallelism() })
  const schedule = own.includes('maintenance') ? startSchedule(app) : null
  return {
    ...worker,
    async stop(timeout) {
      await schedule?.stop()
      await worker.stop(timeout)
    },
  }
}

/** Works until `signal`, or with `once` until nothing can be run any more. */
export async function runWorker(config: Config, { once, signal }: { once: boolean; signal: AbortSignal }): Promise<void> {
  const log = openLog(config.log)
  await reopeningOnHangup(log, () => work(config, log, once, signal))
}

async function work(config: Config, log: Log, once: boolean, signal: AbortSignal): Promise<void> {
  const app = await openApp(config, log, { migrate: 'embedded', statementTimeout: false })
  try {
    const worker = await startConfigured(app)
    const health = await openHealth(app, () => signal.aborted)
    log.info({ worker: worker.name, queues: config.worker.queues, health: health?.url }, 'working')
    const stopped = new Promise<void>((resolve) =>
      signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    await (once ? Promise.race([worker.idle(), stopped]) : stopped)
    await worker.stop(config.worker.shutdown_timeout)
    await health?.close()
  } finally {
    await app.close()
  }
}
