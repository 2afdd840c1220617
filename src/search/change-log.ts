/** Changed documents while the index is rebuilt: index jobs write them into the current index, the rebuild into the new one. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { Busy, withLock } from '../db/lock.ts'

/** Lock of a rebuild. */
export const rebuildLock = 'search.reindex'

type Put = (documentIds: readonly string[]) => Promise<void>

/** Records documents if a rebuild runs. Call it before indexing them. A rebuild that begins later reads them itself. */
export async function recordChanges({ db }: App, documentIds: readonly string[]): Promise<void> {
  await sql`
    insert into search_changes (document_id) select id from search_rebuild cross join unnest(${documentIds}::uuid[]) id order by id
    on conflict do nothing`.execute(db)
}

/** Starts to record changes, after indexing those that an interrupted rebuild has left. This and the functions below need the lock of a rebuild. */
export async function startChangeLog(app: App): Promise<void> {
  // A rebuild may be meant to repair an index that cannot be written. It reads all documents.
  await endChangeLog(app).catch(() => app.db.deleteFrom('search_changes').execute())
  await sql`insert into search_rebuild default values on conflict (key) do update set started_at = excluded.started_at`.execute(app.db)
}

/** Stops recording, and indexes the recorded documents in the current index. */
export async function endChangeLog(app: App): Promise<void> {
  await stopChangeLog(app)
  await applyChanges(app, app.search.refresh)
}

export const stopChangeLog = (app: App) => app.db.deleteFrom('search_rebuild').execute()

/** Passes the recorded documents to `put` in batches. If `put` fails, its batch stays recorded. */
export async function applyChanges(app: App, put: Put, batchSize = app.config.search.batch_size): Promise<void> {
  for (let isEmpty = false; !isEmpty; )
    isEmpty = await app.db.transaction().execute(async (trx) => {
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx)
      const { rows } = await sql<{ document_id: string }>`
        delete from search_changes where document_id in (select document_id from search_changes limit ${batchSize})
        returning document_id`.execute(trx)
      if (rows.length > 0) await put(rows.map(({ document_id }) => document_id))
      return rows.length === 0
    })
}

/** Returns the number of recorded documents and unfinished index jobs: the index may lack this many entries, or have this many that it should not. */
export async function countChanges({ db }: App): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select (select count(*) from search_changes) + (select count(*) from jobs where kind = 'index' and status in ('pending', 'processing'))
      as count`.execute(db)
  return rows[0]!.count
}

/** Indexes the recorded documents of a rebuild whose process died. Does nothing while a rebuild runs. */
export async function recoverChanges(app: App): Promise<void> {
  const { rows } = await sql<{ is_left: boolean }>`
    select exists (select from search_rebuild) or exists (select from search_changes) as is_left`.execute(app.db)
  if (!rows[0]!.is_left) return
  await withLock(app.database, rebuildLock, 0, () => endChangeLog(app)).catch((error) => {
    if (!(error instanceof Busy)) throw error
  })
}
