/** Stores the results of many small texts and of small files without a reader, with one statement per table. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { publishMany } from '../../events.ts'
import { unknownType } from '../../extract/mime-types.ts'
import type { Outline } from '../../ports/document-reader.ts'
import { fileDate, textColumns, textLanguage } from '../dates.ts'
import { withFileMetadata } from '../file-metadata.ts'
import { requestAfterExtraction } from '../renditions/renditions.ts'
import { enqueueIndex, indexJob } from '../revisions.ts'
import { languageColumns } from './languages.ts'
import { pageRows } from './result.ts'

/** Maximum bytes of a small file. It is read in milliseconds. */
const maxSmallBytes = 1 << 18
/** Delay of the indexing of a new small file: its extraction is usually done before and enqueues it at once, with its text. */
const indexDelayMs = 30_000

/** A condition on `document`: a small text or file of unknown type, without pages of an earlier attempt. */
export const isSmallFile: RawBuilder<boolean> = sql`
  ((document.mime_type like 'text/%' or document.mime_type = ${sql.lit(unknownType)}) and document.size <= ${sql.lit(maxSmallBytes)}
    and not exists (select from document_pages where document_id = document.id))`

interface ExtractionChoice {
  ocr: boolean
  language: string
  ownerId: string
}

/** Returns the jobs of a new document: extraction and indexing. The index job of a small file waits, because it would be indexed twice otherwise. */
export function newDocumentJobs(
  app: App,
  { id, mime_type, size }: Pick<Row<'documents'>, 'id' | 'mime_type' | 'size'>,
  { ocr, language, ownerId }: ExtractionChoice,
) {
  const isSmall = (mime_type.startsWith('text/') || mime_type === unknownType) && size <= maxSmallBytes
  const delayMs = isSmall ? indexDelayMs : 0
  const kind = ocr ? ('ocr' as const) : ('extract' as const)
  return [
    { kind, payload: { language }, documentId: id, ownerId, maxAttempts: app.config.ocr.max_attempts },
    { ...indexJob(id), ownerId, delayMs },
  ]
}

export interface SmallFile extends Pick<Row<'documents'>, 'id' | 'owner_id' | 'filename' | 'mime_type'> {
  address: string
}

/** Marks documents as processing and publishes it. Returns them with the addresses of their files. Leaves out deleted documents. */
export async function startTexts(trx: Trx, ids: readonly string[]): Promise<SmallFile[]> {
  const { rows } = await sql<SmallFile>`
    select id, owner_id, filename, mime_type, address from live_documents join stored_files using (sha256)
    where id = any(${ids}::uuid[])`.execute(trx)
  await publishProgress(trx, rows, 0, 'processing')
  return rows
}

function publishProgress(
  trx: Trx,
  documents: readonly Pick<SmallFile, 'id' | 'owner_id'>[],
  progress: number,
  status: string,
): Promise<void> {
  const events = documents.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, progress, status } }))
  return publishMany(trx, 'ocr_progress', events)
}

/** Locks documents and returns their data for recordTexts(). Locks them in the order of ids, which prevents deadlocks. */
export async function lockDocuments(trx: Trx, ids: readonly string[]): Promise<LockedDocument[]> {
  return trx.selectFrom('live_documents').select(lockedColumns).where('id', 'in', ids).orderBy('id').forNoKeyUpdate().execute()
}

const lockedColumns = ['id', 'owner_id', 'filename', 'language', 'document_date', 'date_source', 'date_confidence'] as const
export type LockedDocument = Pick<Row<'documents'>, (typeof lockedColumns)[number]>

/** Stores the outlines of documents that need no OCR, and completes them. The caller has locked the documents, and they have no pages yet. */
export async function recordTexts(app: App, trx: Trx, texts: readonly { document: LockedDocument; outline: Outline }[]): Promise<void> {
  const now = app.now()
  const pages = texts.flatMap(({ document: { id }, outline }) =>
    pageRows(id, outline, { withOcr: false }).map((row, _, { length }) => (length === 1 ? { ...row, text: null } : row)),
  )
  // The text of the statement does not depend on the number of rows.
  await sql`
    insert into document_pages (document_id, page, text, source, width, height, language)
    select * from jsonb_to_recordset(${JSON.stringify(pages)}::jsonb)
      as (document_id uuid, page integer, text text, source text, width real, height real, language text)`.execute(trx)
  const results = texts.map(({ document: { id, ...document }, outline }) => {
    const content = outline.pages
      .map(({ text }) => text)
      .filter((text) => text !== '')
      .join('\n\n')
    const { mimeType: mime_type, metadata } = outline
    const text_source = outline.hasReader ? (content.trim() === '' ? 'empty' : 'text_layer') : 'none'
    const groups = outline.pages.map(({ language = null, text }) => ({ language, characters: text.length, ocrPages: [] }))
    const { detected_languages } = languageColumns(app, groups)
    const date = dateColumns({ ...document, language: textLanguage(document.language, detected_languages) }, outline, content, now)
    return { id, mime_type, text_source, page_count: outline.pages.length, metadata, content, detected_languages, ...date }
  })
  await sql`
    update documents set mime_type = result.mime_type, page_count = result.page_count,
      metadata = ${withFileMetadata('documents', sql`result.metadata`)}, file_metadata = result.metadata,
      content = result.content, text_source = result.text_source, ocr_confidence = null, status = 'completed', error_code = null, error_message = null, processed_at = ${now},
      date_checked = true, revision = revision + 1, updated_at = ${now}, warnings = '[]', detected_languages = result.detected_languages,
      document_date = result.document_date, date_source = result.date_source, date_confidence = result.date_confidence
    from jsonb_to_recordset(${JSON.stringify(results)}::jsonb) result (id uuid, mime_type text, page_count integer, metadata jsonb,
      content text, text_source text, detected_languages text[], document_date date, date_source text, date_confidence real)
    where documents.id = result.id`.execute(trx)
  await enqueueIndex(
    trx,
    results.map(({ id }) => id),
  )
  await requestAfterExtraction(
    app,
    trx,
    results.map(({ id }) => id),
  )
  const documents = texts.map(({ document }) => document)
  await publishProgress(trx, documents, 100, 'completed')
  const updates = documents.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes: ['content', 'status'] } }))
  await publishMany(trx, 'document_updated', updates)
}

/** Returns the date that the user chose, else that of the file, else that of the text. */
function dateColumns(
  { language, document_date, date_source, date_confidence }: Omit<LockedDocument, 'id'>,
  outline: Outline,
  text: string,
  now: Date,
) {
  if (date_source === 'user') return { document_date, date_source, date_confidence }
  const date = fileDate(outline.date ?? outline.metadata.created, now)
  return date === null ? textColumns(text, language, now) : { document_date: date, date_source: 'metadata' as const, date_confidence: null }
}
