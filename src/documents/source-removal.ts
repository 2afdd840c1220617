/** What a document says of the file that it came from. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { publishMany } from '../events.ts'
import { touch } from './documents.ts'
import { reindexAll } from './enqueue-index.ts'
import { cleanFilename, titleOf } from './file-names.ts'

/** The files are gone from their source; the documents stay, and say since when. */
export const markGone = (app: App, trx: Trx, ids: readonly string[]): Promise<void> =>
  change(app, trx, ids, sql`metadata || jsonb_build_object('source_removed_at', ${app.now().toISOString()}::text)`)

/** The files are back. */
export const markBack = (app: App, trx: Trx, ids: readonly string[]): Promise<void> =>
  change(app, trx, ids, sql`metadata - 'source_removed_at'`)

async function change(app: App, trx: Trx, ids: readonly string[], metadata: ReturnType<typeof sql>): Promise<void> {
  if (ids.length === 0) return
  const { rows } = await sql<{ id: string; owner_id: string }>`
    update documents set metadata = ${metadata}, version = version + 1, updated_at = ${app.now()} where id = any(${ids}::uuid[])
    returning id, owner_id`.execute(trx)
  await reindexAll(
    trx,
    rows.map(({ id }) => id),
  )
  await publishMany(
    trx,
    'document_updated',
    rows.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes: ['metadata'] } })),
  )
}

/** The file has another name at its source, and so has the document; a title that somebody chose stays. */
export async function rename(app: App, trx: Trx, id: string, path: string): Promise<void> {
  const document = await trx
    .selectFrom('documents')
    .select(['owner_id', 'title', 'filename'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  if (!document) return
  const filename = cleanFilename(path)
  const title = document.title === titleOf(document.filename) ? titleOf(filename) : document.title
  await touch(app, trx, id, { filename, title, source_path: path, metadata: sql`metadata - 'source_removed_at'` as never })
  await publishMany(trx, 'document_updated', [
    { userId: document.owner_id, data: { document_id: id, changes: ['filename', 'source_path'] } },
  ])
}
