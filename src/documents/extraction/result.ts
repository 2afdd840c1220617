/** Results of extraction: the outline of a document, its pages and its text. Writes of a page require the claim on it. */
import { randomUUID } from 'node:crypto'
import { sql, type Updateable } from 'kysely'
import type { App } from '../../app.ts'
import type { Db, Trx } from '../../db/pool.ts'
import type { Row, Schema } from '../../db/schema.ts'
import type { TextSource } from '../../db/schema-documents.ts'
import { publish } from '../../events.ts'
import type { Outline, ReadPage } from '../../ports/document-reader.ts'
import { slicesOf } from '../../slices.ts'
import { fileDate, unlessOfUser } from '../dates.ts'
import { withFileMetadata } from '../file-metadata.ts'
import * as renditions from '../renditions/renditions.ts'
import { writeRevision } from '../revisions.ts'
import { languageAndDate } from './languages.ts'
import { pagesWithDocuments, pageText } from './page-text.ts'
import { toRow } from './page-words.ts'
import { warningOfProgram } from './warnings.ts'

const readableColumns = ['id', 'owner_id', 'filename', 'mime_type', 'sha256', 'status', 'page_count', 'ocr_enabled', 'split'] as const
export type ReadableDocument = Pick<Row<'documents'>, (typeof readableColumns)[number]>

/** Pages inserted by one statement. */
const batchSize = 500

export interface PageClaim {
  document_id: string
  page: number
  claim: string
}

export interface PageCounts {
  /** waiting, not claimed */
  free: number
  /** being read by a worker */
  claimed: number
  failed: number
  done: number
}

/** Returns the columns that readers need; undefined if the document was deleted. */
export const findReadable = (db: Db, id: string): Promise<ReadableDocument | undefined> =>
  db.selectFrom('live_documents').select(readableColumns).where('id', '=', id).executeTakeFirst()

/** Starts or restarts extraction. Clears claims and failures of earlier attempts; finished pages stay. */
export async function startExtraction(app: App, trx: Trx, { id, owner_id }: ReadableDocument): Promise<void> {
  await unfinishedPages(trx, id).set({ claim: null, claimed_until: null, error_code: null, error_message: null }).execute()
  await setColumns(app, trx, id, { status: 'processing', error_code: null, error_message: null })
  await publish(trx, 'ocr_progress', owner_id, { document_id: id, progress: 0, status: 'processing' })
}

/** Sets the document back to `pending` because a later attempt follows. */
export async function resetToPending(app: App, trx: Trx, id: string): Promise<void> {
  await setColumns(app, trx, id, { status: 'pending' })
  await publishPending(trx, id)
}

/** Publishes the progress of the pages to the present owner. Returns the numbers of finished and of all pages. */
export function publishProgress({ db }: App, id: string): Promise<{ done: number; total: number }> {
  return db.transaction().execute(async (trx) => {
    // The lock serializes publishers: progress never decreases, and none is published after the end.
    const { rows } = await sql<{ owner_id: string }>`
      select owner_id from live_documents where id = ${id} and status = 'processing' for no key update`.execute(trx)
    const { done, free, claimed, failed } = await countPages(trx, id)
    const total = done + free + claimed + failed
    // The last percent is left for the work after the pages.
    const progress = Math.floor((99 * done) / total)
    for (const { owner_id } of rows) await publish(trx, 'ocr_progress', owner_id, { document_id: id, progress, status: 'processing' })
    return { done, total }
  })
}

async function publishPending(trx: Trx, id: string): Promise<void> {
  const owner = await trx.selectFrom('live_documents').select('owner_id').where('id', '=', id).executeTakeFirst()
  if (owner) await publish(trx, 'ocr_progress', owner.owner_id, { document_id: id, progress: 0, status: 'pending' })
}

/** Returns whether an earlier attempt recorded the outline. */
export async function hasOutline(db: Db, id: string): Promise<boolean> {
  return (await db.selectFrom('document_pages').select('page').where('document_id', '=', id).limit(1).execute()).length > 0
}

/** Records the outline. Pages with a text layer are finished; the others wait for OCR, or are empty without it. */
export async function recordOutline(app: App, trx: Trx, id: string, outline: Outline, options: { withOcr: boolean }): Promise<void> {
  await deletePages(trx, id)
  const rows = pageRows(id, outline, options)
  for (const batch of slicesOf(rows, batchSize)) await trx.insertInto('document_pages').values(batch).execute()
  const date = fileDate(outline.date ?? outline.metadata.created, app.now())
  const metadata = sql`${JSON.stringify(outline.metadata)}::jsonb`
  const textSource = outline.hasReader ? sql`nullif(text_source, 'none')` : 'none'
  await setColumns(app, trx, id, {
    mime_type: outline.mimeType,
    page_count: outline.pages.length,
    metadata: withFileMetadata('documents', metadata) as never,
    file_metadata: metadata as never,
    text_source: textSource as never,
    warnings: warningOfProgram(outline) as never,
    ...unlessOfUser(date, 'metadata'),
  })
}

/** Deletes the pages of the current version and their words. */
async function deletePages(trx: Trx, id: string): Promise<void> {
  await sql`
    with pages as (delete from document_pages where document_id = ${id})
    delete from page_words using documents
    where document_id = ${id} and documents.id = document_id and number = documents.current_version`.execute(trx)
}

/** Returns the rows of the pages of an outline. With OCR, pages that need it are unfinished. */
export const pageRows = (id: string, { pages }: Outline, { withOcr }: { withOcr: boolean }) =>
  pages.map(({ page, text, needsOcr, width, height, language = null }) => {
    const finished = text.trim() === '' ? ('empty' as const) : ('text_layer' as const)
    return { document_id: id, page, text, source: needsOcr && withOcr ? null : finished, width, height, language }
  })

/** Claims the first free page for `leaseMs`. Returns null if there is none. */
export async function claimPage(db: Db, id: string, leaseMs: number): Promise<PageClaim | null> {
  const claim = randomUUID()
  const { rows } = await sql<{ page: number }>`
    with next as (
      select document_id, page from document_pages
      where document_id = ${id} and source is null and error_code is null and (claimed_until is null or claimed_until < now())
      order by page limit 1 for update skip locked
    )
    update document_pages p set claim = ${claim}, claimed_until = now() + ${leaseMs} * interval '1 ms'
    from next where p.document_id = next.document_id and p.page = next.page returning p.page`.execute(db)
  return rows[0] ? { document_id: id, page: rows[0].page, claim } : null
}

/** Records the text and the words of a page. Does nothing if the claim has been lost. `duration` is in seconds. */
export async function recordPage(db: Db, { document_id, page, claim }: PageClaim, read: ReadPage, duration: number): Promise<void> {
  const { text, confidence, width, height, language, words, angle } = read
  // The lock comes first, as in all transactions that delete documents.
  await sql`
    with document as materialized (select id, current_version from live_documents where id = ${document_id} for key share),
    recorded as (
      update document_pages set text = ${text}, confidence = ${confidence}, width = ${width}, height = ${height}, language = ${language}, duration = ${duration},
        source = ${text.trim() === '' ? 'empty' : 'ocr'}, claim = null, claimed_until = null
      from document where document_id = document.id and page = ${page} and claim = ${claim}
      returning current_version as number
    )
    insert into page_words (document_id, number, page, words, angle)
    select ${document_id}, number, ${page}, ${JSON.stringify(words.map(toRow))}::json, ${angle} from recorded where ${words.length} > 0
    on conflict (document_id, number, page) do update set words = excluded.words, angle = excluded.angle`.execute(db)
}

/** Records that a page failed. The other pages continue. */
export async function failPage(db: Db, claim: PageClaim, code: string, message: string): Promise<void> {
  await updateClaimed(db, claim).set({ error_code: code, error_message: message, claim: null, claimed_until: null }).execute()
}

/** Releases the claim on a page. */
export async function releasePage(db: Db, claim: PageClaim): Promise<void> {
  await updateClaimed(db, claim).set({ claim: null, claimed_until: null }).execute()
}

/** Releases all claims of a document whose workers are gone. */
export async function releaseAllPages(db: Db, id: string): Promise<void> {
  await unfinishedPages(db, id).set({ claim: null, claimed_until: null }).execute()
}

const unfinishedPages = (db: Db, id: string) => db.updateTable('document_pages').where('document_id', '=', id).where('source', 'is', null)

const updateClaimed = (db: Db, { document_id, page, claim }: PageClaim) =>
  db.updateTable('document_pages').where('document_id', '=', document_id).where('page', '=', page).where('claim', '=', claim)

/** Counts the pages by state. */
export async function countPages(db: Db, id: string): Promise<PageCounts> {
  const { rows } = await sql<PageCounts>`
    select count(*) filter (where source is not null) as done,
      count(*) filter (where source is null and error_code is not null) as failed,
      count(*) filter (where source is null and error_code is null and claimed_until >= now()) as claimed,
      count(*) filter (where source is null and error_code is null and (claimed_until is null or claimed_until < now())) as free
    from document_pages where document_id = ${id}`.execute(db)
  return rows[0] as PageCounts
}

/** Returns the first page that failed. */
export const findFailedPage = (db: Db, id: string) =>
  db
    .selectFrom('document_pages')
    .select(['page', 'error_code', 'error_message'])
    .where('document_id', '=', id)
    .where('error_code', 'is not', null)
    .orderBy('page')
    .limit(1)
    .executeTakeFirst()

export interface ExtractionSummary {
  readonly pages: number
  /** mean over the characters that OCR read, 0 to 1; null without OCR */
  readonly confidence: number | null
}

interface Problem {
  code: string
  message: string
}

/** Ends the extraction: joins the pages to the document's text. With a problem the document is `failed` and keeps the text of its good pages. */
export async function finishExtraction(app: App, trx: Trx, id: string, problem: Problem | null): Promise<ExtractionSummary> {
  const { rows } = await sql<{ content: string | null; confidence: number | null; pages: number; text_source: TextSource }>`
    select string_agg(${pageText}, e'\\n\\n' order by page.page) filter (where ${pageText} <> '') as content,
      sum(confidence * length(text)) filter (where source = 'ocr' and confidence is not null)
        / nullif(sum(length(text)) filter (where source = 'ocr' and confidence is not null), 0) as confidence, count(*)::int as pages,
      case when bool_and(source = 'empty' or source is null) is not false then 'empty'
        when bool_and(source <> 'text_layer' or source is null) then 'ocr'
        when bool_and(source <> 'ocr' or source is null) then 'text_layer' else 'mixed' end as text_source
    from ${pagesWithDocuments} where document_id = ${id}`.execute(trx)
  const { content = null, confidence = null, pages = 0, text_source = null } = rows[0] ?? {}
  const status = problem ? 'failed' : 'completed'
  // An attempt without text does not replace the text of an earlier attempt.
  const keepsOldText = problem !== null && content === null
  const text = { content: content ?? '', ocr_confidence: confidence, text_source: unlessUnread(text_source) as never }
  const columns = keepsOldText ? {} : { ...text, ...(await languageAndDate(app, trx, id, text.content)) }
  await writeRevision(app, trx, id, {
    ...columns,
    status,
    error_code: problem?.code ?? null,
    error_message: problem?.message ?? null,
    processed_at: app.now(),
  })
  const owner = await trx.selectFrom('live_documents').select('owner_id').where('id', '=', id).executeTakeFirst()
  if (!owner) return { pages, confidence }
  await publish(trx, 'ocr_progress', owner.owner_id, { document_id: id, progress: 100, status })
  await publish(trx, 'document_updated', owner.owner_id, { document_id: id, changes: ['content', 'status'] })
  await renditions.requestAfterExtraction(app, trx, [id])
  return { pages, confidence }
}

/** Returns `source`, or `none` if recordOutline() has set it. */
const unlessUnread = (source: TextSource | null) => sql`case when text_source = 'none' then text_source else ${source} end`

/** Restarts extraction in this language. The old text stays visible until it has finished. */
export async function restartExtraction(app: App, trx: Trx, id: string, language: string): Promise<void> {
  await deletePages(trx, id)
  await renditions.restart(trx, id)
  await writeRevision(app, trx, id, { language, ocr_enabled: true, status: 'pending', error_code: null, error_message: null })
  await publishPending(trx, id)
}

/** Delay of the indexing of a changed status. A short extraction ends before and enqueues it at once, with its text. */
const indexDelayMs = 500

/** Writes columns of a document that is being read. */
const setColumns = (app: App, trx: Trx, id: string, columns: Updateable<Schema['documents']>) =>
  writeRevision(app, trx, id, columns, indexDelayMs)
