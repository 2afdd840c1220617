/** Documents: finding, changing, removing them. Their making is in upload.ts, their reading in reading.ts. */
import { type SelectQueryBuilder, sql, type Updateable } from 'kysely'
import type { Actor } from '../actor.ts'
import { isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { compileStatement } from '../db/compiled-query.ts'
import { type Keyset, keyset, type RowWithCursorKey, type SortKey } from '../db/keyset.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { DocumentStatus, Schema } from '../db/schema.ts'
import { AppError } from '../errors.ts'
import { publish, publishMany } from '../events.ts'
import { matchesEtag } from '../http/files.ts'
import { type FetchedPage, fetchPage, type PageRequest, type Slice } from '../http/pages.ts'
import { parseUserIdentifier } from '../http/user-identifier.ts'
import * as jobs from '../jobs/queue.ts'
import { visible } from './access.ts'
import { reindexAll } from './enqueue-index.ts'
import { labelIds, setLabels } from './label-names.ts'
import { merge } from './metadata.ts'
import { type Document, etag, excerptLength, select } from './view.ts'

export const sortable = ['created_at', 'updated_at', 'title', 'filename', 'size', 'status', 'ocr_confidence'] as const

/** How the values of each are written in a cursor. */
const kindOf: Record<(typeof sortable)[number], SortKey['type']> = {
  created_at: 'timestamp',
  updated_at: 'timestamp',
  title: 'text',
  filename: 'text',
  size: 'integer',
  status: 'text',
  ocr_confidence: 'real',
}

export interface Filter {
  status?: readonly DocumentStatus[] | undefined
  source_id?: string | undefined
  label_ids?: readonly string[] | undefined
  date_from?: Date | undefined
  date_to?: Date | undefined
  /** user name or id; admins only, others see their own anyway */
  owner?: string | undefined
}

export interface ListOptions extends Filter, PageRequest {
  sort: (typeof sortable)[number]
  order: 'asc' | 'desc'
  /** characters of the text that are read with each document; 0: none */
  characters: number
}

/** A document of a list. */
export type Listed = Document & RowWithCursorKey

/** One page of what the actor may see. Throws VALIDATION_ERROR for a cursor of another list. */
export function list(app: App, actor: Actor, options: ListOptions): Promise<FetchedPage<Listed>> {
  const { page: _page, per_page: _size, cursor, sort, order, characters, ...filter } = options
  const by = orders[order][sort]
  const boundTo = ['documents', filter]
  if (cursor === undefined && isUsual(options) && !isAdmin(actor)) {
    const { lists } = app.database
    const usual = ({ limit, offset }: Slice) => usualPage(lists, actor.id, limit, offset)
    return fetchPage(options, by, boundTo, usual, async () => (await usualTotal(lists, actor.id))[0]?.total ?? 0)
  }
  // Some filters and orders take long: over the pool those of one user do not hold up those of others.
  const all = filtered(app.db, actor, filter)
  const total = async () => (await totalOf(all).executeTakeFirstOrThrow()).total
  return fetchPage(options, by, boundTo, (slice) => sliceOf(app.db, all, by, slice, characters).execute(), total)
}

type All = ReturnType<typeof filtered>

/** The page is cut first, from the narrow rows: what hangs on a document is read for the twenty that are shown. */
function sliceOf(db: Db, all: All, by: Keyset, { limit, offset, after }: Slice, characters: number) {
  const behind = after ? all.where(by.isAfter(after)) : all
  const ids = by.orderBy(behind.select('documents.id')).limit(limit).offset(offset)
  return by
    .orderBy(select(db, characters).where('documents.id', 'in', ids))
    .select(by.key)
    .$castTo<Listed>()
}

function totalOf(all: All) {
  return all.select(sql<number>`count(*)`.as('total'))
}

/** Ids break ties, so that no document is on two pages. */
const inOrder = (sort: ListOptions['sort'], order: ListOptions['order']): Keyset =>
  keyset({ by: `documents.${sort}`, order, type: kindOf[sort], ...nullsOf(sort, order) }, { by: 'documents.id', type: 'id', order })

/** Only a confidence can be missing. */
const nullsOf = (sort: ListOptions['sort'], order: ListOptions['order']): Pick<SortKey, 'nulls'> =>
  sort === 'ocr_confidence' ? { nulls: order === 'asc' ? 'first' : 'last' } : {}

const orders = Object.fromEntries(
  (['asc', 'desc'] as const).map((order) => [order, Object.fromEntries(sortable.map((sort) => [sort, inOrder(sort, order)]))]),
) as Record<ListOptions['order'], Record<ListOptions['sort'], Keyset>>

/** What clients ask for that say nothing: one's own documents, newest first. Writing the query anew costs a seventh of the whole request. */
const usual = { sort: 'created_at', order: 'desc', characters: excerptLength } as const
const own = (db: Db, owner: string | null): All => db.selectFrom('documents').where('documents.owner_id', '=', owner)
const usualPage = compileStatement((db: Db, owner: string | null, limit: number, offset: number) =>
  sliceOf(db, own(db, owner), orders.desc.created_at, { limit, offset, after: null }, excerptLength),
)
const usualTotal = compileStatement((db: Db, owner: string | null) => totalOf(own(db, owner)))

const isUsual = ({ sort, order, characters, status, source_id, label_ids, date_from, date_to, owner }: ListOptions): boolean =>
  characters === usual.characters &&
  sort === usual.sort &&
  order === usual.order &&
  ![status, source_id, label_ids, date_from, date_to, owner].some(Boolean)

function filtered(db: Db, actor: Actor, { status, source_id, label_ids, date_from, date_to, owner }: Filter) {
  let query = db.selectFrom('documents')
  if (!isAdmin(actor)) query = query.where('documents.owner_id', '=', actor.id)
  if (status?.length) query = query.where('documents.status', 'in', status)
  if (source_id) query = query.where('documents.source_id', '=', source_id)
  if (date_from) query = query.where('documents.created_at', '>=', date_from)
  if (date_to) query = query.where('documents.created_at', '<=', date_to)
  if (owner) {
    const { column, value } = parseUserIdentifier(owner)
    query = query.where('documents.owner_id', '=', (eb) => eb.selectFrom('users').select('id').where(column, '=', value))
  }
  return withLabels(query, [...new Set(label_ids?.map((id) => id.toLowerCase()))])
}

/** Labels that are joined one by one. With many more of them the plan alone would take longer than any statement may. */
const maxJoined = 8

function withLabels<Q extends SelectQueryBuilder<Schema, 'documents', object>>(query: Q, labels: readonly string[]): Q {
  if (labels.length > maxJoined)
    return query.where('documents.id', 'in', (eb) =>
      eb
        .selectFrom('document_labels')
        .select('document_id')
        .where('label_id', 'in', labels)
        .groupBy('document_id')
        .having(sql`count(*)`, '=', labels.length),
    ) as Q
  return labels.reduce(
    (narrowed, label) =>
      narrowed.where((eb) =>
        eb.exists(
          eb
            .selectFrom('document_labels')
            .select('label_id')
            .whereRef('document_labels.document_id', '=', 'documents.id')
            .where('label_id', '=', label),
        ),
      ) as Q,
    query,
  )
}

export interface Changes {
  title?: string | undefined
  /** ids or names; replaces the set */
  labels?: readonly string[] | undefined
  /** merged as RFC 7396: null removes a key */
  metadata?: Record<string, unknown> | undefined
}

/** Changes what a user may change. `ifMatch`: the If-Match header. Throws DOCUMENT_NOT_FOUND, PRECONDITION_FAILED, VALIDATION_ERROR. */
export async function update(app: App, actor: Actor, id: string, changes: Changes, ifMatch: string | null): Promise<Document> {
  return app.db.transaction().execute(async (trx) => {
    await trx.selectFrom('documents').select('id').where('id', '=', id).forUpdate().execute()
    const document = await visible(trx, actor, id)
    if (ifMatch !== null && !matchesEtag(ifMatch, etag(document))) throw new AppError('PRECONDITION_FAILED')
    const { title, labels, metadata } = changes
    if (labels) await setLabels(trx, id, await labelIds(trx, labels))
    await touch(app, trx, id, {
      ...(title === undefined ? {} : { title }),
      ...(metadata ? { metadata: JSON.stringify(merge(document.metadata, metadata)) } : {}),
    })
    await publish(trx, 'document_updated', document.owner_id, {
      document_id: id,
      changes: Object.keys(changes).filter((key) => changes[key as keyof Changes] !== undefined),
    })
    return visible(trx, actor, id)
  })
}

/** Writes columns of a document as its next version, and has the index follow. */
export async function touch(app: App, trx: Trx, id: string, columns: Updateable<Schema['documents']>): Promise<void> {
  await trx
    .updateTable('documents')
    .set((eb) => ({ ...columns, version: eb('version', '+', 1), updated_at: app.now() }))
    .where('id', '=', id)
    .execute()
  await jobs.enqueue(trx, 'index', { document_id: id }, { dedupeKey: `index:${id}` })
}

/** Removes a document and all that hangs on it; its bytes follow by a job once no other document has them. Throws DOCUMENT_NOT_FOUND. */
export async function remove(app: App, actor: Actor, id: string): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    // Two removals at once: the second waits here and then finds nothing.
    await trx.selectFrom('documents').select('id').where('id', '=', id).forUpdate().execute()
    const { sha256 } = await visible(trx, actor, id)
    await erase(trx, [{ id, sha256 }])
  })
}

/** How many documents a user owns. */
export async function countOf(db: Db, userId: string): Promise<number> {
  const { total } = await db
    .selectFrom('documents')
    .select(sql<number>`count(*)`.as('total'))
    .where('owner_id', '=', userId)
    .executeTakeFirstOrThrow()
  return total
}

/** Until the transaction ends, nobody else changes what a user owns now. */
export const hold = (trx: Trx, userId: string): Promise<{ id: string; sha256: string }[]> =>
  trx.selectFrom('documents').select(['id', 'sha256']).where('owner_id', '=', userId).orderBy('id').forUpdate().execute()

/** Gives all documents of one user to another. */
export async function transferAll(trx: Trx, from: string, to: string): Promise<void> {
  const moved = await trx
    .updateTable('documents')
    .set((eb) => ({ owner_id: to, version: eb('version', '+', 1) }))
    .where('owner_id', '=', from)
    .returning('id')
    .execute()
  await reindexAll(
    trx,
    moved.map(({ id }) => id),
  )
  await jobs.transferPending(trx, from, to)
  const data = (id: string) => ({ document_id: id, changes: ['owner'] })
  await publishMany(
    trx,
    'document_updated',
    moved.map(({ id }) => ({ userId: to, data: data(id) })),
  )
}

/** Removes all documents of a user. */
export async function removeAll(trx: Trx, userId: string): Promise<void> {
  await erase(trx, await hold(trx, userId))
}

/** Removes all documents of a source. */
export async function removeFrom(trx: Trx, sourceId: string): Promise<void> {
  await erase(
    trx,
    await trx.selectFrom('documents').select(['id', 'sha256']).where('source_id', '=', sourceId).orderBy('id').forUpdate().execute(),
  )
}

/** Documents that are removed by one statement each. */
const together = 500

async function erase(trx: Trx, documents: readonly { id: string; sha256: string }[]): Promise<void> {
  for (let from = 0; from < documents.length; from += together) {
    const some = documents.slice(from, from + together)
    const ids = some.map(({ id }) => id)
    await jobs.cancelByDocument(trx, ...ids)
    await trx.deleteFrom('documents').where('id', 'in', ids).execute()
    await reindexAll(trx, ids)
    await jobs.enqueueMany(
      trx,
      'purge',
      [...new Set(some.map(({ sha256 }) => sha256))].map((sha256) => ({ payload: { sha256 }, dedupe: `purge:${sha256}` })),
    )
  }
}
