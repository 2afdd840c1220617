/** Runs one leased job and records its outcome. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../app.ts'
import { isUnavailable, type Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import * as leases from '../jobs/leases.ts'
import type * as jobs from '../jobs/queue.ts'
import type { Log } from '../log/log.ts'
import { ReadFailure } from '../ports/document-reader.ts'
import { FileMissing } from '../ports/file-store.ts'
import { MailFailure } from '../ports/mailer.ts'
import { SearchFailure } from '../ports/search-engine.ts'
import { SourceFailure } from '../ports/source-type.ts'
import { handlers } from './handlers.ts'

/** The worker stops: its running jobs return to the queue. */
export class Stopped extends Error {}

/** The job is of a later version of dms. */
class UnknownKind extends Error {}

/** Time until a transaction is retried while the database is unavailable. */
const databaseRetryMs = 1000
/** Time until a job is retried that failed because something was unavailable. */
const unavailableDelayMs = 5000
/** Time until a job of an unknown kind can be leased again, by a worker of a later version. */
const unknownKindDelayMs = 60_000

type FinishJob = (trx: Trx) => Promise<void>

/** Runs a job and records its outcome. `signal` aborts with LeaseLost or Stopped. Never rejects. */
export async function runJob(app: App, job: jobs.Job, signal: AbortSignal): Promise<void> {
  const startedAt = performance.now()
  const log = logOf(app, job)
  const handler = handlerOf(job)
  try {
    if (!handler) throw new UnknownKind()
    const commit = await handler.run(app, job, signal)
    let logFields: jobs.LogFields = {}
    await commitWithRetry(app, log, signal, async (trx) => {
      await leases.completeJob(trx, job)
      logFields = ((await commit?.(trx)) as jobs.LogFields | undefined) ?? {}
    })
    log.info({ ...logFields, duration_ms: Math.round(performance.now() - startedAt) }, 'job done')
  } catch (error) {
    const cause = signal.aborted ? signal.reason : error
    if (cause instanceof leases.LeaseLost) return log.info('job taken away')
    await commitWithRetry(app, log, signal, chooseFinish(app, job, cause, log)).catch((failure) => {
      // After the lease has expired, another worker recovers the job.
      if (!(failure instanceof leases.LeaseLost)) log.error({ err: failure }, 'a job could not be put back')
    })
  }
}

/** A leased job with the signal that ends it. */
export interface LeasedJob {
  job: jobs.Job
  signal: AbortSignal
}

/** Leases jobs that can run together with a leased job. Returns all of them, or nothing if the leased job must run alone. */
export const leaseGroup = async (app: App, job: jobs.Job, lease: jobs.GroupLease): Promise<readonly jobs.Job[]> =>
  (await handlerOf(job)?.group?.lease(app, job, lease)) ?? []

/** Runs the jobs of leaseGroup() together, then runs the uncompleted ones one by one. Records all outcomes. Never rejects. */
export async function runGroup(app: App, members: readonly LeasedJob[]): Promise<void> {
  const startedAt = performance.now()
  const completed = await runTogether(app, members).catch((error: unknown) => {
    app.log.debug({ err: error, jobs: members.length }, 'jobs run one by one')
    return new Map<string, jobs.LogFields>()
  })
  const duration_ms = Math.round(performance.now() - startedAt)
  for (const { job } of members) {
    const logFields = completed.get(job.id)
    if (logFields) logOf(app, job).info({ ...logFields, duration_ms }, 'job done')
  }
  await runEach(
    app,
    members.filter(({ job }) => !completed.has(job.id)),
  )
}

/** Runs jobs one after the other and records their outcomes. Never rejects. */
export async function runEach(app: App, members: readonly LeasedJob[]): Promise<void> {
  for (const { job, signal } of members) await runJob(app, job, signal)
}

async function runTogether(app: App, members: readonly LeasedJob[]): Promise<ReadonlyMap<string, jobs.LogFields>> {
  const group = members[0] && handlerOf(members[0].job)?.group
  const running = members.filter(({ signal }) => !signal.aborted)
  if (!group || running.length === 0) return new Map()
  const signal = AbortSignal.any(running.map((member) => member.signal))
  return group.run(
    app,
    running.map(({ job }) => job),
    signal,
  )
}

/** Returns a function that returns an unfinished job to the queue. */
export const releaseJob =
  (app: App, job: jobs.Job, delayMs = 0): FinishJob =>
  async (trx) => {
    await leases.releaseLease(trx, job, delayMs)
    await handlerOf(job)?.released?.(app, trx, job)
  }

/** Returns a function that records a failed attempt. */
const recordFailure =
  (app: App, job: jobs.Job, problem: jobs.JobProblem): FinishJob =>
  async (trx) => {
    const isFinal = await leases.failJob(trx, job, problem)
    await handlerOf(job)?.failed?.(app, trx, job, { ...problem, isFinal })
  }

/** Returns a function that records the death of the worker of a job. */
export const recordLoss =
  (app: App, job: jobs.Job): FinishJob =>
  async (trx) => {
    const problem = { code: 'WORKER_LOST', message: 'The worker stopped in the middle of it.', isRetryable: true }
    const isFinal = await leases.loseJob(trx, job, problem)
    await handlerOf(job)?.failed?.(app, trx, job, { ...problem, isFinal })
  }

function chooseFinish(app: App, job: jobs.Job, cause: unknown, log: Log): FinishJob {
  if (cause instanceof Stopped || cause instanceof leases.Yielded) return releaseJob(app, job)
  if (cause instanceof UnknownKind) {
    log.warn('job of a kind that this version does not know, left for a later version')
    return releaseJob(app, job, unknownKindDelayMs)
  }
  if ((isUnavailable(cause) && !isTimeout(cause)) || isStorageOutage(cause)) {
    log.warn({ err: (cause as Error).message }, 'job postponed')
    return releaseJob(app, job, unavailableDelayMs)
  }
  const problem = toProblem(cause)
  if (problem.code === 'INTERNAL_ERROR') log.error({ err: cause, code: problem.code }, 'job failed')
  else log.warn({ err: problem.message, code: problem.code }, 'job failed')
  return recordFailure(app, job, problem)
}

function toProblem(error: unknown): jobs.JobProblem {
  if (error instanceof ReadFailure || error instanceof SourceFailure)
    return { code: error.code, message: error.message, isRetryable: error.isRetryable }
  if (error instanceof FileMissing) return { code: 'FILE_MISSING', message: 'The stored file cannot be read.', isRetryable: true }
  if (error instanceof MailFailure) return { code: 'MAIL_FAILED', message: error.message, isRetryable: true }
  if (error instanceof SearchFailure) return { code: 'SEARCH_FAILED', message: error.message, isRetryable: true }
  if (error instanceof AppError && error.status === 503) return { code: error.code, message: error.message, isRetryable: true }
  return { code: 'INTERNAL_ERROR', message: 'The server failed while it worked on this.', isRetryable: true }
}

/** Returns whether the document store is out of reach. Like an outage of the database, it costs no attempt. */
const isStorageOutage = (error: unknown): boolean => error instanceof AppError && error.code === 'STORAGE_UNAVAILABLE'

/** Returns whether a statement timed out. Unlike an outage, a timeout counts as an attempt, because the statement would take as long again. */
const isTimeout = (error: unknown): boolean => (error as { code?: unknown }).code === '57014'

/** Retries the transaction during a database outage. The lease is renewed meanwhile. */
async function commitWithRetry(app: App, log: Log, signal: AbortSignal, finish: FinishJob): Promise<void> {
  for (;;) {
    try {
      return await app.db.transaction().execute(finish)
    } catch (error) {
      if (!isUnavailable(error) || isTimeout(error) || signal.aborted) throw error
      log.warn({ err: (error as Error).message }, 'waiting for the database to end a job')
    }
    await sleep(databaseRetryMs, undefined, { signal })
  }
}

const logOf = (app: App, job: jobs.Job): Log =>
  app.log.child({ job: job.id, kind: job.kind, document_id: job.document_id ?? undefined, attempt: job.attempts })

const handlerOf = (job: jobs.Job) => handlers[job.kind] as jobs.Handler<jobs.Kind> | undefined
