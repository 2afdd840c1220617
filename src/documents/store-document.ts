/** Storing one staged file as a document. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { clockMs } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import { prepared } from '../db/pooled.ts'
import type { Row } from '../db/schema.ts'
import type { SplitMode } from '../db/schema-documents.ts'
import { AppError, invalid } from '../errors.ts'
import { publishMany } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import { parseUserIdentifier } from '../http/user-identifier.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { ofUser } from './dates.ts'
import { addLabels } from './document-labels.ts'
import { newDocumentJobs } from './extraction/group.ts'
import { defaultTitle, sanitizeFilename } from './file-names.ts'
import { ensureBytes, lockOrCreate } from './stored-files.ts'
import { type Document, documentColumns, excerptLength, selectDocuments } from './view.ts'

export interface StoreOptions {
  filename: string
  title?: string | undefined
  labelIds?: readonly string[]
  metadata?: Record<string, unknown>
  ocr: boolean
  language: string
  /** how to split a PDF or TIFF when it is read; default: not */
  split?: SplitMode | undefined
  /** document that was split into this one and others */
  splitFrom?: string
  /** YYYY-MM-DD; null: the document gets no date, even if its file or text has one */
  date?: string | null | undefined
  onDuplicate: 'allow' | 'reject' | 'return'
  /** id of the user who uploads; null: the operator */
  createdBy: string | null
}

export interface NewUpload extends StoreOptions {
  ownerId: string
  staged: StagedFile
  /** document of the owner with the same bytes */
  duplicateOf?: string
}

export interface StoreResult {
  document: Document
  /** false: the owner had the same bytes, and `document` is the existing one */
  created: boolean
}

/**
 * Creates a document from a staged file: commits the bytes, then inserts row, jobs and event in the caller's transaction. Call
 * `staged.confirm()` after the commit to make the document survive a power cut. Throws VALIDATION_ERROR, DUPLICATE_RESOURCE.
 */
export async function storeDocument(app: App, trx: Trx, ownerId: string, staged: StagedFile, options: StoreOptions): Promise<StoreResult> {
  if (staged.size === 0) throw invalid('file', 'the file is empty')
  const address = await lockOrCreate(trx, staged)
  const duplicate = await lockDuplicate(trx, ownerId, staged.sha256)
  if (duplicate && options.onDuplicate === 'reject')
    throw new AppError('DUPLICATE_RESOURCE', { document_id: duplicate.id }, 'The owner has a document with these bytes already.')
  await ensureBytes(app, trx, staged, address, { canCompare: duplicate !== undefined })
  if (duplicate && options.onDuplicate === 'return') return { document: await readDocument(trx, duplicate.id), created: false }

  const [document] = await insertDocuments(app, trx, [{ ...options, ownerId, staged, ...(duplicate && { duplicateOf: duplicate.id }) }])
  return { document: document as Document, created: true }
}

/** Inserts documents with distinct and committed bytes, and their labels, jobs and events. Returns them in no particular order. */
export async function insertDocuments(app: App, trx: Trx, uploads: readonly NewUpload[]): Promise<Document[]> {
  const values = await Promise.all(uploads.map(documentRow))
  const created = await insertRows(trx, values, 'upload')
  const bySum = new Map(uploads.map((upload) => [upload.staged.sha256, upload]))
  const uploadOf = ({ sha256 }: Document) => bySum.get(sha256) as NewUpload
  const labels = created.flatMap((document) =>
    (uploadOf(document).labelIds ?? []).map((label_id) => ({ document_id: document.id, label_id })),
  )
  await addLabels(trx, labels)
  const newJobs = created.flatMap((document) => newDocumentJobs(app, document, uploadOf(document)))
  const events = created.map(({ id, owner_id, title }) => ({ userId: owner_id, data: { document_id: id, title, source: null } }))
  await jobs.enqueueAll(trx, newJobs)
  await publishMany(trx, 'document_created', events)
  if (labels.length === 0) return created
  const ids = created.map(({ id }) => id)
  return selectDocuments(trx, excerptLength).where('documents.id', 'in', ids).execute()
}

export interface NewRow
  extends Pick<
      Row<'documents'>,
      'owner_id' | 'title' | 'filename' | 'mime_type' | 'size' | 'sha256' | 'ocr_enabled' | 'language' | 'metadata'
    >,
    Partial<
      Pick<Row<'documents'>, 'id' | 'document_date' | 'date_source' | 'duplicate_of' | 'source_id' | 'source_path' | 'split' | 'split_from'>
    > {
  /** id of a user; null: the operator, or a sync */
  created_by: string | null
}

/** Inserts the rows of documents and of their first versions. Generates ids that are missing. Returns the documents in no particular order. */
export async function insertRows(trx: Trx, newRows: readonly NewRow[], origin: 'upload' | 'sync'): Promise<Document[]> {
  // The text of the statement does not depend on the number of rows.
  const { rows } = await sql<Document>`${prepared}
    with new as materialized (
      select coalesce(id, dms_uuidv7()) as id, owner_id, title, filename, mime_type, size, sha256, ocr_enabled, language, metadata, document_date,
        date_source, duplicate_of, source_id, source_path, split, split_from, ${clockMs} as created_at, created_by
      from jsonb_to_recordset(${JSON.stringify(newRows)}::jsonb) as (id uuid, owner_id uuid, title text, filename text, mime_type text,
        size bigint, sha256 text, ocr_enabled boolean, language text, metadata jsonb, document_date date, date_source text, duplicate_of uuid,
        source_id uuid, source_path text, split text, split_from uuid, created_by uuid)
    ), inserted as (
      insert into documents (id, owner_id, title, filename, mime_type, size, sha256, ocr_enabled, language, metadata, document_date, date_source,
        duplicate_of, source_id, source_path, split, split_from, created_at, updated_at)
      select id, owner_id, title, filename, mime_type, size, sha256, ocr_enabled, language, metadata, document_date, date_source, duplicate_of,
        source_id, source_path, split, split_from, created_at, created_at
      from new
      returning *
    ), versions as (
      insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at, created_by)
      select id, 1, sha256, size, mime_type, filename, ${origin}, created_at, created_by from new
    )
    select ${sql.join(documentColumns.map((column) => sql.ref(column)))}, duplicate_of, '' as content, false as content_truncated, username as owner,
      '{}'::text[] as label_names, '{}'::text[] as label_ids
    from inserted as documents join users on users.id = documents.owner_id`.execute(trx)
  return rows
}

async function documentRow({ staged, ...options }: NewUpload): Promise<NewRow> {
  const filename = sanitizeFilename(options.filename)
  const mimeType = await detectType(staged.head, filename, staged.size)
  return {
    owner_id: options.ownerId,
    title: options.title?.trim() || defaultTitle(filename),
    filename,
    mime_type: mimeType,
    size: staged.size,
    sha256: staged.sha256,
    ocr_enabled: options.ocr,
    language: options.language,
    metadata: options.metadata ?? {},
    ...(options.date === undefined ? {} : { document_date: options.date, date_source: ofUser.date_source }),
    duplicate_of: options.duplicateOf ?? null,
    split: splitColumn(options.split, mimeType),
    split_from: options.splitFrom ?? null,
    created_by: options.createdBy,
  }
}

export const splitModes = ['none', 'blank', 'barcode'] as const satisfies readonly SplitMode[]

/** Returns the column `split` of a new document: null for types that cannot be split. */
export const splitColumn = (mode: SplitMode | undefined, mimeType: string): Row<'documents'>['split'] =>
  mode === undefined || mode === 'none' || !['application/pdf', 'image/tiff'].includes(mimeType) ? null : mode

/** Returns the owner's first document with the same bytes. Locks it, because the new row refers to it. */
async function lockDuplicate(trx: Trx, ownerId: string, sha256: string): Promise<{ id: string } | undefined> {
  const { rows } = await sql<{ id: string }>`
    select id from live_documents where sha256 = ${sha256} and owner_id = ${ownerId} order by created_at, id limit 1 for key share`.execute(
    trx,
  )
  return rows[0]
}

interface Duplicate {
  sha256: string
  id: string
}

/** Returns the SHA-256 sums (hex) that the owner has already, each with the first document. Throws FORBIDDEN, VALIDATION_ERROR. */
export async function findDuplicates(app: App, actor: Actor, sums: readonly string[], owner?: string): Promise<Duplicate[]> {
  const ownerId = await resolveOwner(app, app.db, actor, owner)
  const { rows } = await sql<Duplicate>`
    select distinct on (sha256) sha256, id from live_documents where owner_id = ${ownerId} and sha256 = any(${sums}::text[])
    order by sha256, created_at, id`.execute(app.db)
  return rows
}

/** Returns the id of the user who owns an upload. Throws FORBIDDEN, VALIDATION_ERROR. */
export async function resolveOwner(app: App, db: Db, actor: Actor, owner: string | undefined): Promise<string> {
  if (actor.id && !owner) return actor.id
  if (actor.role !== 'admin') throw new AppError('FORBIDDEN')
  const name = owner ?? app.config.auth.admin_username
  const { column, value } = parseUserIdentifier(name)
  const user = await db
    .selectFrom('users')
    .select('id')
    .where(column, '=', value)
    .executeTakeFirstOrThrow(() => invalid('owner', `no user ${JSON.stringify(name)}`))
  return user.id
}

const readDocument = (trx: Trx, id: string): Promise<Document> =>
  selectDocuments(trx, excerptLength).where('documents.id', '=', id).executeTakeFirstOrThrow()
