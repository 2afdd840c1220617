/**
 * The current version of documents. `documents` and `document_pages` have its file, text and pages; `document_versions` and `version_pages` have the
 * other versions. Callers have locked the documents.
 */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import * as jobs from '../../jobs/queue.ts'
import { pagesWithDocuments, pageText } from '../extraction/page-text.ts'
import { withFileMetadata } from '../file-metadata.ts'
import { cancelPending, requestAfterReturn } from '../renditions/renditions.ts'

/** Columns that `document_pages` and `version_pages` share, beside the text. */
const pageColumns = ['source', 'confidence', 'width', 'height', 'duration', 'language', 'error_code', 'error_message']
const insertColumns = sql.join(pageColumns.map((name) => sql.ref(name)))
const selectColumns = sql.join(pageColumns.map((name) => sql.ref(`page.${name}`)))

/** Whether the row `document` has the date of its file and not one that a user chose. */
const isOfFile = sql<boolean>`(document.date_source is distinct from 'user')`

/** Copies text and pages of the current versions into their rows, before other versions become current. Cancels the jobs of the documents. */
export async function archiveCurrent(trx: Trx, ids: readonly string[]): Promise<void> {
  await jobs.cancelByDocument(trx, ids)
  await sql`
    update document_versions version
    set mime_type = document.mime_type, filename = document.filename, content = document.content, ocr_enabled = document.ocr_enabled,
      language = document.language, status = case document.status when 'processing' then 'pending' else document.status end,
      ocr_confidence = document.ocr_confidence, page_count = document.page_count, error_code = document.error_code,
      error_message = document.error_message, processed_at = document.processed_at, text_source = document.text_source,
      warnings = document.warnings, detected_languages = document.detected_languages, file_metadata = document.file_metadata,
      document_date = case when ${isOfFile} then document.document_date end, date_source = case when ${isOfFile} then document.date_source end,
      date_confidence = document.date_confidence, date_checked = document.date_checked and ${isOfFile}
    from documents document
    where document.id = any(${ids}::uuid[]) and version.document_id = document.id and version.number = document.current_version`.execute(
    trx,
  )
  // The pages of an unfinished extraction are read again.
  await sql`
    insert into version_pages (document_id, number, page, text, ${insertColumns})
    select document_id, current_version, page.page, ${pageText}, ${selectColumns} from ${pagesWithDocuments}
    where document_id = any(${ids}::uuid[]) and document.status in ('completed', 'failed')`.execute(trx)
  await trx.deleteFrom('document_pages').where('document_id', 'in', ids).execute()
  await cancelPending(trx, ids)
}

/** A version to make current. */
export interface Target {
  id: string
  number: number
  /** version with the same bytes whose text and pages are copied */
  textOf: number
}

/** Makes archived versions current. Queues their unfinished extractions and missing renditions; the caller queues the indexing. */
export async function makeCurrent(app: App, trx: Trx, targets: readonly Target[]): Promise<void> {
  const at = app.now()
  const target = sql`jsonb_to_recordset(${JSON.stringify(targets)}::jsonb) as target (id uuid, number integer, "textOf" integer)`
  const { rows } = await sql<{ id: string; owner_id: string; language: string; ocr_enabled: boolean; status: string }>`
    update documents document
    set current_version = target.number, last_version = greatest(last_version, target.number), sha256 = version.sha256, size = version.size,
      mime_type = version.mime_type, filename = version.filename, content = coalesce(version.content, ''),
      status = coalesce(version.status, 'pending'), ocr_enabled = coalesce(version.ocr_enabled, document.ocr_enabled),
      language = coalesce(version.language, document.language), ocr_confidence = version.ocr_confidence, page_count = version.page_count,
      error_code = version.error_code, error_message = version.error_message, processed_at = version.processed_at,
      text_source = version.text_source, warnings = coalesce(version.warnings, '[]'),
      detected_languages = coalesce(version.detected_languages, '{}'),
      file_replaced_at = ${at}, duplicate_of = null,
      metadata = ${withFileMetadata('document', sql`coalesce(version.file_metadata, '{}')`)}, file_metadata = coalesce(version.file_metadata, '{}'),
      document_date = case when ${isOfFile} then version.document_date else document.document_date end,
      date_source = case when ${isOfFile} then version.date_source else document.date_source end,
      date_confidence = case when ${isOfFile} then version.date_confidence end, date_checked = not ${isOfFile} or coalesce(version.date_checked, false),
      revision = revision + 1, updated_at = ${at}
    from ${target} join document_versions version on version.document_id = target.id and version.number = target."textOf"
    where document.id = target.id
    returning document.id, document.owner_id, document.language, document.ocr_enabled, document.status`.execute(trx)
  await sql`
    insert into document_pages (document_id, page, text, ${insertColumns})
    select page.document_id, page.page, page.text, ${selectColumns}
    from ${target} join version_pages page on page.document_id = target.id and page.number = target."textOf"`.execute(trx)
  await sql`
    insert into page_words (document_id, number, page, words, angle)
    select words.document_id, target.number, page, words, angle
    from ${target} join page_words words on words.document_id = target.id and words.number = target."textOf"
    where target.number <> target."textOf"`.execute(trx)
  await sql`
    insert into renditions (document_id, number, kind, state, sha256, size, created_at, finished_at)
    select rendition.document_id, target.number, kind, state, sha256, size, created_at, finished_at
    from ${target} join renditions rendition on rendition.document_id = target.id and rendition.number = target."textOf"
    where target.number <> target."textOf" and state = 'completed'`.execute(trx)
  const finished = rows.filter(({ status }) => status !== 'pending').map(({ id }) => id)
  if (finished.length > 0) await requestAfterReturn(app, trx, finished)
  const unfinished = rows.filter(({ status }) => status === 'pending').sort((a, b) => (a.id < b.id ? -1 : 1))
  await jobs.enqueueAll(
    trx,
    unfinished.map(({ id, owner_id, language, ocr_enabled }) => ({
      kind: ocr_enabled ? 'ocr' : 'extract',
      payload: { language },
      documentId: id,
      ownerId: owner_id,
      maxAttempts: app.config.ocr.max_attempts,
    })),
  )
}

/** Removes the archived text and pages of a version that has become current: `documents` has them. */
export async function clearArchived(trx: Trx, id: string, number: number): Promise<void> {
  await trx
    .updateTable('document_versions')
    .set({
      content: null,
      status: null,
      ocr_enabled: null,
      language: null,
      ocr_confidence: null,
      page_count: null,
      error_code: null,
      error_message: null,
      processed_at: null,
      text_source: null,
      warnings: null,
      detected_languages: null,
      file_metadata: null,
      document_date: null,
      date_source: null,
      date_confidence: null,
      date_checked: null,
    })
    .where('document_id', '=', id)
    .where('number', '=', number)
    .execute()
  await trx.deleteFrom('version_pages').where('document_id', '=', id).where('number', '=', number).execute()
}
