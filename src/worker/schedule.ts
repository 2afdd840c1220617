/** What is seen to again and again, without anybody's asking. */
import type { App } from '../app.ts'
import { purgeUncommitted } from '../documents/purge.ts'
import { deleteExpiredEvents } from '../events.ts'
import { enqueueDueSyncs } from '../sources/sync/run-records.ts'
import { maintainDaily } from './maintenance.ts'

const minute = 60_000

const chores: Readonly<Record<string, (app: App) => Promise<void>>> = {
  'purge uncommitted uploads': purgeUncommitted,
  'queue syncs that are due': async (app) => {
    if (app.config.worker.schedule_sources) await enqueueDueSyncs(app)
  },
  'forget old events': ({ db }) => deleteExpiredEvents(db),
  'daily maintenance': maintainDaily,
}

/** Starts at once, then goes on every minute. */
export function startSchedule(app: App): { stop(): Promise<void> } {
  let round = Promise.resolve()
  const begin = () => {
    for (const [chore, run] of Object.entries(chores)) {
      round = round
        .then(() => run(app))
        .catch((error: Error) => app.log.warn({ err: error.message, chore }, 'something that is done every minute could not be done'))
    }
  }
  begin()
  const timer = setInterval(begin, minute)
  return {
    stop: () => {
      clearInterval(timer)
      return round
    },
  }
}
