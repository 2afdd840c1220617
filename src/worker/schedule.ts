/** Recurring tasks of a worker. */
import type { App } from '../app.ts'
import { waitAtMost } from '../concurrency.ts'
import { dateOldDocuments } from '../documents/dates.ts'
import { purgeUncommitted } from '../documents/purge.ts'
import { truncateExpiredEvents } from '../events.ts'
import { deleteExpired } from '../http/idempotency.ts'
import { correctJobTimes } from '../jobs/clock-changes.ts'
import { addJobWeeks } from '../jobs/weeks.ts'
import { recoverChanges } from '../search/change-log.ts'
import { enqueueDueSyncs } from '../sources/sync/run-records.ts'
import { openDailyMaintenance } from './maintenance.ts'

const intervalMs = 60_000
/** Time after a failure until a task is run again, if it is longer than the interval. These read whole tables. */
const retryDelaysMs: Readonly<Record<string, number>> = { 'daily maintenance': 3_600_000, 'optimize the search index': 3_600_000 }

const tasks: Readonly<Record<string, (app: App) => Promise<void>>> = {
  'purge uncommitted uploads': purgeUncommitted,
  'queue syncs that are due': async (app) => {
    if (app.config.worker.schedule_sources) await enqueueDueSyncs(app)
  },
  'date documents of earlier versions': dateOldDocuments,
  'correct times after a change of the clock': ({ config, db }) => correctJobTimes(db, config.worker.lease),
  'add partitions of jobs': ({ db }) => addJobWeeks(db),
  'truncate expired events': ({ db }) => truncateExpiredEvents(db),
  'index what an interrupted rebuild has recorded': recoverChanges,
  'optimize the search index': ({ search }) => search.optimize(),
  'forget expired idempotency keys': async ({ db }) => void (await deleteExpired(db)),
}

interface Schedule {
  /** Starts no more tasks, and waits up to `timeoutMs` for running ones. The next worker does the rest. */
  stop(timeoutMs: number): Promise<void>
}

/**
 * Runs the tasks at once, then every minute those that have ended. A long task, such as maintenance, delays no other. Maintenance that fails is run again
 * after an hour.
 */
export function startSchedule(app: App): Schedule {
  const allTasks = { ...tasks, 'daily maintenance': openDailyMaintenance(app) }
  const running = new Map<string, Promise<void>>()
  const retryAtMs = new Map<string, number>()
  const isDue = (task: string) => !running.has(task) && app.monotonicMs() >= (retryAtMs.get(task) ?? 0)
  const runTask = async (task: string, run: (app: App) => Promise<void>) => {
    await run(app).catch((error: Error) => {
      retryAtMs.set(task, app.monotonicMs() + (retryDelaysMs[task] ?? 0))
      app.log.warn({ err: error.message, task }, 'a recurring task failed')
    })
    running.delete(task)
  }
  const runAll = () => {
    for (const [task, run] of Object.entries(allTasks)) if (isDue(task)) running.set(task, runTask(task, run))
  }
  runAll()
  const timer = setInterval(runAll, intervalMs)
  return {
    async stop(timeoutMs) {
      clearInterval(timer)
      await waitAtMost(timeoutMs, Promise.all(running.values()))
    },
  }
}
