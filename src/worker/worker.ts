/** Runs jobs concurrently, each under a lease that it renews, until it is stopped. */
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { shareRuns, waitAtMost } from '../concurrency.ts'
import { listen } from '../db/listen.ts'
import { NewerSchema, pendingUpTo } from '../db/migrate.ts'
import * as leases from '../jobs/leases.ts'
import type { Job, Queue } from '../jobs/queue.ts'
import { debounce } from './debounce.ts'
import { reapPredecessor, reapStaleWorkers, workerName } from './reap-workers.ts'
import { leaseGroup, recordLoss, releaseJob, runEach, runGroup, Stopped } from './run-job.ts'
import { createSlots } from './slots.ts'

interface WorkerOptions {
  queues: readonly Queue[]
  /** Maximum number of concurrent OCR jobs. For other queues see slots.ts. */
  concurrency: number
  name?: string
  /** Maximum number of jobs in total. Default: no limit. */
  maxJobs?: number | undefined
}

export interface Worker {
  readonly name: string
  /** Returns the running jobs. `since` is in the time of performance.now(). */
  running(): readonly { readonly job: Job; readonly since: number }[]
  /** Resolves when the last of `maxJobs` has ended. */
  readonly reachedMaxJobs: Promise<void>
  /** Resolves when a newer dms has migrated the database. The worker leases no more jobs then. */
  readonly outdated: Promise<NewerSchema>
  /** Resolves when no job is running and none can run now. Never rejects. */
  idle(): Promise<void>
  /** Leases no more jobs, waits up to `timeoutMs` for running ones, then releases them. */
  stop(timeoutMs: number): Promise<void>
  /** Leases no more jobs and releases running ones without waiting for them, before a forced exit. */
  releaseNow(): Promise<void>
}

/** Interval of the heartbeats of an idle worker. A busy worker sends one with each renewal of its leases. */
const idleHeartbeatIntervalMs = 20_000

/** Interval of the checks whether a newer dms has migrated the database. */
const schemaCheckIntervalMs = 2000

/** Maximum number of small jobs that share a slot. */
const maxGroupSize = 64

/** New jobs of a burst wait for its end: uploads get the processors, and jobs form larger groups. bench/upload.ts, "400 × 10 kB". */
const burst = { singleMs: 150, quietMs: 250, maxMs: 3000 }

interface Running {
  job: Job
  /** id of the first job of its group; a group occupies one slot */
  slot: string
  since: number
  abort: AbortController
  done: Promise<void>
}

/** Starts a worker. Throws if the database is unavailable. */
export async function startWorker(
  app: App,
  { queues, concurrency, name = workerName(hostname(), process.pid), maxJobs = Number.POSITIVE_INFINITY }: WorkerOptions,
): Promise<Worker> {
  const { lease: leaseMs, poll_interval: pollIntervalMs } = app.config.worker
  const running = new Map<string, Running>()
  const idlers = new Set<() => void>()
  let isStopping = false
  let isFilling = false
  let wakeCount = 0
  let startedCount = 0
  /** a running job that must be alone; no other job is leased meanwhile */
  let loneJob: Job | null = null
  const { promise: reachedMaxJobs, resolve: resolveMaxJobs } = Promise.withResolvers<void>()

  const slots = createSlots({ ocr: concurrency, waiting: Math.floor(app.config.database.pool_max / 2) })
  const freeSlots = (queue: Queue) => (loneJob ? 0 : slots.countFree(queue, running.values()))

  /** Fills every free slot, and once more after a wake meanwhile. */
  const fillSlots = async () => {
    wakeCount++
    if (isFilling) return
    isFilling = true
    try {
      for (let handledCount = 0; handledCount !== wakeCount && !isStopping; ) {
        handledCount = wakeCount
        for (const queue of queues) while (!isStopping && freeSlots(queue) > 0 && (await startNext(queue)));
      }
    } catch (error) {
      logUnavailable(error)
    } finally {
      isFilling = false
      if (running.size === 0) for (const resolve of idlers) resolve()
      if (running.size === 0 && startedCount >= maxJobs) resolveMaxJobs()
    }
  }

  const startNext = async (queue: Queue): Promise<boolean> => {
    if (startedCount >= maxJobs) return false
    const maxRunning = queue === 'sync' ? app.config.sources.max_syncs_per_user : 0
    const job = await leases.leaseNext(app.db, queue, name, leaseMs, maxRunning)
    if (!job) return false
    const lease = { worker: name, leaseMs, limit: Math.min(maxGroupSize, maxJobs - startedCount) }
    const group = await leaseGroup(app, job, lease).catch(logUnavailable)
    const leased = group?.length ? group : [job]
    startedCount += leased.length
    if (isStopping) {
      for (const each of leased) await app.db.transaction().execute(releaseJob(app, each))
      return false
    }
    const members = leased.map((each) => {
      const abort = new AbortController()
      return { job: each, abort, signal: abort.signal, slot: job.id, since: performance.now() }
    })
    const isAlone = leases.mustRunAlone(job)
    const others = isAlone ? [...running.values()] : []
    if (isAlone) loneJob = job
    for (const { abort } of others) abort.abort(new Stopped())
    const start = async () => {
      await Promise.all(others.map((other) => other.done))
      await (group?.length ? runGroup : runEach)(app, members)
    }
    const done = start().finally(() => {
      if (loneJob === job) loneJob = null
      // After an expired lease this worker may run the same job again.
      for (const each of leased) if (running.get(each.id)?.job === each) running.delete(each.id)
      void fillSlots()
    })
    for (const member of members) running.set(member.job.id, { ...member, done })
    return true
  }

  const afterBurst = debounce(() => void fillSlots(), burst)
  const onNotification = (payload: string) => {
    const [event, id = ''] = payload.split(':')
    if (event === 'cancel') running.get(id)?.abort.abort(new leases.LeaseLost())
    else afterBurst.call()
  }

  let heartbeatAt = Number.NEGATIVE_INFINITY
  // Not over the pool: all its connections may wait for the lock of a long transaction, such as the deletion of a user.
  const sendHeartbeat = async () => {
    if (running.size === 0 && performance.now() - heartbeatAt < idleHeartbeatIntervalMs) return
    await sql`
      insert into workers (name, queues) values (${name}, ${queues})
      on conflict (name) do update set queues = excluded.queues, seen_at = now()`.execute(app.reads)
    heartbeatAt = performance.now()
    const members = [...running.values()]
    const renewed = await leases.renewLeases(
      app.reads,
      members.map(({ job }) => job),
      leaseMs,
    )
    for (const { job, abort } of members) if (!renewed.has(job.id)) abort.abort(new leases.LeaseLost())
    const locked = [...renewed].filter(([, isLocked]) => isLocked).map(([id]) => id)
    if (slots.setLocked(new Set(locked))) void fillSlots()
  }

  const recoverExpired = async () => {
    await reapStaleWorkers(app.db, name)
    for (let job = await leases.leaseExpired(app.db, name, leaseMs); job; job = await leases.leaseExpired(app.db, name, leaseMs))
      await app.db.transaction().execute(recordLoss(app, job))
  }

  const { promise: outdated, resolve: resolveOutdated } = Promise.withResolvers<NewerSchema>()
  const checkSchema = () =>
    pendingUpTo(app.db).then(
      () => {},
      (error: unknown) => {
        if (!(error instanceof NewerSchema)) throw error
        if (!isStopping) app.log.error({ err: error.message, jobs: running.size }, 'this worker is too old for the database and stops')
        isStopping = true
        resolveOutdated(error)
      },
    )

  const logUnavailable = (error: unknown) => app.log.warn({ err: (error as Error).message }, 'the queue is out of reach')

  /** Calls `round` at each interval, unless the call before still runs. */
  const every = (intervalMs: number, round: () => Promise<void>) =>
    setInterval(
      shareRuns(() => round().catch(logUnavailable)),
      intervalMs,
    )

  await reapPredecessor(app.db, name)
  await sendHeartbeat()
  await recoverExpired()
  const listener = listen(app.database, app.log, 'dms_jobs', onNotification, () => void fillSlots())
  const timers = [
    every(pollIntervalMs, async () => {
      if (!afterBurst.isWaiting) await fillSlots()
    }),
    every(Math.min(1000, leaseMs / 4), sendHeartbeat),
    every(Math.min(5000, leaseMs / 2), recoverExpired),
    every(schemaCheckIntervalMs, checkSchema),
  ]
  void fillSlots()

  const unregister = () => sql`delete from workers where name = ${name}`.execute(app.db).catch(() => {})

  const ended = async () => {
    while (isFilling || running.size > 0) await Promise.race([...[...running.values()].map(({ done }) => done), sleep(20)])
  }

  return {
    name,
    reachedMaxJobs,
    outdated,
    running: () => [...running.values()],
    async idle() {
      const becameIdle = new Promise<void>((resolve) => idlers.add(resolve))
      await fillSlots()
      await becameIdle
    },
    async stop(timeoutMs) {
      isStopping = true
      await listener.close()
      await waitAtMost(timeoutMs, ended())
      for (const { abort } of running.values()) abort.abort(new Stopped())
      await ended()
      for (const timer of timers) clearInterval(timer)
      await unregister()
    },
    async releaseNow() {
      isStopping = true
      while (isFilling) await sleep(5)
      const releases = [...running.values()].map(({ job, abort }) => {
        // From now on the job writes nothing.
        abort.abort(new leases.LeaseLost())
        return app.db.transaction().execute(releaseJob(app, job))
      })
      await Promise.allSettled(releases)
      await unregister()
    },
  }
}
