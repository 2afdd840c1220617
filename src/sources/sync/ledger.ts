/** What is known of a source's files: what was taken in, as what, and which run saw it last. */
import { sql } from 'kysely'
import type { Db, Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import type { SourceFile } from '../../ports/source-type.ts'

export type Known = Omit<Row<'source_files'>, 'source_id'>

/** What is known of a listed file; `is_same`: the listing tells of the version that was taken in. */
export type Compared = Known & { is_same: boolean }

/**
 * Of these files those that are not simply as they were taken in, with what is known of them: null where that is nothing. With `all` the others
 * too. A tag that stays while the size changes is no tag.
 */
export async function compare(
  db: Db,
  sourceId: string,
  runId: string | null,
  files: readonly SourceFile[],
  all: boolean,
): Promise<Map<string, Compared | null>> {
  if (files.length === 0) return new Map()
  // Lateral, so that each is looked up by its key: of the length of the lists the planner knows nothing.
  const { rows } = await sql<{ listed: string } & (Compared | { path: null })>`
    select * from (
      select l.path as listed, f.*,
        coalesce(l.size = f.size, true) and case when l.etag is not null and f.etag is not null then l.etag = f.etag
          else coalesce(l.size = f.size and to_timestamp(l.modified_at / 1000) = f.modified_at, false) end as is_same
      from unnest(${files.map(({ path }) => path)}::text[], ${files.map(({ etag }) => etag)}::text[],
        ${files.map(({ size }) => size)}::int8[], ${files.map(({ modifiedAt }) => modifiedAt?.getTime() ?? null)}::float8[]) as l (path, etag, size, modified_at)
      left join lateral (
        select path, etag, size, modified_at, sha256, document_id, outcome, removed_at, run_id
        from source_files where source_id = ${sourceId} and path = l.path limit 1
      ) f on true
    ) compared
    where ${all} or path is null or not (is_same and outcome = 'stored' and document_id is not null and removed_at is null
      and run_id is distinct from ${runId})`.execute(db)
  return new Map(rows.map(({ listed, ...row }) => [listed, row.path === null ? null : row]))
}

/** The run has seen these files, and nothing about them is new. */
export async function see(trx: Trx, sourceId: string, runId: string, paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return
  await sql`update source_files set run_id = ${runId}, removed_at = null
    where source_id = ${sourceId} and path = any(${paths}::text[])`.execute(trx)
}

/** The same for all below a folder that was not entered; how many files that are. */
export async function seeBelow(trx: Trx, sourceId: string, runId: string, folder: string): Promise<number> {
  const { numAffectedRows } = await sql`update source_files set run_id = ${runId}
    where source_id = ${sourceId} and removed_at is null and run_id is distinct from ${runId}
      and (${folder} = '' or starts_with(path, ${`${folder}/`}))`.execute(trx)
  return Number(numAffectedRows ?? 0)
}

export interface Entry extends Pick<Known, 'path' | 'etag' | 'size' | 'modified_at' | 'sha256' | 'document_id' | 'outcome'> {}

/** Writes what became of files; no two with the same path. */
export async function write(trx: Trx, sourceId: string, runId: string, entries: readonly Entry[]): Promise<void> {
  if (entries.length === 0) return
  await trx
    .insertInto('source_files')
    .values(entries.map((entry) => ({ ...entry, source_id: sourceId, run_id: runId, removed_at: null })))
    .onConflict((conflict) =>
      conflict.columns(['source_id', 'path']).doUpdateSet((eb) => ({
        etag: eb.ref('excluded.etag'),
        size: eb.ref('excluded.size'),
        modified_at: eb.ref('excluded.modified_at'),
        sha256: eb.ref('excluded.sha256'),
        document_id: eb.ref('excluded.document_id'),
        outcome: eb.ref('excluded.outcome'),
        run_id: eb.ref('excluded.run_id'),
        removed_at: null,
      })),
    )
    .execute()
}

/** Of these bytes, those of a file that the run has not seen (yet): it may be the same file under its old name. */
export async function unseen(trx: Trx, sourceId: string, runId: string, sums: readonly string[]): Promise<Set<string>> {
  if (sums.length === 0) return new Set()
  const { rows } = await sql<{ sha256: string }>`
    select distinct sha256 from source_files
    where source_id = ${sourceId} and sha256 = any(${sums}::text[]) and ${isPast(runId)}`.execute(trx)
  return new Set(rows.map(({ sha256 }) => sha256))
}

/** Taken in by an earlier run, and not seen by this one. What was deleted here and is gone there as well is nothing any more. */
const isPast = (runId: string) =>
  sql`outcome = 'stored' and run_id is distinct from ${runId} and (document_id is not null or removed_at is null)`

/** Files that may have come from another path, a few at a time. */
export const moving = (trx: Trx, sourceId: string, runId: string, limit: number): Promise<Known[]> =>
  trx
    .selectFrom('source_files')
    .selectAll()
    .where('source_id', '=', sourceId)
    .where('outcome', '=', 'moving')
    .where('run_id', '=', runId)
    .orderBy('path')
    .limit(limit)
    .execute()

/** A file with these bytes whose path is gone, with the same name if there is one: where the file came from. */
export async function vanished(
  trx: Trx,
  sourceId: string,
  runId: string,
  { path, sha256 }: Known,
  unsure: readonly string[],
): Promise<Known | undefined> {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const { rows } = await sql<Known>`
    select * from source_files f where source_id = ${sourceId} and sha256 = ${sha256} and ${isPast(runId)} and ${sure(unsure)}
    order by (f.path = ${name} or right(f.path, ${name.length + 1}) = ${`/${name}`}) desc, (document_id is null), path
    limit 1 for update`.execute(trx)
  return rows[0]
}

/** Forgets a path. */
export async function forget(trx: Trx, sourceId: string, path: string): Promise<void> {
  await trx.deleteFrom('source_files').where('source_id', '=', sourceId).where('path', '=', path).execute()
}

/** How many files the run has not marked and that are not gone, and whether some may have come from another path. */
export async function unmarked(db: Db, sourceId: string, runId: string): Promise<{ files: number; is_moving: boolean }> {
  const { rows } = await sql<{ files: number; is_moving: boolean }>`
    select count(*) filter (where removed_at is null and run_id is distinct from ${runId}) as files,
      coalesce(bool_or(outcome = 'moving' and run_id = ${runId}), false) as is_moving
    from source_files where source_id = ${sourceId}`.execute(db)
  return rows[0] as { files: number; is_moving: boolean }
}

/** Marks files as gone that the run has not seen, a few at a time; null where there are no more, else their documents. */
export async function remove(
  trx: Trx,
  sourceId: string,
  runId: string,
  unsure: readonly string[],
  now: Date,
  limit: number,
): Promise<{ documents: string[] } | null> {
  // Materialized: of a table that has just grown the planner knows nothing, and would look for each row among all the others.
  const { rows } = await sql<{ document_id: string | null }>`
    with gone as materialized (
      select path from source_files f
      where source_id = ${sourceId} and removed_at is null and run_id is distinct from ${runId} and ${sure(unsure)} limit ${limit}
    )
    update source_files f set removed_at = ${now} from gone
    where f.source_id = ${sourceId} and f.path = gone.path returning f.document_id`.execute(trx)
  if (rows.length === 0) return null
  return { documents: rows.flatMap(({ document_id }) => (document_id === null ? [] : [document_id])) }
}

/** Nothing is known of what is at or below these paths. */
const sure = (unsure: readonly string[]) => sql`not exists (
  select from unnest(${unsure}::text[]) as unsure (path)
  where unsure.path = '' or f.path = unsure.path or starts_with(f.path, unsure.path || '/'))`

/** Whether there are files that are not gone. */
export async function isEmpty(db: Db, sourceId: string): Promise<boolean> {
  const rows = await db
    .selectFrom('source_files')
    .select('path')
    .where('source_id', '=', sourceId)
    .where('removed_at', 'is', null)
    .limit(1)
    .execute()
  return rows.length === 0
}

/** Every file is fetched anew by the next run: nothing says any more which version of it was taken in. */
export async function doubt(trx: Trx, sourceId: string): Promise<void> {
  await trx.updateTable('source_files').set({ etag: null, size: null, modified_at: null }).where('source_id', '=', sourceId).execute()
}
