/** Reading documents for the API: columns, owner name and labels in one query. */
import { crc32 } from 'node:zlib'
import { sql } from 'kysely'
import { z } from 'zod'
import type { App } from '../app.ts'
import type { Db } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { pageSchema } from '../http/pages.ts'
import { viewOf } from '../http/view.ts'

export interface Document extends Row<'documents'> {
  /** the beginning of the text; undefined if it was not selected */
  content: string
  /** true if the text is longer than `content` */
  content_truncated: boolean
  owner: string
  label_names: string[]
  label_ids: string[]
}

/** Characters (code points) of `content` in lists. */
export const excerptLength = 2000

/** Characters of `content` read together with a document. content.ts streams the rest. */
export const headLength = 16_384

/** Selects documents with owner and labels; add `where`, `orderBy` and `limit`. Reads at most `characters` of the text; 0 leaves it out. */
export const selectDocuments = (db: Db, characters: number) => selectFrom('live_documents', db, characters)

/** Selects documents like selectDocuments(), including the trash. */
export const selectAllDocuments = (db: Db, characters: number) => selectFrom('documents', db, characters)

const selectFrom = (table: 'documents' | 'live_documents', db: Db, characters: number) =>
  db
    .selectFrom(`${table} as documents` as 'live_documents as documents')
    .innerJoin('users', 'users.id', 'documents.owner_id')
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom('document_labels')
          .innerJoin('labels', 'labels.id', 'document_labels.label_id')
          .whereRef('document_labels.document_id', '=', 'documents.id')
          .select([
            sql<string[]>`coalesce(array_agg(labels.name order by labels.name_key), '{}')`.as('label_names'),
            sql<string[]>`coalesce(array_agg(labels.id::text order by labels.name_key), '{}')`.as('label_ids'),
          ])
          .as('labelled'),
      (join) => join.onTrue(),
    )
    .select(documentColumns)
    .select(
      sql<string | null>`(select original.id from live_documents original 
        where original.id = documents.duplicate_of and original.sha256 = documents.sha256)`.as('duplicate_of'),
    )
    .$if(characters > 0, (query) =>
      query.select([sql<string>`left(documents.content, ${sql.lit(characters)})`.as('content'), isLonger(characters)]),
    )
    .select(['users.username as owner', 'labelled.label_names', 'labelled.label_ids'])
    .$castTo<Document>()

/** Compares one character, so that PostgreSQL does not decompress the whole text. */
const isLonger = (characters: number) =>
  sql<boolean>`substr(documents.content, ${sql.lit(characters + 1)}, 1) <> ''`.as('content_truncated')

/** Columns of a document that need no conversion. */
export const documentColumns = (
  'id owner_id title filename status mime_type size sha256 ocr_enabled language ocr_confidence page_count metadata error_code error_message ' +
  'document_date date_source date_confidence source_id source_path file_replaced_at revision current_version deleted_at retain_until created_at updated_at processed_at ' +
  'text_source warnings detected_languages split_from'
)
  .split(' ')
  .map((column) => `documents.${column}` as 'documents.id')

export const TextSource = z.enum(['text_layer', 'ocr', 'mixed', 'empty', 'none'])

export const DocumentAnswer = z.object({
  id: z.uuid(),
  owner_id: z.uuid(),
  owner: z.string(),
  title: z.string(),
  filename: z.string(),
  content: z.string().optional(),
  content_truncated: z.literal(true).optional().describe('Present if `content` is longer than lists return.'),
  status: z.enum(['pending', 'processing', 'completed', 'failed']),
  mime_type: z.string(),
  size: z.int(),
  sha256: z.string(),
  version: z.int().describe('Number of the current version of the file.'),
  language: z.string().describe('OCR languages that were asked for: `auto`, or codes joined by `+`.'),
  ocr_confidence: z.number().min(0).max(1).nullable(),
  page_count: z.int().nullable(),
  labels: z.array(z.string()),
  label_ids: z.array(z.uuid()),
  metadata: z.record(z.string(), z.unknown()),
  document_date: z.iso.date().nullable().describe('Day on which the document was written or issued.'),
  date_source: z.enum(['user', 'metadata', 'text']).nullable(),
  date_confidence: z.number().min(0).max(1).nullable().describe('Confidence of a date found in the text.'),
  retain_until: z.iso.datetime().nullable().describe('Until then the document cannot be destroyed.'),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  text_source: TextSource.nullable().describe(
    '`empty`: no text was found. `none`: there is no reader for this type. null: not read yet, or read by an earlier release.',
  ),
  warnings: z
    .array(
      z.object({
        code: z.string(),
        message: z.string(),
        pages: z.array(z.int()).optional(),
        language: z.string().optional(),
        script: z.string().optional().describe('ISO 15924 code.'),
        package: z.string().optional().describe('Debian package.'),
      }),
    )
    .describe('What could not be done although the status is `completed`.'),
  detected_languages: z.array(z.string()).describe('OCR codes of the languages of the text, most frequent first.'),
  split_from: z.uuid().nullable().describe('Document that this one was a part of.'),
  duplicate_of: z.uuid().nullable(),
  source_id: z.uuid().nullable(),
  source_path: z.string().nullable(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  processed_at: z.iso.datetime().nullable(),
  deleted_at: z.iso.datetime().optional().describe('Present while the document is in the trash.'),
  purge_at: z.iso
    .datetime()
    .optional()
    .describe('Present while the document is in the trash, which it leaves for good then, unless a hold keeps it.'),
})

export const ListAnswer = pageSchema(DocumentAnswer.partial()).extend({
  facets: z.object({ years: z.record(z.string(), z.int()).describe('By the year of `document_date`.') }).optional(),
})

export type DocumentView = z.infer<typeof DocumentAnswer>

/** Steps of a confidence in answers. A PostgreSQL real has seven significant digits; the rest is conversion noise. */
const confidenceSteps = 10_000

/** Returns the lowest stored confidence that rounds to at least `confidence`; null if every document has it. */
export function lowestConfidence(confidence: number | undefined): number | null {
  // The subtraction undoes the noise of the multiplication.
  const steps = Math.ceil((confidence ?? 0) * confidenceSteps - 1e-6)
  return steps > 0 ? (steps - 0.5) / confidenceSteps : null
}

/** Returns the API view of a document with the text that was read. */
export const view = (document: Document): DocumentView =>
  viewOf(DocumentAnswer, {
    ...document,
    version: document.current_version,
    deleted_at: undefined,
    content_truncated: document.content_truncated ? true : undefined,
    ocr_confidence: roundReal(document.ocr_confidence),
    date_confidence: roundReal(document.date_confidence),
    labels: document.label_names,
    error: document.error_code === null ? null : { code: document.error_code, message: document.error_message ?? '' },
  })

const roundReal = (value: number | null): number | null => (value === null ? null : Math.round(value * confidenceSteps) / confidenceSteps)

/** Returns the ETag of GET. It changes with each revision, with the names of the labels, and with the documents that this one refers to. */
export const etag = ({ id, revision, label_names, label_ids, duplicate_of, split_from }: Document): string => {
  const references = [label_names, label_ids, duplicate_of, split_from]
  const others = label_ids.length === 0 && !duplicate_of && !split_from ? '' : `.${crc32(JSON.stringify(references)).toString(36)}`
  return `"${id}.${revision}${others}"`
}

const dayMs = 86_400_000

/** Returns `deleted_at` and `purge_at` of a document in the trash, else nothing. */
export function trashView({ config }: App, { deleted_at, retain_until }: Document): Pick<DocumentView, 'deleted_at' | 'purge_at'> {
  if (deleted_at === null) return {}
  const purgeAt = Math.max(deleted_at.getTime() + config.documents.trash_days * dayMs, retain_until?.getTime() ?? 0)
  return { deleted_at: deleted_at.toISOString(), purge_at: new Date(purgeAt).toISOString() }
}
