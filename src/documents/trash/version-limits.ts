/** Purge of versions past `documents.keep_versions` and `documents.version_days`. Never of the current version, and never under retention or hold. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { appendWith } from '../../audit/audit.ts'
import { secondsAgo } from '../../db/clock.ts'
import type { Db, Trx } from '../../db/pool.ts'
import type { DeletionOptions } from '../../db/statements.ts'
import { publishMany } from '../../events.ts'
import { nilId } from '../../id.ts'
import { deleteVersions } from '../purge.ts'
import { isRetained } from '../retention.ts'
import { destructionEntry } from './destroy.ts'
import { maintenanceActor } from './purge-trash.ts'

/** Documents checked against the limits by one query. */
const batchSize = 1000
const daySeconds = 86_400

interface ExcessVersion {
  document_id: string
  owner_id: string
  title: string
  number: number
  sha256: string
  size: number
}

/** Deletes the versions past the limits. Returns their number. */
export async function purgeVersions(app: App, { isDryRun = false, signal }: DeletionOptions = {}): Promise<number> {
  const { keep_versions, version_days } = app.config.documents
  if (keep_versions === 0 && version_days === 0) return 0
  let count = 0
  for (let last = nilId; ; ) {
    const { rows } = await sql<{ id: string }>`
      select document_id as id from document_versions where document_id > ${last}::uuid
      group by document_id having count(*) > 1 order by document_id limit ${batchSize}`.execute(app.db)
    const excess = await loadExcess(
      app,
      app.db,
      rows.map(({ id }) => id),
    )
    const ids = [...new Set(excess.map(({ document_id }) => document_id))]
    if (isDryRun) count += excess.length
    else if (ids.length > 0) count += await app.db.transaction().execute((trx) => deleteExcess(app, trx, ids))
    if (rows.length < batchSize || signal?.aborted) return count
    last = rows.at(-1)?.id ?? ''
  }
}

async function deleteExcess(app: App, trx: Trx, ids: readonly string[]): Promise<number> {
  // Serializes with new versions, restores and retention.
  await sql`select from documents where id = any(${ids}::uuid[]) order by id for update`.execute(trx)
  const excess = await loadExcess(app, trx, ids)
  await deleteVersions(trx, excess)
  const documents = [...Map.groupBy(excess, ({ document_id }) => document_id).values()].map((versions) => ({
    ...(versions[0] as ExcessVersion),
    versions,
  }))
  const events = documents.map(({ owner_id, document_id }) => ({ userId: owner_id, data: { document_id, changes: ['versions'] } }))
  await publishMany(trx, 'document_updated', events)
  const entries = documents.map(({ document_id, title, versions }) =>
    destructionEntry(app, maintenanceActor, { id: document_id, title }, versions, 'version_limit'),
  )
  await appendWith(trx, entries)
  return excess.length
}

/** Returns the versions of these documents that a limit does not keep. A version is superseded when the next one is created. */
async function loadExcess(app: App, db: Db, ids: readonly string[]): Promise<ExcessVersion[]> {
  if (ids.length === 0) return []
  const { keep_versions, version_days } = app.config.documents
  const isExcess = [
    ...(keep_versions > 0 ? [sql`rank > ${keep_versions}`] : []),
    ...(version_days > 0 ? [sql`superseded_at <= ${secondsAgo(version_days * daySeconds)}`] : []),
  ]
  const { rows } = await sql<ExcessVersion>`
    select document_id, owner_id, title, number, version.sha256, version.size from (
      select document_id, number, sha256, size, row_number() over newest as rank, lag(created_at) over newest as superseded_at
      from document_versions where document_id = any(${ids}::uuid[]) window newest as (partition by document_id order by number desc)
    ) version join documents on documents.id = document_id
    where number <> current_version and (${sql.join(isExcess, sql` or `)}) and not ${isRetained}
    order by document_id, number`.execute(db)
  return rows
}
