/** Deletes expired rows and unused files. Runs once a day. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { Busy, withLock } from '../db/lock.ts'
import { deleteInBatches } from '../db/statements.ts'
import { purgeOrphans } from '../documents/purge.ts'
import { isDue, recordSuccess } from '../jobs/last-success.ts'
import { deleteRead } from '../notifications/notifications.ts'
import { deleteEnded } from '../shared-links/shared-links.ts'

/** Each removes what is old, as the configuration says, and tells how much that was; `isDry`: would be. */
const steps = {
  files: purgeOrphans,
  links: ({ db, config }, isDry) => deleteEnded(db, config.maintenance.links_keep, isDry),
  notifications: ({ db, config }, isDry) => deleteRead(db, config.maintenance.notifications_keep, isDry),
  jobs: ({ db, config }, isDry) => deleteInBatches(db, 'jobs', finishedJobs(config.maintenance.jobs_keep), isDry),
} as const satisfies Record<string, (app: App, isDry: boolean) => Promise<number>>

export type Step = keyof typeof steps
/** In the order in which they are done. */
export const allSteps = Object.keys(steps) as readonly Step[]

export type RemovedCounts = Partial<Record<Step, number>>

/** Seconds between two rounds that nobody asked for. */
const dailySeconds = 86_400

/** Does these steps, one after the other; `isDry`: only looks. Throws Busy, as two must not do it at once. */
export async function maintain(app: App, chosen: readonly Step[] = allSteps, isDry = false): Promise<RemovedCounts> {
  const work = async (): Promise<RemovedCounts> => {
    const removed: RemovedCounts = {}
    for (const step of chosen) removed[step] = await steps[step](app, isDry)
    return removed
  }
  if (isDry) return work()
  return withLock(app.database, 'maintenance', 0, async () => {
    const removed = await work()
    if (chosen === allSteps) await recordSuccess(app.db, 'maintenance')
    return removed
  })
}

/** Once a day, whichever worker is first. */
export async function maintainDaily(app: App): Promise<void> {
  if (!(await isDue(app.db, 'maintenance', dailySeconds))) return
  try {
    const removed = await maintain(app)
    app.log.info(removed, 'maintenance done')
  } catch (error) {
    if (!(error instanceof Busy)) throw error
  }
}

/** The job of a document that failed stays as long as the document: it is what a retry begins with. */
const finishedJobs = (age: number) => sql`
  select job.id from jobs job left join documents document on document.id = job.document_id
  where job.status in ('completed', 'failed', 'cancelled') and job.finished_at < now() - ${age} * interval '1 ms'
    and (document.status is null or document.status <> 'failed')`
