/** Runs jobs: some of each queue at once, each under a lease that is kept alive, until told to stop. */
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { listen } from '../db/listen.ts'
import * as claims from '../jobs/leases.ts'
import type * as jobs from '../jobs/queue.ts'
import { reapPredecessor, reapStaleWorkers, workerName } from './reap-workers.ts'
import { recordFailure, releaseJob, runJob, Stopped } from './run-job.ts'

export interface WorkerOptions {
  queues: readonly jobs.Queue[]
  /** OCR jobs at once; of the other queues see `atOnce` */
  concurrency: number
  name?: string
  /** takes no more than so many in all; default: no end */
  maxJobs?: number
}

export interface Worker {
  readonly name: string
  /** What it is at, with when that began by performance.now(). */
  running(): readonly { readonly job: jobs.Job; readonly since: number }[]
  /** Resolves once the last of `maxJobs` has ended. */
  readonly reachedMaxJobs: Promise<void>
  /** Resolves once no job can be run now and none is running; for `--once`. Throws nothing. */
  idle(): Promise<void>
  /** Takes no more jobs, waits up to `timeout` milliseconds for running ones, then gives them back unharmed. */
  stop(timeout: number): Promise<void>
  /** Takes no more jobs and gives back unharmed those that run, without waiting for their ends: the process has to end now. */
  releaseNow(): Promise<void>
}

/** Milliseconds between two signs of life of a worker that has nothing to do; one at work gives one with each renewal of its leases. */
const idleHeartbeatIntervalMs = 20_000

/** Two syncs, so that a slow source does not hold up all the others; of one user no more than sources.max_syncs_per_user. */
const concurrencyOf = { sync: 2, index: 1, maintenance: 1 } as const

interface Running {
  job: jobs.Job
  since: number
  abort: AbortController
  done: Promise<void>
}

/** Starts to work. Throws where the database cannot be reached. */
export async function startWorker(
  app: App,
  { queues, concurrency, name = workerName(hostname(), process.pid), maxJobs = Number.POSITIVE_INFINITY }: WorkerOptions,
): Promise<Worker> {
  const { lease, poll_interval } = app.config.worker
  const running = new Map<string, Running>()
  const idlers = new Set<() => void>()
  let isStopping = false
  let isFilling = false
  let wakes = 0
  let startedCount = 0
  const { promise: spent, resolve: tellSpent } = Promise.withResolvers<void>()

  const freeSlots = (queue: jobs.Queue) =>
    (queue === 'ocr' ? concurrency : concurrencyOf[queue]) - [...running.values()].filter(({ job }) => job.queue === queue).length

  /** Fills every free place; called on each wake, and once more when a wake came meanwhile. */
  const fillSlots = async () => {
    wakes++
    if (isFilling) return
    isFilling = true
    try {
      for (let seen = 0; seen !== wakes && !isStopping; ) {
        seen = wakes
        for (const queue of queues) while (!isStopping && freeSlots(queue) > 0 && (await startNext(queue)));
      }
    } catch (error) {
      logUnavailable(error)
    } finally {
      isFilling = false
      if (running.size === 0) for (const idle of idlers) idle()
      if (running.size === 0 && startedCount >= maxJobs) tellSpent()
    }
  }

  const startNext = async (queue: jobs.Queue): Promise<boolean> => {
    if (startedCount >= maxJobs) return false
    const maxRunning = queue === 'sync' ? app.config.sources.max_syncs_per_user : 0
    const job = await claims.leaseNext(app.db, queue, name, lease, maxRunning)
    if (!job) return false
    startedCount++
    if (isStopping) {
      await app.db.transaction().execute(releaseJob(app, job))
      return false
    }
    const abort = new AbortController()
    const done = runJob(app, job, abort.signal).finally(() => {
      running.delete(job.id)
      void fillSlots()
    })
    running.set(job.id, { job, since: performance.now(), abort, done })
    return true
  }

  const onNotification = (payload: string) => {
    const [word, id = ''] = payload.split(':')
    if (word === 'cancel') running.get(id)?.abort.abort(new claims.LeaseLost())
    else void fillSlots()
  }

  let heartbeatAt = Number.NEGATIVE_INFINITY
  /** Times in the table are the database's: hosts' clocks differ. */
  const sendHeartbeat = async () => {
    if (running.size === 0 && performance.now() - heartbeatAt < idleHeartbeatIntervalMs) return
    await app.db
      .insertInto('workers')
      .values({ name, queues: [...queues] })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ queues: [...queues], seen_at: sql<Date>`now()` }))
      .execute()
    heartbeatAt = performance.now()
    for (const { job, abort } of running.values()) if (!(await claims.renewLease(app.db, job, lease))) abort.abort(new claims.LeaseLost())
  }

  const recoverExpired = async () => {
    await reapStaleWorkers(app.db, name)
    for (let lost = await claims.leaseExpired(app.db, name, lease); lost; lost = await claims.leaseExpired(app.db, name, lease)) {
      const problem = { code: 'WORKER_LOST', message: 'The worker stopped in the middle of it.', isRetryable: true }
      await app.db.transaction().execute(recordFailure(app, lost, problem))
    }
  }

  const logUnavailable = (error: unknown) => app.log.warn({ err: (error as Error).message }, 'the queue is out of reach')
  /** A round that takes longer than its interval is not started twice. */
  const every = (interval: number, round: () => Promise<void>) => {
    let isBusy = false
    return setInterval(() => {
      if (isBusy) return
      isBusy = true
      void round()
        .catch(logUnavailable)
        .finally(() => {
          isBusy = false
        })
    }, interval)
  }

  await reapPredecessor(app.db, name)
  await sendHeartbeat()
  await recoverExpired()
  const listening = listen(app.database, app.log, 'dms_jobs', onNotification, () => void fillSlots())
  const timers = [
    every(poll_interval, fillSlots),
    every(Math.min(1000, lease / 4), sendHeartbeat),
    every(Math.min(5000, lease / 2), recoverExpired),
  ]
  void fillSlots()

  const unregister = () =>
    app.db
      .deleteFrom('workers')
      .where('name', '=', name)
      .execute()
      .catch(() => {})

  const ended = async () => {
    while (isFilling || running.size > 0) await Promise.race([...[...running.values()].map(({ done }) => done), sleep(20)])
  }

  return {
    name,
    reachedMaxJobs: spent,
    running: () => [...running.values()],
    idle: async () => {
      const becameIdle = new Promise<void>((resolve) => idlers.add(resolve))
      await fillSlots()
      await becameIdle
    },
    async stop(timeout) {
      isStopping = true
      await listening.close()
      const timedOut = new AbortController()
      await Promise.race([ended(), sleep(timeout, undefined, { signal: timedOut.signal }).catch(() => {})])
      timedOut.abort()
      for (const { abort } of running.values()) abort.abort(new Stopped())
      await ended()
      for (const timer of timers) clearInterval(timer)
      await unregister()
    },
    async releaseNow() {
      isStopping = true
      while (isFilling) await sleep(5)
      const given = [...running.values()].map(({ job, abort }) => {
        // Whatever it is at, it writes nothing more.
        abort.abort(new claims.LeaseLost())
        return app.db.transaction().execute(releaseJob(app, job))
      })
      await Promise.allSettled(given)
      await unregister()
    },
  }
}
