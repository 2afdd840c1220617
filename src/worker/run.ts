/** Runs a worker as the configuration says, in this process: for `dms worker`, and for the worker process of a server. */
import { availableParallelism, hostname } from 'node:os'
import type { App } from '../app.ts'
import type { Config } from '../config/schema.ts'
import { NewerSchema } from '../db/migrate.ts'
import type { Queue } from '../jobs/queue.ts'
import { type Log, onSignals, openLog } from '../log/log.ts'
import { type OpenOptions, openApp } from '../open-app.ts'
import { workerName } from './reap-workers.ts'
import { startSchedule } from './schedule.ts'
import type { RunningJob } from './supervisor.ts'
import { startWorker, type Worker } from './worker.ts'

export type { Worker }

interface WorkerLimits {
  /** Default: no limit. */
  maxJobs?: number
  /** Suffix of the worker's name, after host and process. */
  label?: string
}

export interface WorkerRun extends WorkerLimits {
  migrate: OpenOptions['migrate']
  /** stops when no job can run now */
  once: boolean
  signal: AbortSignal
  /** Opens the port of worker.health_listen; null if it is not configured. */
  openHealth(app: App, isDraining: () => boolean): Promise<{ readonly url: string; close(): Promise<void> } | null>
  /** Registers work that has to precede a forced exit. */
  onForcedExit(work: () => Promise<void>): void
  /** Reads the configured log level, on SIGHUP. */
  readLevel(): Promise<string>
}

/** Starts a worker for the configured queues, with the schedule if it runs maintenance. */
export async function startConfigured(app: App, { maxJobs, label }: WorkerLimits = {}): Promise<Worker> {
  const { concurrency } = app.config.worker
  const queues = app.config.worker.queues as readonly Queue[]
  const name = [workerName(hostname(), process.pid), ...(label === undefined ? [] : [label])].join('/')
  const worker = await startWorker(app, { queues, concurrency: concurrency || availableParallelism(), name, maxJobs })
  const schedule = queues.includes('maintenance') ? startSchedule(app) : null
  return {
    ...worker,
    async stop(timeoutMs) {
      await Promise.all([worker.stop(timeoutMs), schedule?.stop(timeoutMs)])
    },
  }
}

/** Runs `dms worker` until `signal` aborts or a limit of `run` is reached. Throws an AbortError if `signal` aborts before the worker starts. */
export async function runWorker(config: Config, run: WorkerRun): Promise<void> {
  const { once, signal } = run
  const log = openLog(config.log)
  let worker: Worker | null = null
  const logStatus = () => worker && logRunningJobs(log, worker)
  await onSignals(log, { readLevel: run.readLevel, logStatus }, () =>
    withApp(config, log, { migrate: run.migrate, signal }, async (app) => {
      const started = await startConfigured(app, run)
      worker = started
      run.onForcedExit(() => started.releaseNow())
      const health = await run.openHealth(app, () => signal.aborted)
      log.info({ worker: started.name, queues: config.worker.queues, health: health?.url }, 'working')
      const end = await Promise.race([waitForAbort(signal), started.reachedMaxJobs, started.outdated, ...(once ? [started.idle()] : [])])
      await started.stop(config.worker.shutdown_timeout)
      await health?.close()
      if (end instanceof NewerSchema) throw end
    }),
  )
}

/** Opens an App for `work`, and closes it. */
export async function withApp(
  config: Config,
  log: Log,
  options: Pick<OpenOptions, 'migrate' | 'signal'>,
  work: (app: App) => Promise<void>,
): Promise<void> {
  const app = await openApp(config, log, { ...options, hasStatementTimeout: false })
  try {
    await work(app)
  } finally {
    await app.close()
  }
}

/** Resolves when `signal` has aborted. */
export const waitForAbort = (signal: AbortSignal): Promise<unknown> =>
  new Promise((resolve) => (signal.aborted ? resolve(null) : signal.addEventListener('abort', resolve, { once: true })))

function logRunningJobs(log: Log, worker: Worker): void {
  const running = runningJobs(worker)
  for (const job of running) log.info({ ...job }, 'job runs')
  if (running.length === 0) log.info('no job runs')
}

/** Returns the running jobs of a worker, for logs and for its supervisor. */
export const runningJobs = (worker: Worker): RunningJob[] =>
  worker.running().map(({ job, since }) => ({
    job: job.id,
    kind: job.kind,
    document_id: job.document_id ?? undefined,
    running_ms: Math.round(performance.now() - since),
  }))
