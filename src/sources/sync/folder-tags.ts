/** Tags (etags) of the folders of a source: a folder whose tag is that of its last complete walk need not be entered. */
import { sql } from 'kysely'
import type { Db, Trx } from '../../db/pool.ts'
import type { Turn } from './ledger.ts'

/** Returns a function for the tag that a folder had when all files below it were ingested. For a full sync it returns none. */
export const createTagLookup =
  (db: Db, sourceId: string, isFull: boolean) =>
  async (path: string): Promise<string | null> => {
    if (isFull) return null
    const row = await db
      .selectFrom('source_folders')
      .select('etag')
      .where('source_id', '=', sourceId)
      .where('path', '=', path)
      .executeTakeFirst()
    return row?.etag ?? null
  }

/** Returns true if the server of the source sends folder tags. Few kinds of servers do. */
export const hasTags = async (db: Db, sourceId: string): Promise<boolean> =>
  (await db.selectFrom('source_folders').select('path').where('source_id', '=', sourceId).limit(1).executeTakeFirst()) !== undefined

/** Records the tags of completely listed folders. */
export async function recordTags(trx: Trx, sourceId: string, { holder }: Turn, tags: ReadonlyMap<string, string>): Promise<void> {
  if (tags.size === 0) return
  await trx
    .insertInto('source_folders')
    .values([...tags].map(([path, next_etag]) => ({ source_id: sourceId, path, etag: null, next_etag, seen_by: holder })))
    .onConflict((conflict) =>
      conflict
        .columns(['source_id', 'path'])
        .doUpdateSet((eb) => ({ next_etag: eb.ref('excluded.next_etag'), seen_by: eb.ref('excluded.seen_by') })),
    )
    .execute()
}

/**
 * Commits the recorded tags at the end of a run. Leaves out folders with unfinished contents: a failed or skipped file, a file of unknown version, or
 * a folder that could not be listed; all folders if nothing is certain.
 */
export async function commitTags(trx: Trx, sourceId: string, { holder }: Turn, uncertainPaths: readonly string[]): Promise<void> {
  if (uncertainPaths.includes('')) return deleteTags(trx, sourceId)
  await sql`delete from source_folders where source_id = ${sourceId} and seen_by is distinct from ${holder}`.execute(trx)
  await sql`update source_folders set etag = next_etag where source_id = ${sourceId}`.execute(trx)
  await sql`
    with recursive left_over (path) as (
      select path from source_files where source_id = ${sourceId} and removed_at is null
        and (outcome <> 'stored' or (etag is null and size is null and modified_at is null))
      union select unnest(${[...uncertainPaths]}::text[])
      union select case when path ~ '/' then regexp_replace(path, '/[^/]*$', '') else '' end from left_over where path <> ''
    )
    delete from source_folders using left_over where source_id = ${sourceId} and source_folders.path = left_over.path`.execute(trx)
}

/** Deletes all tags, so that the next run enters every folder. */
export async function deleteTags(trx: Trx, sourceId: string): Promise<void> {
  await trx.deleteFrom('source_folders').where('source_id', '=', sourceId).execute()
}
