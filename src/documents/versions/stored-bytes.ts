/** Stored bytes by use. Bytes that several versions have count once. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'

export interface StoredBytes {
  /** all stored files */
  total: number
  /** files that only old versions have */
  oldVersions: number
  /** files used only by documents in the trash */
  trash: number
  /** files that only renditions have */
  renditions: number
  /** number of versions of documents that are not in the trash */
  versionCount: number
  /** number of old versions among them */
  oldVersionCount: number
  /** number of documents in the trash */
  trashedCount: number
}

/** Sums the stored files. Reads all versions and the documents in the trash. Only old versions have a status. */
export async function loadStoredBytes(db: Db): Promise<StoredBytes> {
  const { rows } = await sql<StoredBytes>`
    with trash as materialized (select id from documents where deleted_at is not null),
    used as not materialized (
      select sha256, size, status is not null as "isOld", trash.id is not null as "isTrashed"
      from document_versions left join trash on trash.id = document_id
    ),
    unused as (
      select max(size) as size, bool_or(not "isTrashed") as "isOld" from used where ("isOld" or "isTrashed")
        and not exists (select from used current where current.sha256 = used.sha256 and not current."isOld" and not current."isTrashed")
      group by sha256
    )
    select (select coalesce(sum(size), 0) from stored_files)::float8 as total,
      (select coalesce(sum(size) filter (where "isOld"), 0) from unused)::float8 as "oldVersions",
      (select coalesce(sum(size) filter (where not "isOld"), 0) from unused)::float8 as trash,
      (select coalesce(sum(size), 0) from (select distinct sha256, size from renditions where sha256 is not null
        and not exists (select from used where used.sha256 = renditions.sha256)) made)::float8 as renditions,
      (select count(*) from used where not "isTrashed") as "versionCount",
      (select count(*) from used where "isOld" and not "isTrashed") as "oldVersionCount",
      (select count(*) from trash) as "trashedCount"`.execute(db)
  return rows[0] as StoredBytes
}
