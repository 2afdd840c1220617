/** Deletes expired rows and unused files. Runs once a day. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { Busy, withLock } from '../db/lock.ts'
import { type DeletionOptions, deleteInBatches } from '../db/statements.ts'
import { purgeOrphans } from '../documents/purge.ts'
import { purgeExpired } from '../documents/trash/purge-trash.ts'
import { purgeVersions } from '../documents/trash/version-limits.ts'
import { isDue, recordSuccess } from '../jobs/last-success.ts'
import { dropJobWeeks } from '../jobs/weeks.ts'
import { deleteRead } from '../notifications/notifications.ts'
import { deleteEnded } from '../shared-links/shared-links.ts'
import { watchClock } from './steady-clock.ts'

/** Each step deletes expired data and returns the number of deletions. */
const steps = {
  trash: purgeExpired,
  versions: purgeVersions,
  files: purgeOrphans,
  links: ({ db, config }, options) => deleteEnded(db, config.maintenance.links_keep, options),
  notifications: ({ db, config }, options) => deleteRead(db, config.maintenance.notifications_keep, options),
  jobs: async ({ db, config }, options) => {
    const { jobs_keep } = config.maintenance
    return (await dropJobWeeks(db, jobs_keep, options)) + (await deleteInBatches(db, 'jobs', expiredJobs(jobs_keep), options))
  },
} as const satisfies Record<string, (app: App, options: DeletionOptions) => Promise<number>>

export type Step = keyof typeof steps
/** All steps, in the order of their execution. */
export const allSteps = Object.keys(steps) as readonly Step[]

type RemovedCounts = Partial<Record<Step, number>>

interface MaintenanceOptions extends DeletionOptions {
  /** receives the number of deletions of each step at its end */
  onRemoved?(step: Step, count: number): void
}

const dailySeconds = 86_400
/** Age of the last maintenance that the database clock may show without a doubt: a day, and time for a restart. */
const plausibleSeconds = 26 * 3600
/** Time without a step of the database clock after which it is trusted. */
const trustedAfterMs = 3_600_000

/**
 * Runs maintenance steps and returns the number of deletions of each. Throws Busy if another process runs it, and the error of a step after the other
 * steps have run. After `signal` has aborted, the result has the deletions until then.
 */
export async function maintain(app: App, chosen: readonly Step[] = allSteps, options: MaintenanceOptions = {}): Promise<RemovedCounts> {
  const run = () => runSteps(app, chosen, options)
  return options.isDryRun ? run() : withLock(app.database, 'maintenance', 0, run, { signal: options.signal })
}

async function runSteps(app: App, chosen: readonly Step[], options: MaintenanceOptions = {}): Promise<RemovedCounts> {
  const removed: RemovedCounts = {}
  const failures: unknown[] = []
  // While the document store is out of reach, the other steps still run.
  for (const step of chosen) {
    if (options.signal?.aborted) break
    try {
      removed[step] = await steps[step](app, options)
      options.onRemoved?.(step, removed[step])
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
  if (chosen === allSteps && !options.isDryRun && !options.signal?.aborted) await recordSuccess(app.db, 'maintenance')
  return removed
}

/**
 * Returns a function that runs maintenance if no worker has done it within a day. If the database clock may be wrong, and documents or versions would be
 * destroyed, it waits for an hour with a steady clock.
 */
export function openDailyMaintenance(app: App): () => Promise<void> {
  const clock = watchClock(app)
  let isDeferred = false
  const isTime = () => isDue(app.db, 'maintenance', dailySeconds)
  /** Returns why the clock may be wrong; null without a sign of it. */
  const findDeferralReason = async (): Promise<string | null> => {
    if (clock.hasStepped()) return 'the clock of the database was set'
    return (await isDue(app.db, 'maintenance', plausibleSeconds)) ? 'the last maintenance was long ago' : null
  }
  const wouldDestroy = async (): Promise<boolean> => {
    const options = { isDryRun: true }
    return (await purgeExpired(app, options)) + (await purgeVersions(app, options)) > 0
  }
  return async () => {
    await clock.update()
    const isTrusted = clock.steadyMs() >= trustedAfterMs
    if (!(await isTime())) {
      isDeferred = false
      return
    }
    if (isDeferred && !isTrusted) return
    const reason = isTrusted ? null : await findDeferralReason()
    isDeferred = reason !== null && (await wouldDestroy())
    if (isDeferred) {
      const message = `daily maintenance runs after an hour with a steady clock, because ${reason}. To run it now: dms maintenance run`
      app.log.warn({ steady_ms: Math.round(clock.steadyMs()) }, message)
      return
    }
    try {
      // Another worker may have done it between the check and the lock.
      await withLock(app.database, 'maintenance', 0, async () => {
        if (await isTime()) app.log.info(await runSteps(app, allSteps), 'maintenance done')
      })
    } catch (error) {
      if (!(error instanceof Busy)) throw error
    }
  }
}

/**
 * Selects finished jobs outside the weekly partitions. The job of a failed document stays as long as the document, because a retry starts from it.
 */
const expiredJobs = (ageMs: number) => sql`
  select job.id from (
    select id, document_id, finished_at from jobs_failed union all select id, document_id, finished_at from jobs_completed_other
  ) job left join documents document on document.id = job.document_id
  where job.finished_at < now() - ${ageMs} * interval '1 ms' and (document.status is null or document.status <> 'failed')`
