/** Storing a batch of staged files as documents: statements and disk flushes are shared by the whole batch. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { publishMany } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { defaultTitle, sanitizeFilename } from './file-names.ts'
import { ensureBytes, lockOrCreateAll } from './stored-files.ts'
import { enqueueIndex } from './versions.ts'

export interface SourceFile {
  staged: StagedFile
  /** relative to the root of the source */
  path: string
}

export interface BatchOptions {
  ownerId: string
  sourceId: string
  ocr: boolean
  language: string
}

/**
 * Creates documents from files of a source. Returns their ids in the order of `files`. As for storeDocument(), the rest follows with the
 * caller's transaction, then call `staged.confirm()`. Bytes that the owner has already are stored once.
 */
export async function storeBatch(
  app: App,
  trx: Trx,
  { ownerId, sourceId, ocr, language }: BatchOptions,
  files: readonly SourceFile[],
): Promise<string[]> {
  if (files.length === 0) return []
  const firstOf = new Map<string, StagedFile>()
  for (const { staged } of files) if (!firstOf.has(staged.sha256)) firstOf.set(staged.sha256, staged)
  const addresses = await lockOrCreateAll(trx, [...firstOf.values()])
  const sums = [...firstOf.keys()]
  const { rows: duplicates } = await sql<{ sha256: string; id: string }>`
    select found.sha256, found.id from unnest(${sums}::text[]) as given (sha256) cross join lateral (
      select d.sha256, d.id from documents d where d.sha256 = given.sha256 and d.owner_id = ${ownerId}
      order by d.created_at, d.id limit 1 for key share
    ) as found`.execute(trx)
  const { rows } = await sql<{ id: string }>`select dms_uuidv7() as id from generate_series(1, ${files.length}::int)`.execute(trx)
  const ids = rows.map(({ id }) => id)
  const at = app.now()
  const first = new Map(duplicates.map(({ sha256, id }) => [sha256, id]))
  const owned = new Set(first.keys())
  const documents = await Promise.all(
    files.map(async ({ staged: { sha256, size, head }, path }, index) => {
      const id = ids[index] ?? ''
      const filename = sanitizeFilename(path)
      const duplicate = first.get(sha256) ?? null
      if (duplicate === null) first.set(sha256, id)
      return {
        id,
        owner_id: ownerId,
        title: defaultTitle(filename),
        filename,
        mime_type: await detectType(head, filename, size),
        size,
        sha256,
        ocr_enabled: ocr,
        language,
        metadata: '{}',
        duplicate_of: duplicate,
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
  await enqueueIndex(trx, ids)
  await publishMany(
    trx,
    'document_created',
    documents.map(({ id, title }) => ({ userId: ownerId, data: { document_id: id, title, source: sourceId } })),
  )
  return ids
}
