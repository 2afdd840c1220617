/** Recurring tasks of a worker. */
import type { App } from '../app.ts'
import { dateOldDocuments } from '../documents/dates.ts'
import { purgeUncommitted } from '../documents/purge.ts'
import { truncateExpiredEvents } from '../events.ts'
import { addJobWeeks } from '../jobs/weeks.ts'
import { enqueueDueSyncs } from '../sources/sync/run-records.ts'
import { maintainDaily } from './maintenance.ts'

const intervalMs = 60_000

const tasks: Readonly<Record<string, (app: App) => Promise<void>>> = {
  'purge uncommitted uploads': purgeUncommitted,
  'queue syncs that are due': async (app) => {
    if (app.config.worker.schedule_sources) await enqueueDueSyncs(app)
  },
  'date documents of earlier versions': dateOldDocuments,
  'add partitions of jobs': ({ db }) => addJobWeeks(db),
  'truncate expired events': ({ db }) => truncateExpiredEvents(db),
  'daily maintenance': maintainDaily,
}

/** Runs the tasks at once, then every minute. */
export function startSchedule(app: App): { stop(): Promise<void> } {
  let running = Promise.resolve()
  const runAll = () => {
    for (const [task, run] of Object.entries(tasks)) {
      running = running.then(() => run(app)).catch((error: Error) => app.log.warn({ err: error.message, task }, 'a recurring task failed'))
    }
  }
  runAll()
  const timer = setInterval(runAll, intervalMs)
  return {
    stop: () => {
      clearInterval(timer)
      return running
    },
  }
}
