/** Splitting of documents: the parts of a file become documents of their own, and the original stays. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import type { DocumentWarning } from '../db/schema-documents.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { defaultTitle, truncateFilename } from './file-names.ts'
import { inheritRetention } from './retention.ts'
import { writeRevision } from './revisions.ts'
import { storeDocument } from './store-document.ts'
import { lockOrCreateAll } from './stored-files.ts'

export interface Part {
  staged: StagedFile
  /** archive serial number on its pages */
  serialNumber: number | null
}

/** Length of the title of the original in those of its parts, which have at most 1000 characters as all titles. */
const maxTitleStem = 950
/** A file name has at most 255 bytes. */
const maxStemBytes = 200

/**
 * Creates a document for each part, with labels, metadata, retention and owner of the original. The original keeps its file and its text layer; OCR reads
 * the parts only. Returns the ids of the parts, and locks the original. Call `staged.confirm()` of all parts after the commit.
 */
export async function recordParts(app: App, trx: Trx, id: string, parts: readonly Part[]): Promise<string[]> {
  const original = await trx
    .selectFrom('live_documents as documents')
    .innerJoin('document_versions as version', (join) =>
      join.onRef('version.document_id', '=', 'documents.id').onRef('version.number', '=', 'documents.current_version'),
    )
    .select([
      'owner_id',
      'title',
      'documents.filename',
      'metadata',
      'documents.ocr_enabled',
      'documents.language',
      'documents.document_date',
      'documents.date_source',
    ])
    .select([
      'version.created_by',
      sql<string[]>`array(select label_id from document_labels where document_id = documents.id)`.as('labels'),
    ])
    .where('documents.id', '=', id)
    .executeTakeFirst()
  if (!original) return []
  // All at once: the order of the pages is not the order in which other transactions lock them. The first of equal parts is stored.
  const bySum = new Map(parts.toReversed().map(({ staged }) => [staged.sha256, staged]))
  await lockOrCreateAll(trx, [...bySum.values()])
  const stem = defaultTitle(original.filename)
  const ending = original.filename.slice(stem.length)
  const ids: string[] = []
  for (const [index, { staged, serialNumber }] of parts.entries()) {
    const { document } = await storeDocument(app, trx, original.owner_id, staged, {
      // Short enough that the number is not cut off.
      filename: `${truncateFilename(stem, maxStemBytes)}-${index + 1}${ending}`,
      title: `${original.title.slice(0, maxTitleStem).toWellFormed()} (${index + 1} of ${parts.length})`,
      labelIds: original.labels,
      metadata: { ...original.metadata, ...asn(serialNumber) },
      ocr: original.ocr_enabled,
      language: original.language,
      date: original.date_source === 'user' ? original.document_date : undefined,
      onDuplicate: 'allow',
      createdBy: original.created_by,
      splitFrom: id,
    })
    ids.push(document.id)
  }
  await finishSplit(app, trx, id, { ocr_enabled: false, metadata: { split_into: parts.length } })
  await inheritRetention(trx, id, ids)
  return ids
}

/** Records that a document stays whole: it has one serial number, or it could not be split. */
export async function recordUnsplit(
  app: App,
  trx: Trx,
  id: string,
  serialNumber: number | null,
  warning: DocumentWarning | null,
): Promise<void> {
  await finishSplit(app, trx, id, { metadata: asn(serialNumber), ...(warning && { warnings: JSON.stringify([warning]) }) })
}

const asn = (serialNumber: number | null): { asn?: number } => (serialNumber === null ? {} : { asn: serialNumber })

const finishSplit = (
  app: App,
  trx: Trx,
  id: string,
  { metadata, ...columns }: { metadata: Record<string, number>; ocr_enabled?: false; warnings?: string },
): Promise<void> =>
  writeRevision(app, trx, id, { ...columns, split: null, metadata: sql`metadata || ${JSON.stringify(metadata)}::jsonb` as never })
