/** The jobs by which workers sync sources. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Db, Trx } from '../../db/pool.ts'
import * as jobs from '../../jobs/queue.ts'
import * as runs from './run-records.ts'

/** Queues a sync of every source whose time has come. */
export async function enqueueDue(app: App): Promise<void> {
  for (const { id } of await due(app.db, app.now()).execute()) {
    await app.db.transaction().execute(async (trx) => {
      // Workers on other hosts look at the same moment.
      const source = await due(trx, app.now()).where('id', '=', id).forUpdate().skipLocked().executeTakeFirst()
      if (source && (await liveJobs(trx, id)).length === 0) await enqueue(trx, source, false)
    })
  }
}

/** Sources whose time has come, and that nobody syncs. */
export const due = (db: Db, now: Date) =>
  db
    .selectFrom('sources')
    .select(['id', 'owner_id'])
    .where('status', 'in', ['active', 'error'])
    .where('next_sync', '<=', now)
    .where((eb) => eb.not(runs.isSyncing('sources.id')))
    .orderBy('next_sync')

/** Queues one; its id. */
export const enqueue = (trx: Trx, { id, owner_id }: { id: string; owner_id: string }, full: boolean): Promise<string> =>
  jobs.enqueue(trx, 'sync', { source_id: id, full }, { dedupeKey: `sync:${id}`, ownerId: owner_id })

/** Those of a source that wait or run, whichever runs first. */
export const liveJobs = (db: Db, id: string) =>
  db
    .selectFrom('jobs')
    .select(['id', 'status', 'attempts'])
    .where('kind', '=', 'sync')
    .where('status', 'in', ['pending', 'processing'])
    .where(sql<boolean>`payload ->> 'source_id' = ${id}`)
    .orderBy('status', 'desc')
    .execute()
