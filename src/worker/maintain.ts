/** What piles up and is needed no more. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { Busy, withLock } from '../db/lock.ts'
import { forgetRead } from '../notifications/forget.ts'
import { isDue, noteSuccess } from '../runs.ts'

export interface Maintained {
  notifications: number
  jobs: number
}

const batch = 5_000
/** Seconds between two rounds that nobody asked for. */
const daily = 86_400

/** Removes read notifications and finished jobs that are older than the configuration says; what was removed. Throws Busy. */
export const maintain = (app: App): Promise<Maintained> =>
  withLock(app.database, 'maintenance', 0, async () => {
    const { notifications_keep, jobs_keep } = app.config.maintenance
    const removed = { notifications: await forgetRead(app.db, notifications_keep), jobs: await forgetJobs(app, jobs_keep) }
    await noteSuccess(app.db, 'maintenance')
    return removed
  })

/** Once a day, whichever worker is first. */
export async function maintainDaily(app: App): Promise<void> {
  if (!(await isDue(app.db, 'maintenance', daily))) return
  try {
    const removed = await maintain(app)
    app.log.info(removed, 'maintenance done')
  } catch (error) {
    if (!(error instanceof Busy)) throw error
  }
}

/** The job of a document that failed stays as long as the document: it is what a retry begins with. */
async function forgetJobs({ db }: App, age: number): Promise<number> {
  for (let total = 0; ; ) {
    const { numAffectedRows = 0n } = await sql`
      delete from jobs where id in (
        select job.id from jobs job left join documents document on document.id = job.document_id
        where job.status in ('completed', 'failed', 'cancelled') and job.finished_at < now() - ${age} * interval '1 ms'
          and (document.status is null or document.status <> 'failed')
        limit ${batch})`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < batch) return total
  }
}
