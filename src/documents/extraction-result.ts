/** What is learned from reading a document: its outline, its pages one by one, its text. Every write says whose claim it acts on. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { publish } from '../events.ts'
import type { Outline, ReadPage } from '../ports/document-reader.ts'
import { touch } from './documents.ts'

export type ReadableDocument = Pick<Row<'documents'>, 'id' | 'owner_id' | 'filename' | 'mime_type' | 'sha256' | 'status' | 'page_count'>

export interface PageClaim {
  document_id: string
  page: number
  claim: string
}

export interface PagesLeft {
  /** nobody has them */
  free: number
  /** somebody is at them */
  claimed: number
  failed: number
  done: number
}

/** The document as its reader needs it; undefined when it was deleted. */
export const find = (db: Db, id: string): Promise<ReadableDocument | undefined> =>
  db
    .selectFrom('documents')
    .select(['id', 'owner_id', 'filename', 'mime_type', 'sha256', 'status', 'page_count'])
    .where('id', '=', id)
    .executeTakeFirst()

/** A reader starts (again): claims and page failures of earlier tries are void, pages that are done stay done. */
export async function start(app: App, trx: Trx, { id, owner_id }: ReadableDocument): Promise<void> {
  await trx
    .updateTable('document_pages')
    .set({ claim: null, claimed_until: null, error_code: null, error_message: null })
    .where('document_id', '=', id)
    .where('source', 'is', null)
    .execute()
  await setStatus(app, trx, id, { status: 'processing', error_code: null, error_message: null })
  await publish(trx, 'ocr_progress', owner_id, { document_id: id, progress: 0, status: 'processing' })
}

/** A reader gave up for now; another will come. */
export async function backToPending(app: App, trx: Trx, id: string): Promise<void> {
  await setStatus(app, trx, id, { status: 'pending' })
  await tellWaiting(trx, id)
}

/** Tells how far the pages are; returns how many are done, and of how many. */
export function tellPages({ db }: App, { id, owner_id }: ReadableDocument): Promise<{ done: number; total: number }> {
  return db.transaction().execute(async (trx) => {
    // One teller at a time, so that progress never goes back, and none after the end of the reading.
    const { rows } = await sql`select id from documents where id = ${id} and status = 'processing' for no key update`.execute(trx)
    const { done, free, claimed, failed } = await pagesLeft(trx, id)
    const total = done + free + claimed + failed
    // The last percent is for what comes after the pages.
    const progress = Math.floor((99 * done) / total)
    if (rows.length > 0) await publish(trx, 'ocr_progress', owner_id, { document_id: id, progress, status: 'processing' })
    return { done, total }
  })
}

async function tellWaiting(trx: Trx, id: string): Promise<void> {
  const owner = await trx.selectFrom('documents').select('owner_id').where('id', '=', id).executeTakeFirst()
  if (owner) await publish(trx, 'ocr_progress', owner.owner_id, { document_id: id, progress: 0, status: 'pending' })
}

/** Whether an earlier try got as far as the outline. */
export async function hasOutline(db: Db, id: string): Promise<boolean> {
  return (await db.selectFrom('document_pages').select('page').where('document_id', '=', id).limit(1).execute()).length > 0
}

/** Keeps the outline: text that the file carries is done, the rest is work left (with `ocr` false nothing is left). */
export async function recordOutline(app: App, trx: Trx, id: string, outline: Outline, ocr: boolean): Promise<void> {
  await trx.deleteFrom('document_pages').where('document_id', '=', id).execute()
  const rows = outline.pages.map(({ page, text, needsOcr, width, height }) => {
    const isLeft = needsOcr && ocr
    const source = isLeft ? null : text.trim() === '' ? ('empty' as const) : ('text_layer' as const)
    return { document_id: id, page, text, source, width, height }
  })
  for (let from = 0; from < rows.length; from += 500)
    await trx
      .insertInto('document_pages')
      .values(rows.slice(from, from + 500))
      .execute()
  await trx
    .updateTable('documents')
    .set({
      mime_type: outline.mimeType,
      page_count: outline.pages.length,
      // What the file says must not overwrite what a user wrote meanwhile.
      metadata: sql`${JSON.stringify(outline.metadata)}::jsonb || metadata`,
      version: sql`version + 1`,
      updated_at: app.now(),
    })
    .where('id', '=', id)
    .execute()
}

/** Takes the first page that nobody has, for `lease` milliseconds. */
export async function claimPage(db: Db, id: string, lease: number): Promise<PageClaim | null> {
  const claim = randomUUID()
  const { rows } = await sql<{ page: number }>`
    with next as (
      select document_id, page from document_pages
      where document_id = ${id} and source is null and error_code is null and (claimed_until is null or claimed_until < now())
      order by page limit 1 for update skip locked
    )
    update document_pages p set claim = ${claim}, claimed_until = now() + ${lease} * interval '1 ms'
    from next where p.document_id = next.document_id and p.page = next.page returning p.page`.execute(db)
  return rows[0] ? { document_id: id, page: rows[0].page, claim } : null
}

/** Keeps a page that was read; without effect when the claim is void. `duration` in seconds. */
export async function recordPage(db: Db, claim: PageClaim, { text, confidence, width, height }: ReadPage, duration: number): Promise<void> {
  await claimed(db, claim)
    .set({ text, confidence, width, height, duration, source: text.trim() === '' ? 'empty' : 'ocr', claim: null, claimed_until: null })
    .execute()
}

/** Keeps that a page could not be read; the others go on. */
export async function failPage(db: Db, claim: PageClaim, code: string, message: string): Promise<void> {
  await claimed(db, claim).set({ error_code: code, error_message: message, claim: null, claimed_until: null }).execute()
}

/** Gives a page back unread. */
export async function releasePage(db: Db, claim: PageClaim): Promise<void> {
  await claimed(db, claim).set({ claim: null, claimed_until: null }).execute()
}

/** Makes all claims void: nobody is left who could honour them. */
export async function voidClaims(db: Db, id: string): Promise<void> {
  await db
    .updateTable('document_pages')
    .set({ claim: null, claimed_until: null })
    .where('document_id', '=', id)
    .where('source', 'is', null)
    .execute()
}

const claimed = (db: Db, { document_id, page, claim }: PageClaim) =>
  db.updateTable('document_pages').where('document_id', '=', document_id).where('page', '=', page).where('claim', '=', claim)

/** Where the pages stand. */
export async function pagesLeft(db: Db, id: string): Promise<PagesLeft> {
  const { rows } = await sql<PagesLeft>`
    select count(*) filter (where source is not null) as done,
      count(*) filter (where source is null and error_code is not null) as failed,
      count(*) filter (where source is null and error_code is null and claimed_until >= now()) as claimed,
      count(*) filter (where source is null and error_code is null and (claimed_until is null or claimed_until < now())) as free
    from document_pages where document_id = ${id}`.execute(db)
  return rows[0] as PagesLeft
}

/** The first page that failed. */
export const failedPage = (db: Db, id: string) =>
  db
    .selectFrom('document_pages')
    .select(['page', 'error_code', 'error_message'])
    .where('document_id', '=', id)
    .where('error_code', 'is not', null)
    .orderBy('page')
    .limit(1)
    .executeTakeFirst()

export interface Finished {
  readonly pages: number
  /** of what OCR read, from 0 to 1; null where it read nothing */
  readonly confidence: number | null
}

/** Reading is over: the pages become the document's text. With a problem the document is `failed`, and keeps what could be read. */
export async function finish(app: App, trx: Trx, id: string, problem: { code: string; message: string } | null): Promise<Finished> {
  const { rows } = await sql<{ content: string | null; confidence: number | null; pages: number }>`
    select string_agg(text, e'\\n\\n' order by page) filter (where text <> '') as content,
      sum(confidence * length(text)) filter (where source = 'ocr' and confidence is not null)
        / nullif(sum(length(text)) filter (where source = 'ocr' and confidence is not null), 0) as confidence, count(*)::int as pages
    from document_pages where document_id = ${id}`.execute(trx)
  const { content = null, confidence = null, pages = 0 } = rows[0] ?? {}
  const status = problem ? 'failed' : 'completed'
  // A reading that came to nothing takes away nothing that an earlier one found.
  const isKept = problem !== null && content === null
  await touch(app, trx, id, {
    ...(isKept ? {} : { content: content ?? '', ocr_confidence: confidence }),
    status,
    error_code: problem?.code ?? null,
    error_message: problem?.message ?? null,
    processed_at: app.now(),
  })
  const owner = await trx.selectFrom('documents').select('owner_id').where('id', '=', id).executeTakeFirst()
  if (!owner) return { pages, confidence }
  await publish(trx, 'ocr_progress', owner.owner_id, { document_id: id, progress: 100, status })
  await publish(trx, 'document_updated', owner.owner_id, { document_id: id, changes: ['content', 'status'] })
  return { pages, confidence }
}

/** Everything is to be read anew, in this language; what was read before stays visible until then. */
export async function reset(app: App, trx: Trx, id: string, language: string): Promise<void> {
  await trx.deleteFrom('document_pages').where('document_id', '=', id).execute()
  await touch(app, trx, id, { language, ocr_enabled: true, status: 'pending', error_code: null, error_message: null })
  await tellWaiting(trx, id)
}

async function setStatus(
  app: App,
  trx: Trx,
  id: string,
  columns: { status: Row<'documents'>['status']; error_code?: null; error_message?: null },
): Promise<void> {
  await trx
    .updateTable('documents')
    .set((eb) => ({ ...columns, version: eb('version', '+', 1), updated_at: app.now() }))
    .where('id', '=', id)
    .execute()
}
