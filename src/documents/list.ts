/** Lists of documents: filters, sort orders and pages. */
import { type SelectQueryBuilder, sql } from 'kysely'
import type { Actor } from '../actor.ts'
import { isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { type Keyset, keyset, type RowWithCursorKey, type SortKey } from '../db/keyset.ts'
import type { Db } from '../db/pool.ts'
import type { DocumentStatus, Schema } from '../db/schema.ts'
import { compileStatement } from '../db/statements.ts'
import { type FetchedPage, fetchPage, type PageRequest, type Slice } from '../http/pages.ts'
import { parseUserIdentifier } from '../http/user-identifier.ts'
import { type Document, excerptLength, selectDocuments } from './view.ts'

export const sortable = ['created_at', 'updated_at', 'title', 'filename', 'size', 'status', 'ocr_confidence'] as const

/** Types of the sort columns, for cursors. */
const columnTypes: Record<(typeof sortable)[number], SortKey['type']> = {
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
  /** user name or id of the owner; only admins see documents of others */
  owner?: string | undefined
}

export interface ListOptions extends Filter, PageRequest {
  sort: (typeof sortable)[number]
  order: 'asc' | 'desc'
  /** leading characters of `content` to read with each document; 0 reads none */
  characters: number
}

export type ListedDocument = Document & RowWithCursorKey

/** Returns one page of the documents that the actor can see. Throws VALIDATION_ERROR for a cursor of another list. */
export function list(app: App, actor: Actor, options: ListOptions): Promise<FetchedPage<ListedDocument>> {
  const { page: _page, per_page: _size, cursor, sort, order, characters, ...filter } = options
  const by = keysets[order][sort]
  const boundTo = ['documents', filter]
  if (cursor === undefined && hasDefaultOptions(options) && !isAdmin(actor)) {
    const { lists } = app.database
    const slice = ({ limit, offset }: Slice) => fetchDefaultPage(lists, actor.id, limit, offset)
    return fetchPage(options, by, boundTo, slice, async () => (await fetchDefaultTotal(lists, actor.id))[0]?.total ?? 0)
  }
  // Filters and sort orders can be slow: each of these queries takes a connection of the pool, so that it cannot delay other users.
  const all = applyFilter(app.db, actor, filter)
  const total = async () => (await selectTotal(all).executeTakeFirstOrThrow()).total
  return fetchPage(options, by, boundTo, (slice) => selectSlice(app.db, all, by, slice, characters).execute(), total)
}

type FilteredQuery = ReturnType<typeof applyFilter>

/** Cuts the page by id first and joins owner and labels for the documents of that page only. */
function selectSlice(db: Db, all: FilteredQuery, by: Keyset, { limit, offset, after }: Slice, characters: number) {
  const behind = after ? all.where(by.isAfter(after)) : all
  const ids = by.orderBy(behind.select('documents.id')).limit(limit).offset(offset)
  return by
    .orderBy(selectDocuments(db, characters).where('documents.id', 'in', ids))
    .select(by.key)
    .$castTo<ListedDocument>()
}

function selectTotal(all: FilteredQuery) {
  return all.select(sql<number>`count(*)`.as('total'))
}

/** Orders by the column, then by id, which makes the order unique. */
const keysetOf = (sort: ListOptions['sort'], order: ListOptions['order']): Keyset =>
  keyset({ by: `documents.${sort}`, order, type: columnTypes[sort], ...nullsOrder(sort, order) }, { by: 'documents.id', type: 'id', order })

/** Puts documents without OCR confidence last when descending. No other sort column is nullable. */
const nullsOrder = (sort: ListOptions['sort'], order: ListOptions['order']): Pick<SortKey, 'nulls'> =>
  sort === 'ocr_confidence' ? { nulls: order === 'asc' ? 'first' : 'last' } : {}

const keysets = Object.fromEntries(
  (['asc', 'desc'] as const).map((order) => [order, Object.fromEntries(sortable.map((sort) => [sort, keysetOf(sort, order)]))]),
) as Record<ListOptions['order'], Record<ListOptions['sort'], Keyset>>

/** Compiled query of the list without parameters. It saves a seventh of the request time. */
const defaultOptions = { sort: 'created_at', order: 'desc', characters: excerptLength } as const
const selectOwn = (db: Db, owner: string | null): FilteredQuery => db.selectFrom('documents').where('documents.owner_id', '=', owner)
const fetchDefaultPage = compileStatement((db: Db, owner: string | null, limit: number, offset: number) =>
  selectSlice(db, selectOwn(db, owner), keysets.desc.created_at, { limit, offset, after: null }, excerptLength),
)
const fetchDefaultTotal = compileStatement((db: Db, owner: string | null) => selectTotal(selectOwn(db, owner)))

const hasDefaultOptions = ({ sort, order, characters, status, source_id, label_ids, date_from, date_to, owner }: ListOptions): boolean =>
  characters === defaultOptions.characters &&
  sort === defaultOptions.sort &&
  order === defaultOptions.order &&
  ![status, source_id, label_ids, date_from, date_to, owner].some(Boolean)

function applyFilter(db: Db, actor: Actor, { status, source_id, label_ids, date_from, date_to, owner }: Filter) {
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
  return filterByLabels(query, [...new Set(label_ids?.map((id) => id.toLowerCase()))])
}

/** Up to this number of labels is matched by one subquery each. Planning many more would exceed the statement timeout. */
const maxLabelJoins = 8

function filterByLabels<Q extends SelectQueryBuilder<Schema, 'documents', object>>(query: Q, labels: readonly string[]): Q {
  if (labels.length > maxLabelJoins)
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
