/** Tags of folders: one that has not changed need not be entered, if everything below it was taken in. */
import { sql } from 'kysely'
import type { Db, Trx } from '../../db/pool.ts'
import type { Pulling } from './sync-context.ts'

/** The tag that a folder had when everything below it was last taken in. */
async function tagOf(db: Db, sourceId: string, path: string): Promise<string | null> {
  const row = await db
    .selectFrom('source_folders')
    .select('etag')
    .where('source_id', '=', sourceId)
    .where('path', '=', path)
    .executeTakeFirst()
  return row?.etag ?? null
}

/** How a walk asks for these tags; one that looks at everything again is told of none. */
export const tagsFor =
  ({ app, sourceId, options }: Pick<Pulling, 'app' | 'sourceId' | 'options'>) =>
  async (path: string): Promise<string | null> =>
    options.full ? null : tagOf(app.db, sourceId, path)

/** Whether the source has folders with tags: few kinds of servers have. */
export const isAny = async (db: Db, sourceId: string): Promise<boolean> =>
  (await db.selectFrom('source_folders').select('path').where('source_id', '=', sourceId).limit(1).executeTakeFirst()) !== undefined

/** The run has walked these folders to their ends. */
export async function see(trx: Trx, sourceId: string, runId: string, seen: ReadonlyMap<string, string>): Promise<void> {
  if (seen.size === 0) return
  await trx
    .insertInto('source_folders')
    .values([...seen].map(([path, next_etag]) => ({ source_id: sourceId, path, etag: null, next_etag, run_id: runId })))
    .onConflict((conflict) =>
      conflict
        .columns(['source_id', 'path'])
        .doUpdateSet((eb) => ({ next_etag: eb.ref('excluded.next_etag'), run_id: eb.ref('excluded.run_id') })),
    )
    .execute()
}

/** The same for all below a folder that was not entered. */
export async function seeBelow(trx: Trx, sourceId: string, runId: string, folder: string): Promise<void> {
  await sql`update source_folders set run_id = ${runId}, next_etag = etag
    where source_id = ${sourceId} and (${folder} = '' or starts_with(path, ${`${folder}/`}))`.execute(trx)
}

/**
 * The run has gone well: the tags that it saw count from now on. Not those of folders with something left to do below them: a file that failed
 * or was skipped, a folder that could not be listed.
 */
export async function keep(trx: Trx, sourceId: string, runId: string, unsure: readonly string[]): Promise<void> {
  await sql`delete from source_folders where source_id = ${sourceId} and run_id is distinct from ${runId}`.execute(trx)
  await sql`update source_folders set etag = next_etag where source_id = ${sourceId}`.execute(trx)
  await sql`
    with recursive left_over (path) as (
      select path from source_files where source_id = ${sourceId} and outcome <> 'stored' and removed_at is null
      union select unnest(${[...unsure]}::text[])
      union select case when path ~ '/' then regexp_replace(path, '/[^/]*$', '') else '' end from left_over where path <> ''
    )
    delete from source_folders using left_over where source_id = ${sourceId} and source_folders.path = left_over.path`.execute(trx)
}

/** All folders are entered by the next run. */
export async function forget(trx: Trx, sourceId: string): Promise<void> {
  await trx.deleteFrom('source_folders').where('source_id', '=', sourceId).execute()
}
