/** Tags (etags) of folders: a folder with an unchanged tag is skipped if everything below it was ingested. */
import { sql } from 'kysely'
import type { Db, Trx } from '../../db/pool.ts'
import type { SyncContext } from './sync-context.ts'

/** Returns the tag that a folder had when everything below it was last ingested. */
async function readTag(db: Db, sourceId: string, path: string): Promise<string | null> {
  const row = await db
    .selectFrom('source_folders')
    .select('etag')
    .where('source_id', '=', sourceId)
    .where('path', '=', path)
    .executeTakeFirst()
  return row?.etag ?? null
}

/** Returns the tag lookup for a walk. A full sync ignores all tags. */
export const createTagLookup =
  ({ app, sourceId, options }: Pick<SyncContext, 'app' | 'sourceId' | 'options'>) =>
  async (path: string): Promise<string | null> =>
    options.full ? null : readTag(app.db, sourceId, path)

/** Returns true if the server of the source sends folder tags. Few kinds of servers do. */
export const hasTags = async (db: Db, sourceId: string): Promise<boolean> =>
  (await db.selectFrom('source_folders').select('path').where('source_id', '=', sourceId).limit(1).executeTakeFirst()) !== undefined

/** Records the tags of completely listed folders. */
export async function markSeen(trx: Trx, sourceId: string, runId: string, tags: ReadonlyMap<string, string>): Promise<void> {
  if (tags.size === 0) return
  await trx
    .insertInto('source_folders')
    .values([...tags].map(([path, next_etag]) => ({ source_id: sourceId, path, etag: null, next_etag, run_id: runId })))
    .onConflict((conflict) =>
      conflict
        .columns(['source_id', 'path'])
        .doUpdateSet((eb) => ({ next_etag: eb.ref('excluded.next_etag'), run_id: eb.ref('excluded.run_id') })),
    )
    .execute()
}

/** Marks all folders below an unchanged folder as seen. */
export async function markSeenBelow(trx: Trx, sourceId: string, runId: string, folder: string): Promise<void> {
  await sql`update source_folders set run_id = ${runId}, next_etag = etag
    where source_id = ${sourceId} and (${folder} = '' or starts_with(path, ${`${folder}/`}))`.execute(trx)
}

/**
 * Commits the recorded tags at the end of a run, except those of folders with unfinished contents below: a failed or skipped file, or a folder
 * that could not be listed.
 */
export async function commitTags(trx: Trx, sourceId: string, runId: string, uncertainPaths: readonly string[]): Promise<void> {
  await sql`delete from source_folders where source_id = ${sourceId} and run_id is distinct from ${runId}`.execute(trx)
  await sql`update source_folders set etag = next_etag where source_id = ${sourceId}`.execute(trx)
  await sql`
    with recursive left_over (path) as (
      select path from source_files where source_id = ${sourceId} and outcome <> 'stored' and removed_at is null
      union select unnest(${[...uncertainPaths]}::text[])
      union select case when path ~ '/' then regexp_replace(path, '/[^/]*$', '') else '' end from left_over where path <> ''
    )
    delete from source_folders using left_over where source_id = ${sourceId} and source_folders.path = left_over.path`.execute(trx)
}

/** Deletes all tags, so that the next run enters every folder. */
export async function deleteTags(trx: Trx, sourceId: string): Promise<void> {
  await trx.deleteFrom('source_folders').where('source_id', '=', sourceId).execute()
}
