/** Documents as search engines index them. */
import { sql } from 'kysely'
import type { Db, Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'

/** Content of a document for the index. */
export interface IndexedDocument
  extends Pick<
    Row<'documents'>,
    | 'id'
    | 'owner_id'
    | 'source_id'
    | 'status'
    | 'mime_type'
    | 'size'
    | 'created_at'
    | 'updated_at'
    | 'ocr_confidence'
    | 'title'
    | 'filename'
    | 'content'
    | 'metadata'
    | 'document_date'
  > {
  /** Tesseract codes of its text, joined by `+`; '' if unknown */
  language: string
  label_ids: string[]
  label_names: string[]
}

/** Returns the documents that exist, ordered by id. */
export async function loadDocuments(trx: Trx, ids: readonly string[]): Promise<IndexedDocument[]> {
  const { rows } = await sql<IndexedDocument>`
    select id, owner_id, title, filename, content, mime_type, status, source_id,
      coalesce(nullif(array_to_string(detected_languages, '+'), ''), nullif(language, 'auto'), '') as language, ocr_confidence, created_at, updated_at, size, metadata, document_date,
      coalesce(label_ids, '{}') as label_ids, coalesce(label_names, '{}') as label_names
    from live_documents documents left join lateral (
      select array_agg(labels.id order by labels.id) as label_ids, array_agg(name order by labels.id) as label_names
      from document_labels join labels on labels.id = label_id where document_id = documents.id
    ) carried on true
    where id = any(${ids}::uuid[]) order by id`.execute(trx)
  return rows
}

/** Default limits of a batch: many small documents share a transaction, and a few large ones do not make it long. */
const maxDocuments = 100
const maxBytes = 300_000

/** Divides ids into batches up to a number of documents and bytes of text. A document with more bytes is a batch of its own. */
export async function batchesOf(db: Db, ids: readonly string[], max = { documents: maxDocuments, bytes: maxBytes }): Promise<string[][]> {
  if (ids.length < 2) return [[...ids]]
  const sizes = await db
    .selectFrom('live_documents')
    .select(['id', sql<number>`octet_length(content)`.as('bytes')])
    .where('id', 'in', ids)
    .execute()
  const bytesOf = new Map(sizes.map(({ id, bytes }) => [id, bytes]))
  const batches: string[][] = []
  let room = 0
  for (const id of ids) {
    const bytes = bytesOf.get(id) ?? 0
    const last = batches.at(-1)
    if (last && last.length < max.documents && bytes <= room) last.push(id)
    else {
      batches.push([id])
      room = max.bytes
    }
    room -= bytes
  }
  return batches
}
