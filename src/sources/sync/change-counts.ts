/** Counts known files: files of the ledger that were not removed and have a document outside the trash. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import { type ComparedFile, isCertain, type Turn } from './ledger.ts'

/** Sources with fewer known files may change at will. */
export const minKnownFiles = 20

const isKnownRow = sql`f.outcome = 'stored' and f.document_id is not null and f.removed_at is null
  and not exists (select from documents d where d.id = f.document_id and d.deleted_at is not null)`

/** Returns whether the file is a known file. isKnownRow is the condition in SQL. */
export const isKnown = ({ outcome, document_id, removed_at, is_trashed }: ComparedFile): boolean =>
  outcome === 'stored' && document_id !== null && removed_at === null && !is_trashed

/** Returns the number of known files, and the number of them that the turn has ingested or seen unchanged. */
export async function countKnown(db: Db, sourceId: string, turn: Turn | null): Promise<{ known: number; unchanged: number }> {
  const { rows } = await sql<{ known: number; unchanged: number }>`
    select count(*) as known, count(*) filter (where seen_by = ${turn?.holder}) as unchanged
    from source_files f where source_id = ${sourceId} and ${isKnownRow}`.execute(db)
  return rows[0] as { known: number; unchanged: number }
}

/** Returns the number of known files at a path and below it; '' is the whole source. */
export async function countKnownAt(db: Db, sourceId: string, path: string): Promise<number> {
  const { rows } = await sql<{ files: number }>`
    select count(*) as files from source_files f
    where source_id = ${sourceId} and (${path} in ('', f.path) or starts_with(f.path, ${`${path}/`})) and ${isKnownRow}`.execute(db)
  return rows[0]?.files ?? 0
}

/** SQL: known files that the turn has not seen: changed, vanished or moved. */
const unseen = (sourceId: string, { holder }: Turn, uncertainPaths: readonly string[]) =>
  sql`source_id = ${sourceId} and seen_by is distinct from ${holder} and ${isKnownRow} and ${isCertain(uncertainPaths)}`

/** Returns the number of known files that the turn has not seen. Leaves out moved files, whose bytes it found at a new path. */
export async function countUnseenKnown(db: Db, sourceId: string, turn: Turn, uncertainPaths: readonly string[]): Promise<number> {
  const { rows } = await sql<{ files: number }>`
    with unseen as (
      select sha256, count(*) as files from source_files f where ${unseen(sourceId, turn, uncertainPaths)} group by sha256
    ), moving as (
      select sha256, count(*) as files from source_files
      where source_id = ${sourceId} and outcome = 'moving' and seen_by = ${turn.holder} group by sha256
    )
    select coalesce(sum(unseen.files - least(unseen.files, coalesce(moving.files, 0))), 0)::int8 as files
    from unseen left join moving using (sha256)`.execute(db)
  return rows[0]?.files ?? 0
}

/** Returns the sizes in bytes of the known files that the turn has not seen; null if one is unknown. */
export async function listUnseenSizes(
  db: Db,
  sourceId: string,
  turn: Turn,
  uncertainPaths: readonly string[],
): Promise<Set<number> | null> {
  const { rows } = await sql<{ size: number | null }>`
    select distinct coalesce(f.size, (select size from documents d where d.id = f.document_id and d.sha256 = f.sha256)) as size
    from source_files f where ${unseen(sourceId, turn, uncertainPaths)}`.execute(db)
  const sizes = rows.map(({ size }) => size)
  return sizes.includes(null) ? null : new Set(sizes as number[])
}
