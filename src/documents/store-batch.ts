/** Many staged files become documents at once, each statement and each wait for the disk shared by all of them. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { publishMany } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { reindexAll } from './enqueue-index.ts'
import { cleanFilename, titleOf } from './file-names.ts'
import { ensureBytes, lockAllStored } from './stored-files.ts'

export interface Arrival {
  staged: StagedFile
  /** relative to the source */
  path: string
}

export interface From {
  ownerId: string
  sourceId: string
  ocr: boolean
  language: string
}

/**
 * Makes documents of files from a source; their ids, in the order given. As store(): bytes get their names, and all the rest follows with the
 * caller's transaction; then `staged.keep()`. Bytes that the owner has already, here or elsewhere, are stored once.
 */
export async function storeMany(
  app: App,
  trx: Trx,
  { ownerId, sourceId, ocr, language }: From,
  arrivals: readonly Arrival[],
): Promise<string[]> {
  if (arrivals.length === 0) return []
  const firstOf = new Map<string, StagedFile>()
  for (const { staged } of arrivals) if (!firstOf.has(staged.sha256)) firstOf.set(staged.sha256, staged)
  const addresses = await lockAllStored(trx, [...firstOf.values()])
  const sums = [...firstOf.keys()]
  const { rows: twins } = await sql<{ sha256: string; id: string }>`
    select twin.sha256, twin.id from unnest(${sums}::text[]) as given (sha256) cross join lateral (
      select d.sha256, d.id from documents d where d.sha256 = given.sha256 and d.owner_id = ${ownerId}
      order by d.created_at, d.id limit 1 for key share
    ) as twin`.execute(trx)
  const { rows } = await sql<{ id: string }>`select dms_uuidv7() as id from generate_series(1, ${arrivals.length}::int)`.execute(trx)
  const ids = rows.map(({ id }) => id)
  const at = app.now()
  const first = new Map(twins.map(({ sha256, id }) => [sha256, id]))
  const owned = new Set(first.keys())
  const documents = await Promise.all(
    arrivals.map(async ({ staged: { sha256, size, head }, path }, index) => {
      const id = ids[index] ?? ''
      const filename = cleanFilename(path)
      const twin = first.get(sha256) ?? null
      if (twin === null) first.set(sha256, id)
      return {
        id,
        owner_id: ownerId,
        title: titleOf(filename),
        filename,
        mime_type: await detectType(head, filename, size),
        size,
        sha256,
        ocr_enabled: ocr,
        language,
        metadata: '{}',
        duplicate_of: twin,
        source_id: sourceId,
        source_path: path,
        created_at: at,
        updated_at: at,
      }
    }),
  )
  await Promise.all(
    [...firstOf.values()].map((staged) => ensureBytes(app, trx, staged, addresses.get(staged.sha256) ?? '', owned.has(staged.sha256))),
  )
  await trx.insertInto('documents').values(documents).execute()
  await jobs.enqueueMany(
    trx,
    ocr ? 'ocr' : 'extract',
    ids.map((documentId) => ({ payload: { language }, documentId, maxAttempts: app.config.ocr.max_attempts })),
  )
  await reindexAll(trx, ids)
  await publishMany(
    trx,
    'document_created',
    documents.map(({ id, title }) => ({ userId: ownerId, data: { document_id: id, title, source: sourceId } })),
  )
  return ids
}
