/** Renditions: files made from versions of documents. A row of `renditions` is requested, made by a job, and refers to a stored file. */
import { type RawBuilder, sql } from 'kysely'
import { type Actor, isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Db, Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import { publishMany } from '../../events.ts'
import { nilId } from '../../id.ts'
import * as jobs from '../../jobs/queue.ts'
import { requireDocument, requireDocumentName } from '../access.ts'
import { enqueuePurge } from '../purge.ts'

export type Kind = 'pdfa'
export type Rendition = Row<'renditions'> & { current: boolean }
export type State = Rendition['state']

/** Documents whose renditions one transaction requests. */
const batchSize = 500

/** Condition on `documents`: a file with pages, which may have a rendition. The others are refused on request. */
const isConvertible = sql<boolean>`(mime_type = 'application/pdf' or (mime_type like 'image/%' and mime_type <> 'image/svg+xml'))`

/** Lists the renditions of all versions, newest version first. Throws DOCUMENT_NOT_FOUND. */
export async function list(app: App, actor: Actor, id: string): Promise<Rendition[]> {
  await requireDocumentName(app.reads, actor, id, { inTrash: true })
  return select(app.reads, id).orderBy('renditions.number', 'desc').execute()
}

/** Returns the rendition of the current version. Throws DOCUMENT_NOT_FOUND, RENDITION_NOT_FOUND. */
export async function get(app: App, actor: Actor, id: string, kind: Kind): Promise<Rendition> {
  await requireDocumentName(app.db, actor, id, { inTrash: true })
  const rendition = await findCurrent(app.db, id, kind)
  if (!rendition) throw new AppError('RENDITION_NOT_FOUND')
  return rendition
}

/** Requests a rendition of the current version, again if it failed or was refused. Throws DOCUMENT_NOT_FOUND. */
export async function request(app: App, actor: Actor, id: string, kind: Kind): Promise<Rendition> {
  return app.db.transaction().execute(async (trx) => {
    await trx.selectFrom('documents').select('id').where('id', '=', id).forNoKeyUpdate().execute()
    const document = await requireDocument(trx, actor, id)
    await requestMany(trx, kind, sql`id = ${document.id}`)
    return (await findCurrent(trx, id, kind)) as Rendition
  })
}

/**
 * Requests missing renditions of the actor's documents, unless they were refused before. An admin requests renditions for all users. Returns their
 * number.
 */
export async function requestMissing(app: App, actor: Actor, kind: Kind): Promise<number> {
  const missing = sql`${isConvertible} and ${isMissing(kind)} and ${isVisible(actor)}`
  let count = 0
  for (let last = nilId; ; ) {
    const { rows } = await sql<{ id: string }>`
      select id from live_documents document where ${missing} and id > ${last} order by id limit ${batchSize}`.execute(app.db)
    if (rows.length === 0) return count
    const isChosen = sql`${missing} and id = any(${rows.map(({ id }) => id)}::uuid[])`
    count += await app.db.transaction().execute((trx) => requestMany(trx, kind, isChosen, 'low'))
    last = rows.at(-1)!.id
  }
}

const isVisible = (actor: Actor): RawBuilder<boolean> => (isAdmin(actor) ? sql`true` : sql`owner_id = ${actor.id}`)

const isMissing = (kind: Kind): RawBuilder<boolean> => sql`not exists (
  select from renditions where document_id = document.id and number = current_version and kind = ${kind} and state in ('completed', 'refused'))`

/** Requests renditions of all documents that fulfil a condition on `document`, except completed ones. Returns their number. */
async function requestMany(trx: Trx, kind: Kind, condition: RawBuilder<unknown>, priority: jobs.Priority = 'normal'): Promise<number> {
  const { rows } = await sql<{ id: string; owner_id: string; number: number; status: string }>`
    with chosen as materialized (
      select id, owner_id, current_version as number, status from live_documents document where ${condition} order by id for no key update
    ), requested as (
      insert into renditions (document_id, number, kind) select id, number, ${kind} from chosen order by id
      on conflict (document_id, number, kind) do update set state = 'pending', error_code = null, error_message = null, finished_at = null
      where renditions.state <> 'completed' returning document_id
    )
    select chosen.* from chosen join requested on document_id = id order by id`.execute(trx)
  // OCR that has not finished queues the job at its end.
  const readable = rows.filter(({ status }) => status === 'completed' || status === 'failed')
  const newJobs = readable.map(({ id, owner_id, number }) => ({
    kind: 'rendition' as const,
    payload: { number, kind },
    documentId: id,
    ownerId: owner_id,
    priority,
    dedupeKey: `rendition:${id}:${number}:${kind}`,
  }))
  await jobs.enqueueAll(trx, newJobs)
  await publishStates(trx, rows, kind, 'pending')
  return rows.length
}

/** Publishes the state of renditions to the owners of their documents. `number`: that of the version. */
export const publishStates = (
  trx: Trx,
  documents: readonly { id: string; owner_id: string; number: number }[],
  kind: Kind,
  state: State,
): Promise<void> =>
  publishMany(
    trx,
    'rendition_updated',
    documents.map(({ id, owner_id, number }) => ({ userId: owner_id, data: { document_id: id, number, kind, state } })),
  )

/** Queues the renditions of documents whose text is complete: renditions requested meanwhile, and renditions by `documents.pdfa`. */
export async function requestAfterExtraction(app: App, trx: Trx, ids: readonly string[]): Promise<void> {
  await requestMany(trx, 'pdfa', sql`id = any(${ids}::uuid[]) and ${isWanted(app)}`)
}

/**
 * Queues the missing renditions of documents that have their text already: documents that leave the trash, and documents with a restored version.
 * Unlike requestAfterExtraction(), it does not repeat refused renditions.
 */
export async function requestAfterReturn(app: App, trx: Trx, ids: readonly string[]): Promise<void> {
  const hasText = sql`status in ('completed', 'failed')`
  await requestMany(trx, 'pdfa', sql`id = any(${ids}::uuid[]) and ${hasText} and ${isMissing('pdfa')} and ${isWanted(app)}`)
}

/** Condition on `document`: a rendition was requested, or `documents.pdfa` asks for one. */
function isWanted(app: App): RawBuilder<boolean> {
  const hasOcr = sql`exists (select from document_pages where document_id = document.id and source = 'ocr')`
  const isChosen = { never: sql`false`, ocr: hasOcr, always: sql`true` }[app.config.documents.pdfa]
  const isRequested = sql`exists (
    select from renditions where document_id = document.id and number = current_version and kind = 'pdfa' and state = 'pending')`
  return sql`(${isRequested} or (${isConvertible} and status = 'completed' and ${isChosen}))`
}

/** Makes the renditions of the current versions pending, because the words of their pages are read again. They are made after that. */
export async function restart(trx: Trx, id: string): Promise<void> {
  await jobs.cancel(trx, await loadUnfinishedJobs(trx, id))
  const { rows } = await sql<{ sha256: string | null }>`
    with old as (
      select document_id, number, kind, renditions.sha256 from renditions join live_documents document on document.id = document_id
      where document_id = ${id} and number = current_version
    )
    update renditions set state = 'pending', sha256 = null, size = null, error_code = null, error_message = null, finished_at = null
    from old where renditions.document_id = old.document_id and renditions.number = old.number and renditions.kind = old.kind
    returning old.sha256`.execute(trx)
  await enqueuePurge(
    trx,
    rows.flatMap(({ sha256 }) => sha256 ?? []),
  )
}

/** Returns the ids of waiting and running jobs for renditions of the current version. */
async function loadUnfinishedJobs(trx: Trx, documentId: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select jobs.id from jobs join documents on documents.id = jobs.document_id
    where jobs.document_id = ${documentId} and kind = 'rendition' and jobs.status in ('pending', 'processing')
      and (payload ->> 'number')::int = current_version`.execute(trx)
  return rows.map(({ id }) => id)
}

/** Deletes the requested renditions of documents whose current version is replaced. */
export async function cancelPending(trx: Trx, ids: readonly string[]): Promise<void> {
  await trx.deleteFrom('renditions').where('document_id', 'in', ids).where('state', '=', 'pending').execute()
}

export interface Counts extends Record<State, number> {
  kind: Kind
  /** documents with pages and without a row */
  missing: number
}

/** Counts the renditions of the actor's documents by state. For an admin, counts the documents of all users. */
export async function countByState(app: App, actor: Actor): Promise<Counts[]> {
  const { rows } = await sql<Omit<Counts, 'kind'>>`
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'completed') as completed,
      count(*) filter (where state = 'failed') as failed, count(*) filter (where state = 'refused') as refused,
      count(*) filter (where state is null and ${isConvertible}) as missing
    from live_documents document left join renditions on document_id = id and number = current_version and kind = 'pdfa'
    where ${isVisible(actor)}`.execute(app.reads)
  return [{ kind: 'pdfa', ...(rows[0] as Omit<Counts, 'kind'>) }]
}

const findCurrent = (db: Db, id: string, kind: Kind): Promise<Rendition | undefined> =>
  select(db, id).where('renditions.kind', '=', kind).whereRef('renditions.number', '=', 'document.current_version').executeTakeFirst()

const select = (db: Db, id: string) =>
  db
    .selectFrom('renditions')
    .innerJoin('documents as document', 'document.id', 'renditions.document_id')
    .where('document_id', '=', id)
    .selectAll('renditions')
    .select(sql<boolean>`renditions.number = document.current_version`.as('current'))
