/** A worker as the configuration wants it, and a process that is nothing else. */
import { availableParallelism, hostname } from 'node:os'
import type { App } from '../app.ts'
import type { Config } from '../config/schema.ts'
import type { Queue } from '../jobs/queue.ts'
import { type Log, onSignals, openLog } from '../log/log.ts'
import { openApp } from '../open-app.ts'
import type { RunningJob } from './messages.ts'
import { workerName } from './reap-workers.ts'
import { startSchedule } from './schedule.ts'
import { startWorker, type Worker } from './worker.ts'

export type { Worker }

const known: readonly string[] = ['ocr', 'sync', 'index', 'maintenance'] satisfies Queue[]

export interface WorkerRun {
  /** ends once no job can be run now */
  once: boolean
  /** ends after so many jobs; undefined: never */
  maxJobs?: number
  /** follows host and process in its name */
  label?: string
  signal: AbortSignal
  /** Opens the port of worker.health_listen; null where it is not set. */
  openHealth(app: App, isDraining: () => boolean): Promise<{ readonly url: string; close(): Promise<void> } | null>
  /** takes what is to be done before everything ends at once */
  lastly(work: () => Promise<void>): void
  /** the level that the log shall have from now on, asked for on SIGHUP */
  levelNow(): Promise<string>
}

/** Starts a worker for the configured queues, and what it has to see to besides. */
export async function startConfigured(app: App, { maxJobs, label }: Pick<WorkerRun, 'maxJobs' | 'label'> = {}): Promise<Worker> {
  const { queues, concurrency } = app.config.worker
  const own = queues.filter((queue): queue is Queue => known.includes(queue))
  const name = [workerName(hostname(), process.pid), ...(label === undefined ? [] : [label])].join('/')
  const worker = await startWorker(app, { queues: own, concurrency: concurrency || availableParallelism(), name, maxJobs })
  const schedule = own.includes('maintenance') ? startSchedule(app) : null
  return {
    ...worker,
    async stop(timeout) {
      await schedule?.stop()
      await worker.stop(timeout)
    },
  }
}

/** Works until `signal`, or as long as `run` says. */
export async function runWorker(config: Config, run: WorkerRun): Promise<void> {
  const log = openLog(config.log)
  let worker: Worker | null = null
  const tell = () => worker && report(log, worker)
  await onSignals(log, { levelNow: run.levelNow, tell }, () =>
    work(config, log, run, (started) => {
      worker = started
    }),
  )
}

async function work(config: Config, log: Log, run: WorkerRun, began: (worker: Worker) => void): Promise<void> {
  const { once, signal } = run
  const app = await openApp(config, log, { migrate: 'embedded', hasStatementTimeout: false })
  try {
    const worker = await startConfigured(app, run)
    began(worker)
    run.lastly(() => worker.releaseNow())
    const health = await run.openHealth(app, () => signal.aborted)
    log.info({ worker: worker.name, queues: config.worker.queues, health: health?.url }, 'working')
    const stopped = new Promise<void>((resolve) =>
      signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve(), { once: true }),
    )
    await Promise.race([stopped, worker.reachedMaxJobs, ...(once ? [worker.idle()] : [])])
    await worker.stop(config.worker.shutdown_timeout)
    await health?.close()
  } finally {
    await app.close()
  }
}

/** A line for each running job: somebody asked. */
function report(log: Log, worker: Worker): void {
  const running = runningJobs(worker)
  for (const job of running) log.info({ ...job }, 'job runs')
  if (running.length === 0) log.info('no job runs')
}

/** What a worker is at, for logs and for its supervisor. */
export const runningJobs = (worker: Worker): RunningJob[] =>
  worker.running().map(({ job, since }) => ({
    job: job.id,
    kind: job.kind,
    document_id: job.document_id ?? undefined,
    running_ms: Math.round(performance.now() - since),
  }))
