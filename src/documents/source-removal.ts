/** Changes of documents that follow their source: removed, restored and renamed files. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { publishMany } from '../events.ts'
import { defaultTitle, sanitizeFilename } from './file-names.ts'
import { enqueueIndex, writeVersion } from './versions.ts'

/** Records in the metadata when the files disappeared from their source. The documents stay. */
export const markSourceRemoved = (app: App, trx: Trx, ids: readonly string[]): Promise<void> =>
  updateMetadata(app, trx, ids, sql`metadata || jsonb_build_object('source_removed_at', ${app.now().toISOString()}::text)`)

/** Clears the record of markSourceRemoved(). */
export const markSourceRestored = (app: App, trx: Trx, ids: readonly string[]): Promise<void> =>
  updateMetadata(app, trx, ids, sql`metadata - 'source_removed_at'`)

async function updateMetadata(app: App, trx: Trx, ids: readonly string[], metadata: ReturnType<typeof sql>): Promise<void> {
  if (ids.length === 0) return
  const { rows } = await sql<{ id: string; owner_id: string }>`
    update documents set metadata = ${metadata}, version = version + 1, updated_at = ${app.now()} where id = any(${ids}::uuid[])
    returning id, owner_id`.execute(trx)
  await enqueueIndex(
    trx,
    rows.map(({ id }) => id),
  )
  await publishMany(
    trx,
    'document_updated',
    rows.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes: ['metadata'] } })),
  )
}

/** Renames a document after its source file. Changes the title too unless a user edited it. */
export async function renameDocument(app: App, trx: Trx, id: string, path: string): Promise<void> {
  const document = await trx
    .selectFrom('documents')
    .select(['owner_id', 'title', 'filename'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  if (!document) return
  const filename = sanitizeFilename(path)
  const title = document.title === defaultTitle(document.filename) ? defaultTitle(filename) : document.title
  await writeVersion(app, trx, id, { filename, title, source_path: path, metadata: sql`metadata - 'source_removed_at'` as never })
  await publishMany(trx, 'document_updated', [
    { userId: document.owner_id, data: { document_id: id, changes: ['filename', 'source_path'] } },
  ])
}
