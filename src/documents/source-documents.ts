/** Documents of sources: stored in batches, replaced, renamed and marked like their files. */

import { type RawBuilder, sql } from 'kysely'
import type { App } from '../app.ts'
import { clockMs } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import type { SplitMode } from '../db/schema-documents.ts'
import { publish, publishMany } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { newDocumentJobs } from './extraction/group.ts'
import { defaultTitle, sanitizeFilename } from './file-names.ts'
import { publishUpdates, writeRevision } from './revisions.ts'
import { insertRows, splitColumn } from './store-document.ts'
import { ensureBytes, lockOrCreateAll } from './stored-files.ts'
import { addVersion } from './versions/versions.ts'

interface FetchedFile {
  staged: StagedFile
  /** relative to the root of the source */
  path: string
}

export interface NewDocumentOptions {
  ownerId: string
  sourceId: string
  ocr: boolean
  language: string
  split: SplitMode
}

/** Creates documents from files of a source and returns their ids in order. Call `staged.confirm()` after the commit. */
export async function createDocuments(
  app: App,
  trx: Trx,
  { ownerId, sourceId, ocr, language, split }: NewDocumentOptions,
  files: readonly FetchedFile[],
): Promise<string[]> {
  if (files.length === 0) return []
  const firstBySum = new Map<string, StagedFile>()
  for (const { staged } of files) if (!firstBySum.has(staged.sha256)) firstBySum.set(staged.sha256, staged)
  const addresses = await lockOrCreateAll(trx, [...firstBySum.values()])
  const originals = await lockOriginals(trx, ownerId, [...firstBySum.keys()])
  const ownedSums = new Set(originals.keys())
  const { rows } = await sql<{ id: string }>`select dms_uuidv7() as id from generate_series(1, ${files.length}::int)`.execute(trx)
  const ids = rows.map(({ id }) => id)
  const documents = await Promise.all(
    files.map(async ({ staged: { sha256, size, head }, path }, index) => {
      const id = ids[index] ?? ''
      const filename = sanitizeFilename(path)
      const mimeType = await detectType(head, filename, size)
      const original = originals.get(sha256) ?? null
      if (original === null) originals.set(sha256, id)
      return {
        id,
        owner_id: ownerId,
        title: defaultTitle(filename),
        filename,
        mime_type: mimeType,
        size,
        sha256,
        ocr_enabled: ocr,
        language,
        metadata: {},
        duplicate_of: original,
        split: splitColumn(split, mimeType),
        source_id: sourceId,
        source_path: path,
        created_by: null,
      }
    }),
  )
  await Promise.all(
    [...firstBySum.values()].map((staged) =>
      ensureBytes(app, trx, staged, addresses.get(staged.sha256) ?? '', { canCompare: ownedSums.has(staged.sha256) }),
    ),
  )
  await insertRows(trx, documents, 'sync')
  await jobs.enqueueAll(
    trx,
    documents.flatMap((document) => newDocumentJobs(app, document, { ocr, language, ownerId })),
  )
  const events = documents.map(({ id, title }) => ({ userId: ownerId, data: { document_id: id, title, source: sourceId } }))
  await publishMany(trx, 'document_created', events)
  return ids
}

/** Returns the oldest document of the owner by SHA-256, for those that the owner has. Locks them against deletion. */
async function lockOriginals(trx: Trx, ownerId: string, sums: readonly string[]): Promise<Map<string, string>> {
  const { rows } = await sql<{ sha256: string; id: string }>`
    select oldest.sha256, oldest.id from unnest(${sums}::text[]) as staged (sha256) cross join lateral (
      select d.sha256, d.id from live_documents d where d.sha256 = staged.sha256 and d.owner_id = ${ownerId}
      order by d.created_at, d.id limit 1 for key share
    ) as oldest`.execute(trx)
  return new Map(rows.map(({ sha256, id }) => [sha256, id]))
}

interface Replacement {
  staged: StagedFile
  ocr: boolean
  language: string
}

/** Stores new bytes as the next version of a document. Returns false if nothing changes. Call `staged.confirm()` after the commit. */
export async function replaceFile(app: App, trx: Trx, id: string, replacement: Replacement): Promise<boolean> {
  const document = await trx
    .selectFrom('live_documents')
    .select(['id', 'owner_id', 'filename', 'sha256'])
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
  if (!document) return false
  const { created } = await addVersion(app, trx, document, { ...replacement, filename: document.filename, origin: 'sync', createdBy: null })
  return created
}

/** Records in the metadata when the files disappeared from their source. The documents stay. */
export const markSourceRemoved = (app: App, trx: Trx, ids: readonly string[]): Promise<void> =>
  updateMetadata(app, trx, ids, sql`metadata || jsonb_build_object('source_removed_at', ${utcText(clockMs)})`)

/** Returns a time as the API writes it. */
const utcText = (time: RawBuilder<Date>) => sql<string>`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** Clears the record of markSourceRemoved(). */
export const markSourceRestored = (app: App, trx: Trx, ids: readonly string[]): Promise<void> =>
  updateMetadata(app, trx, ids, sql`metadata - 'source_removed_at'`)

async function updateMetadata(app: App, trx: Trx, ids: readonly string[], metadata: ReturnType<typeof sql>): Promise<void> {
  if (ids.length === 0) return
  const { rows } = await sql<{ id: string; owner_id: string }>`
    update documents set metadata = ${metadata}, revision = revision + 1, updated_at = ${app.now()} where id = any(${ids}::uuid[])
    returning id, owner_id`.execute(trx)
  await publishUpdates(trx, rows, ['metadata'])
}

/** Renames a document after its source file. Changes the title too unless a user edited it. */
export async function renameDocument(app: App, trx: Trx, id: string, path: string): Promise<void> {
  const document = await trx
    .selectFrom('documents')
    .select(['owner_id', 'title', 'filename'])
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
  if (!document) return
  const filename = sanitizeFilename(path)
  const title = document.title === defaultTitle(document.filename) ? defaultTitle(filename) : document.title
  await writeRevision(app, trx, id, { filename, title, source_path: path, metadata: sql`metadata - 'source_removed_at'` as never })
  await publish(trx, 'document_updated', document.owner_id, { document_id: id, changes: ['filename', 'source_path'] })
}
