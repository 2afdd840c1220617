/** Runs jobs: some of each queue at once, each under a lease that is kept alive, until told to stop. */
import { hostname } from 'node:os'
import type { App } from '../app.ts'
import { listen } from '../db/listen.ts'
import * as jobs from '../jobs.ts'
import { ReadFailure } from '../ports.ts'
import { buryDead, nameOf } from './dead.ts'
import { handlers } from './handlers.ts'

export interface WorkerOptions {
  queues: readonly jobs.Queue[]
  /** OCR jobs at once; the other queues have one or two */
  concurrency: number
  name?: string
}

export interface Worker {
  readonly name: string
  /** Resolves once no job can be run now and none is running; for `--once`. Throws nothing. */
  idle(): Promise<void>
  /** Takes no more jobs, waits up to `timeout` milliseconds for running ones, then gives them back unharmed. */
  stop(timeout: number): Promise<void>
}

interface Running {
  job: jobs.Job
  abort: AbortController
  done: Promise<void>
}

/** Starts to work. */
export async function startWorker(
  app: App,
  { queues, concurrency, name = nameOf(hostname(), process.pid) }: WorkerOptions,
): Promise<Worker> {
  const { lease, poll_interval } = app.config.worker
  const running = new Map<string, Running>()
  const idlers = new Set<() => void>()
  let isStopping = false
  let isTaking = false
  let wakes = 0

  const places = (queue: jobs.Queue) =>
    (queue === 'ocr' ? concurrency : 1) - [...running.values()].filter(({ job }) => job.queue === queue).length

  /** Fills every free place; called on each wake, and once more when a wake came meanwhile. */
  const take = async () => {
    wakes++
    if (isTaking) return
    isTaking = true
    try {
      for (let seen = 0; seen !== wakes && !isStopping; ) {
        seen = wakes
        for (const queue of queues) while (!isStopping && places(queue) > 0 && (await takeOne(queue)));
      }
    } catch (error) {
      app.log.warn({ err: (error as Error).message }, 'the queue is out of reach')
    } finally {
      isTaking = false
      if (running.size === 0) for (const idle of idlers) idle()
    }
  }

  const takeOne = async (queue: jobs.Queue): Promise<boolean> => {
    const job = await jobs.claim(app.db, queue, name, lease)
    if (!job) return false
    const abort = new AbortController()
    const done = run(app, job, abort).finally(() => {
      running.delete(job.id)
      void take()
    })
    running.set(job.id, { job, abort, done })
    return true
  }

  const heard = (payload: string) => {
    const [word, id = ''] = payload.split(':')
    if (word === 'cancel') running.get(id)?.abort.abort(new jobs.LeaseLost())
    else void take()
  }

  const beat = async () => {
    await app.db
      .insertInto('workers')
      .values({ name, queues: [...queues], seen_at: app.now() })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ seen_at: app.now() }))
      .execute()
    for (const { job, abort } of running.values()) if (!(await jobs.renew(app.db, job, lease))) abort.abort(new jobs.LeaseLost())
  }

  const recover = async () => {
    for (let lost = await jobs.claimExpired(app.db, name, lease); lost; lost = await jobs.claimExpired(app.db, name, lease)) {
      await giveUp(app, lost, { code: 'WORKER_LOST', message: 'The worker stopped in the middle of it.', retry: true })
    }
  }

  const quietly = (work: () => Promise<void>) => () =>
    void work().catch((error) => app.log.warn({ err: (error as Error).message }, 'the queue is out of reach'))
  await beat()
  await buryDead(app.db, name)
  await recover()
  const listening = listen(app.database, app.log, 'dms_jobs', heard, () => void take())
  const timers = [
    setInterval(() => void take(), poll_interval),
    setInterval(quietly(beat), Math.min(1000, lease / 4)),
    setInterval(quietly(recover), Math.min(5000, lease / 2)),
  ]
  void take()

  return {
    name,
    idle: async () => {
      const quiet = new Promise<void>((resolve) => idlers.add(resolve))
      await take()
      await quiet
    },
    async stop(timeout) {
      isStopping = true
      await listening.close()
      const all = Promise.all([...running.values()].map(({ done }) => done))
      await Promise.race([all, new Promise((resolve) => setTimeout(resolve, timeout).unref())])
      for (const { abort } of running.values()) abort.abort(new Stopped())
      await Promise.all([...running.values()].map(({ done }) => done))
      for (const timer of timers) clearInterval(timer)
      await app.db
        .deleteFrom('workers')
        .where('name', '=', name)
        .execute()
        .catch(() => {})
    },
  }
}

/** The worker is going home; what it has in hand goes back on the pile. */
class Stopped extends Error {}

async function run(app: App, job: jobs.Job, abort: AbortController): Promise<void> {
  const started = performance.now()
  const log = app.log.child({ job: job.id, kind: job.kind, document_id: job.document_id ?? undefined, attempt: job.attempts })
  const handler = handlers[job.kind] as jobs.Handler<jobs.Kind>
  try {
    const commit = await handler.run(app, job, abort.signal)
    await app.db.transaction().execute(async (trx) => {
      await jobs.finish(trx, job)
      await commit?.(trx)
    })
    log.info({ duration_ms: Math.round(performance.now() - started) }, 'job done')
  } catch (error) {
    const cause = abort.signal.aborted ? abort.signal.reason : error
    if (cause instanceof jobs.LeaseLost) return log.info('job taken away')
    try {
      if (cause instanceof Stopped) return await jobs.release(app.db, job)
      const problem = problemOf(cause)
      log[problem.code === 'INTERNAL_ERROR' ? 'error' : 'warn'](
        { err: problem.code === 'INTERNAL_ERROR' ? cause : problem.message, code: problem.code },
        'job failed',
      )
      await giveUp(app, job, problem)
    } catch (late) {
      // The lease ends by itself; whoever finds it then goes on.
      if (!(late instanceof jobs.LeaseLost)) log.error({ err: late }, 'a failed job could not be put back')
    }
  }
}

async function giveUp(app: App, job: jobs.Job, problem: jobs.Problem): Promise<void> {
  const handler = handlers[job.kind] as jobs.Handler<jobs.Kind>
  await app.db.transaction().execute(async (trx) => {
    const final = await jobs.fail(trx, job, problem)
    await handler.failed?.(app, trx, job, problem, final)
  })
}

const problemOf = (error: unknown): jobs.Problem =>
  error instanceof ReadFailure
    ? { code: error.code, message: error.message, retry: error.retry }
    : { code: 'INTERNAL_ERROR', message: 'The server failed while it worked on this.', retry: true }
