/** Enqueues sync jobs. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Db, Trx } from '../../db/pool.ts'
import * as jobs from '../../jobs/queue.ts'
import * as runs from './run-records.ts'

/** Enqueues a sync for every source that is due. */
export async function enqueueDueSyncs(app: App): Promise<void> {
  for (const { id } of await selectDue(app.db, app.now()).execute()) {
    await app.db.transaction().execute(async (trx) => {
      // Workers on other hosts do this at the same time.
      const source = await selectDue(trx, app.now()).where('id', '=', id).forUpdate().skipLocked().executeTakeFirst()
      if (source && (await listActiveJobs(trx, id)).length === 0) await enqueueSync(trx, source, false)
    })
  }
}

/** Selects sources that are due and not being synced. */
export const selectDue = (db: Db, now: Date) =>
  db
    .selectFrom('sources')
    .select(['id', 'owner_id'])
    .where('status', 'in', ['active', 'error'])
    .where('next_sync', '<=', now)
    .where((eb) => eb.not(runs.isSyncing('sources.id')))
    .orderBy('next_sync')

/** Enqueues a sync of one source. Returns the job id. */
export const enqueueSync = (trx: Trx, { id, owner_id }: { id: string; owner_id: string }, full: boolean): Promise<string> =>
  jobs.enqueue(trx, 'sync', { source_id: id, full }, { dedupeKey: `sync:${id}`, ownerId: owner_id })

/** Lists the pending and running sync jobs of a source, running ones first. */
export const listActiveJobs = (db: Db, id: string) =>
  db
    .selectFrom('jobs')
    .select(['id', 'status', 'attempts'])
    .where('kind', '=', 'sync')
    .where('status', 'in', ['pending', 'processing'])
    .where(sql<boolean>`payload ->> 'source_id' = ${id}`)
    .orderBy('status', 'desc')
    .execute()
