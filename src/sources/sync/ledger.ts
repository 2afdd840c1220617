/** Ledger of a source: version, document and last run of each ingested file. folder-tags.ts has its folders. */
import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import type { SourceFile } from '../../ports/source-type.ts'
import type { Run } from './run-records.ts'

export type KnownFile = Omit<Row<'source_files'>, 'source_id'>

/** A turn of a run. An interrupted run, or one that yields, continues in another turn, which lists the source again. */
export type Turn = Pick<Run, 'id' | 'holder'>

/** A listed file with its ledger row. `is_same`: the listed version was ingested. */
export interface ComparedFile extends KnownFile {
  is_same: boolean
  /** SHA-256 of the document; null: no document */
  current_sha256: string | null
  current_size: number | null
  is_trashed: boolean
}

/**
 * Compares listed files with the ledger. Returns their rows by path, null for new files. With `runId`, leaves out unchanged files that this run has
 * not recorded. A file of another size has changed even if its etag has not.
 */
export async function compareFiles(
  db: Db,
  sourceId: string,
  files: readonly SourceFile[],
  runId?: string,
): Promise<Map<string, ComparedFile | null>> {
  if (files.length === 0) return new Map()
  // LATERAL forces one index lookup per file: the planner cannot estimate the arrays.
  const { rows } = await sql<{ listed: string } & (ComparedFile | { path: null })>`
    select changed.*, d.sha256 as current_sha256, d.size as current_size, coalesce(d.is_trashed, false) as is_trashed from (select * from (
      select l.path as listed, f.*,
        coalesce(l.size = f.size, true) and case when l.etag is not null and f.etag is not null then l.etag = f.etag
          else coalesce(l.size = f.size and to_timestamp(l.modified_at / 1000) = f.modified_at, false) end as is_same
      from unnest(${files.map(({ path }) => path)}::text[], ${files.map(({ etag }) => etag)}::text[],
        ${files.map(({ size }) => size)}::int8[], ${files.map(({ modifiedAt }) => modifiedAt?.getTime() ?? null)}::float8[]) as l (path, etag, size, modified_at)
      left join lateral (
        select path, etag, size, modified_at, sha256, document_id, outcome, removed_at, run_id, seen_by
        from source_files where source_id = ${sourceId} and path = l.path limit 1
      ) f on true
    ) compared
    where ${runId === undefined} or path is null or not (is_same and outcome = 'stored' and document_id is not null and removed_at is null
      and run_id is distinct from ${runId ?? null})) changed
    left join lateral (
      select sha256, size, deleted_at is not null as is_trashed from documents where id = changed.document_id limit 1
    ) d on true`.execute(db)
  return new Map(rows.map(({ listed, ...row }) => [listed, row.path === null ? null : row]))
}

/** Marks unchanged files as seen by the turn. */
export async function markSeen(trx: Trx, sourceId: string, turn: Turn, paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return
  await sql`update source_files set run_id = ${turn.id}, seen_by = ${turn.holder}, removed_at = null
    where source_id = ${sourceId} and path = any(${paths}::text[])`.execute(trx)
}

/** Marks all files and folders below an unchanged folder as seen. Returns the number of files, and of those that an earlier turn has not counted. */
export async function markSeenBelow(
  trx: Trx,
  sourceId: string,
  { id, holder }: Turn,
  folder: string,
): Promise<{ files: number; counted: number }> {
  await sql`update source_folders set seen_by = ${holder}, next_etag = etag
    where source_id = ${sourceId} and (${folder} = '' or path = ${folder} or starts_with(path, ${`${folder}/`}))`.execute(trx)
  const mark = async (condition: RawBuilder<unknown>): Promise<number> => {
    const { numAffectedRows } = await sql`update source_files set run_id = ${id}, seen_by = ${holder}
      where source_id = ${sourceId} and removed_at is null and ${condition}
        and (${folder} = '' or starts_with(path, ${`${folder}/`}))`.execute(trx)
    return Number(numAffectedRows ?? 0)
  }
  const counted = await mark(sql`run_id is distinct from ${id}`)
  return { counted, files: counted + (await mark(sql`seen_by is distinct from ${holder}`)) }
}

export interface LedgerEntry extends Pick<KnownFile, 'path' | 'etag' | 'size' | 'modified_at' | 'sha256' | 'document_id' | 'outcome'> {}

/** Inserts or updates entries. Their paths are unique. */
export async function writeEntries(trx: Trx, sourceId: string, { id, holder }: Turn, entries: readonly LedgerEntry[]): Promise<void> {
  if (entries.length === 0) return
  await trx
    .insertInto('source_files')
    .values(entries.map((entry) => ({ ...entry, source_id: sourceId, run_id: id, seen_by: holder, removed_at: null })))
    .onConflict((conflict) =>
      conflict.columns(['source_id', 'path']).doUpdateSet((eb) => ({
        etag: eb.ref('excluded.etag'),
        size: eb.ref('excluded.size'),
        modified_at: eb.ref('excluded.modified_at'),
        sha256: eb.ref('excluded.sha256'),
        document_id: eb.ref('excluded.document_id'),
        outcome: eb.ref('excluded.outcome'),
        run_id: eb.ref('excluded.run_id'),
        seen_by: eb.ref('excluded.seen_by'),
        removed_at: null,
      })),
    )
    .execute()
}

/** Returns the hashes of files that the turn has not seen yet. Such a file may have been moved. */
export async function findUnseenHashes(trx: Db, sourceId: string, turn: Turn, hashes: readonly string[]): Promise<Set<string>> {
  if (hashes.length === 0) return new Set()
  const { rows } = await sql<{ sha256: string }>`
    select distinct sha256 from source_files
    where source_id = ${sourceId} and sha256 = any(${hashes}::text[]) and ${isUnseen(turn)}`.execute(trx)
  return new Set(rows.map(({ sha256 }) => sha256))
}

/** Condition: ingested before and not seen by this turn. Excludes files deleted both here and at the source. */
const isUnseen = ({ holder }: Turn) =>
  sql`outcome = 'stored' and seen_by is distinct from ${holder} and (document_id is not null or removed_at is null)`

/** Lists files that may have been moved from another path. */
export const listMoving = (trx: Trx, sourceId: string, { holder }: Turn, limit: number): Promise<KnownFile[]> =>
  trx
    .selectFrom('source_files')
    .selectAll()
    .where('source_id', '=', sourceId)
    .where('outcome', '=', 'moving')
    .where('seen_by', '=', holder)
    .orderBy('path')
    .limit(limit)
    .execute()

/** Finds a vanished file with the same bytes, preferably with the same name: the origin of a move. Locks its row. */
export async function findVanished(
  trx: Trx,
  sourceId: string,
  turn: Turn,
  { path, sha256 }: KnownFile,
  uncertainPaths: readonly string[],
): Promise<KnownFile | undefined> {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const { rows } = await sql<KnownFile>`
    select * from source_files f where source_id = ${sourceId} and sha256 = ${sha256} and ${isUnseen(turn)} and ${isCertain(uncertainPaths)}
    order by (f.path = ${name} or right(f.path, ${name.length + 1}) = ${`/${name}`}) desc, (document_id is null), path
    limit 1 for update`.execute(trx)
  return rows[0]
}

/** Deletes the entry of a path. */
export async function deletePath(trx: Trx, sourceId: string, path: string): Promise<void> {
  await trx.deleteFrom('source_files').where('source_id', '=', sourceId).where('path', '=', path).execute()
}

/** Returns the number of files that the turn has not seen, and whether any turn has recorded files that may have been moved. */
export async function countUnseen(db: Db, sourceId: string, { holder }: Turn): Promise<{ files: number; is_moving: boolean }> {
  const { rows } = await sql<{ files: number; is_moving: boolean }>`
    select count(*) filter (where removed_at is null and seen_by is distinct from ${holder}) as files,
      coalesce(bool_or(outcome = 'moving' and removed_at is null), false) as is_moving
    from source_files where source_id = ${sourceId}`.execute(db)
  return rows[0] as { files: number; is_moving: boolean }
}

/** Marks up to `limit` unseen files as removed. Returns their documents, or null when none is left. */
export async function markRemoved(
  trx: Trx,
  sourceId: string,
  { holder }: Turn,
  uncertainPaths: readonly string[],
  { now, limit }: { now: Date; limit: number },
): Promise<{ documents: string[] } | null> {
  // MATERIALIZED: after a large insert the planner underestimates the table and would choose a nested loop.
  const { rows } = await sql<{ document_id: string | null }>`
    with gone as materialized (
      select path from source_files f
      where source_id = ${sourceId} and removed_at is null and seen_by is distinct from ${holder} and ${isCertain(uncertainPaths)} limit ${limit}
    )
    update source_files f set removed_at = ${now} from gone
    where f.source_id = ${sourceId} and f.path = gone.path returning f.document_id`.execute(trx)
  if (rows.length === 0) return null
  return { documents: rows.flatMap(({ document_id }) => (document_id === null ? [] : [document_id])) }
}

/** Excludes files at or below paths that could not be listed. */
export const isCertain = (uncertainPaths: readonly string[]) => sql`not exists (
  select from unnest(${uncertainPaths}::text[]) as uncertain (path)
  where uncertain.path = '' or f.path = uncertain.path or starts_with(f.path, uncertain.path || '/'))`

/** Hidden files and files of operating systems, which a mount point without its file system may contain. A regular expression without case. */
const systemPath = '(^|/)([.]|(lost[+]found|thumbs[.]db|desktop[.]ini|[$]recycle[.]bin|system volume information)(/|$))'
const systemPathPattern = new RegExp(systemPath, 'i')

/** Returns whether the file, or a folder above it, is hidden or belongs to an operating system. */
export const isSystemPath = (path: string): boolean => systemPathPattern.test(path)

/** Returns whether all files in the ledger are removed, skipped or system files. */
export async function isEmpty(db: Db, sourceId: string): Promise<boolean> {
  const rows = await db
    .selectFrom('source_files')
    .select('path')
    .where('source_id', '=', sourceId)
    .where('removed_at', 'is', null)
    .where('outcome', '!=', 'skipped')
    .where(sql<boolean>`path !~* ${systemPath}`)
    .limit(1)
    .execute()
  return rows.length === 0
}

/** Clears the recorded versions of all files, or of some, so that the next run fetches them again. */
export async function resetVersions(trx: Trx, sourceId: string, paths?: readonly string[]): Promise<void> {
  await sql`update source_files set etag = null, size = null, modified_at = null
    where source_id = ${sourceId} ${paths ? sql`and path = any(${paths}::text[])` : sql``}`.execute(trx)
}
