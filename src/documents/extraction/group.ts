/** Extraction of many small texts: their results are stored by one transaction with one statement for each table. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { publishMany } from '../../events.ts'
import type { Outline } from '../../ports/document-reader.ts'
import { fileDate, textColumns } from '../dates.ts'
import { enqueueIndex, indexJob } from '../versions.ts'

/** Bytes of a small text, which is read in milliseconds. */
const maxSmallBytes = 1 << 18
/** Delay of the indexing of a new small text: its extraction is usually done before and enqueues it at once, with its text. */
const indexDelayMs = 30_000

/** A condition on `document`: a small text without pages of an earlier attempt. */
export const isSmallText: RawBuilder<boolean> = sql`
  (document.mime_type like 'text/%' and document.size <= ${sql.lit(maxSmallBytes)}
    and not exists (select from document_pages where document_id = document.id))`

/** Returns the job that indexes a new document. That of a small text waits, because it would be indexed twice otherwise. */
export function firstIndexJob(app: App, { id, mime_type, size }: Pick<Row<'documents'>, 'id' | 'mime_type' | 'size'>) {
  const isSmall = mime_type.startsWith('text/') && size <= maxSmallBytes
  return { ...indexJob(id), ...(isSmall && { runAt: new Date(app.now().getTime() + indexDelayMs) }) }
}

export interface SmallText extends Pick<Row<'documents'>, 'id' | 'owner_id' | 'filename' | 'mime_type'> {
  address: string
}

/** Returns documents with the addresses of their files, and publishes that they are being read. Leaves out those that were deleted. */
export async function startTexts(trx: Trx, ids: readonly string[]): Promise<SmallText[]> {
  const { rows } = await sql<SmallText>`
    select id, owner_id, filename, mime_type, address from documents join stored_files using (sha256)
    where id = any(${ids}::uuid[])`.execute(trx)
  await publishProgress(trx, rows, 0, 'processing')
  return rows
}

function publishProgress(
  trx: Trx,
  documents: readonly Pick<SmallText, 'id' | 'owner_id'>[],
  progress: number,
  status: string,
): Promise<void> {
  const events = documents.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, progress, status } }))
  return publishMany(trx, 'ocr_progress', events)
}

/** Locks documents in the order of their ids, which prevents deadlocks, and returns what recordTexts() needs to know of them. */
export async function lockDocuments(trx: Trx, ids: readonly string[]): Promise<LockedDocument[]> {
  const columns = ['id', 'owner_id', 'filename', 'language', 'date_source'] as const
  return trx.selectFrom('documents').select(columns).where('id', 'in', ids).orderBy('id').forNoKeyUpdate().execute()
}

export type LockedDocument = Pick<Row<'documents'>, 'id' | 'owner_id' | 'filename' | 'language' | 'date_source'>

/** Stores the outlines of documents and ends their extraction. No page may need OCR. The documents are locked and have no pages. */
export async function recordTexts(app: App, trx: Trx, texts: readonly { document: LockedDocument; outline: Outline }[]): Promise<void> {
  const now = app.now()
  const pages = texts.flatMap(({ document: { id }, outline }) =>
    outline.pages.map(({ page, text, width, height }) => {
      return { document_id: id, page, text, source: text.trim() === '' ? 'empty' : 'text_layer', width, height }
    }),
  )
  // The text of the statement does not depend on the number of rows.
  await sql`
    insert into document_pages (document_id, page, text, source, width, height)
    select * from jsonb_to_recordset(${JSON.stringify(pages)}::jsonb)
      as (document_id uuid, page integer, text text, source text, width real, height real)`.execute(trx)
  const results = texts.map(({ document: { id, language, date_source }, outline }) => {
    const content = outline.pages
      .map(({ text }) => text)
      .filter((text) => text !== '')
      .join('\n\n')
    const date = fileDate(outline.date ?? outline.metadata.created, now)
    const dated =
      date === null ? textColumns(content, language, now) : { document_date: date, date_source: 'metadata', date_confidence: null }
    const { mimeType: mime_type, metadata } = outline
    return { id, mime_type, page_count: outline.pages.length, metadata, content, ...(date_source === 'user' ? {} : dated) }
  })
  // Metadata of the user takes precedence over metadata of the file.
  await sql`
    update documents set mime_type = result.mime_type, page_count = result.page_count, metadata = result.metadata || documents.metadata,
      content = result.content, ocr_confidence = null, status = 'completed', error_code = null, error_message = null, processed_at = ${now},
      date_checked = true, version = version + 1, updated_at = ${now},
      document_date = case when documents.date_source = 'user' then documents.document_date else result.document_date end,
      date_source = case when documents.date_source = 'user' then 'user' else result.date_source end,
      date_confidence = case when documents.date_source = 'user' then documents.date_confidence else result.date_confidence end
    from jsonb_to_recordset(${JSON.stringify(results)}::jsonb) result (id uuid, mime_type text, page_count integer, metadata jsonb,
      content text, document_date date, date_source text, date_confidence real)
    where documents.id = result.id`.execute(trx)
  await enqueueIndex(
    trx,
    results.map(({ id }) => id),
  )
  const documents = texts.map(({ document }) => document)
  await publishProgress(trx, documents, 100, 'completed')
  const updates = documents.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes: ['content', 'status'] } }))
  await publishMany(trx, 'document_updated', updates)
}
