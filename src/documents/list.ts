/** Lists of documents: filters, sort orders and pages. */
import { type SelectQueryBuilder, sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { afterMillisecond } from '../db/clock.ts'
import { type Keyset, keyset, type RowWithCursorKey, type SortKey } from '../db/keyset.ts'
import type { Db } from '../db/pool.ts'
import type { Schema } from '../db/schema.ts'
import type { DocumentStatus, TextSource } from '../db/schema-documents.ts'
import { compileStatement } from '../db/statements.ts'
import { countRows, type FetchedPage, fetchPage, type PageRequest, type Slice } from '../http/pages.ts'
import { parseUserIdentifier } from '../http/user-identifier.ts'
import { type Document, excerptLength, lowestConfidence, selectDocuments } from './view.ts'

/** Columns by which lists can be sorted, with their types in cursors. */
const columnTypes = {
  created_at: 'timestamp',
  updated_at: 'timestamp',
  title: 'text',
  filename: 'text',
  size: 'integer',
  status: 'text',
  ocr_confidence: 'real',
  document_date: 'date',
} as const satisfies Record<string, SortKey['type']>
type Column = keyof typeof columnTypes
const nullable: ReadonlySet<Column> = new Set(['ocr_confidence', 'document_date'])
/** Length of the prefix in the index documents_by_title. */
const titlePrefixLength = 100
export const sortable = Object.keys(columnTypes) as [Column]

export interface Filter {
  status?: readonly DocumentStatus[] | undefined
  source_id?: string | undefined
  text_source?: readonly TextSource[] | undefined
  split_from?: string | undefined
  label_ids?: readonly string[] | undefined
  date_from?: Date | undefined
  date_to?: Date | undefined
  min_confidence?: number | undefined
  /** code of a warning */
  warning?: string | undefined
  /** YYYY-MM-DD, inclusive */
  document_date_from?: string | undefined
  document_date_to?: string | undefined
  /** user name or id of the owner; only admins see documents of others */
  owner?: string | undefined
}

export interface ListOptions extends Filter, PageRequest {
  sort: Column
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
  const isDefault = sort === 'created_at' && order === 'desc' && characters === excerptLength && !Object.values(filter).some(Boolean)
  if (isDefault && cursor === undefined && !isAdmin(actor)) {
    const { lists } = app.database
    const slice = ({ limit, offset }: Slice) => fetchDefaultPage(lists, actor.id, limit, offset)
    return fetchPage(options, by, boundTo, slice, async () => (await fetchDefaultTotal(lists, actor.id))[0]?.total ?? 0)
  }
  // Filters and sort orders can be slow: each of these queries takes a connection of the pool and cannot delay other users.
  const all = applyFilter(app.db, actor, filter)
  return fetchPage(
    options,
    by,
    boundTo,
    (slice) => selectSlice(app.db, all, by, slice, characters).execute(),
    () => countRows(all),
  )
}

/** Counts the documents that the actor can see by the year of their date. */
export async function countByYear(app: App, actor: Actor, filter: Filter): Promise<Record<string, number>> {
  const year = sql<number>`extract(year from documents.document_date)::integer`
  const rows = await applyFilter(app.db, actor, filter)
    .where('documents.document_date', 'is not', null)
    .select([year.as('year'), sql<number>`count(*)`.as('count')])
    .groupBy(year)
    .execute()
  return Object.fromEntries(rows.map(({ year, count }) => [year, count]))
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

/** Orders by the column, then by id, which makes the order unique. Null comes last when descending. */
function keysetOf(sort: Column, order: 'asc' | 'desc'): Keyset {
  const nulls = nullable.has(sort) ? { nulls: order === 'asc' ? ('first' as const) : ('last' as const) } : {}
  const prefix = sort === 'title' ? { prefixLength: titlePrefixLength } : {}
  return keyset({ by: `documents.${sort}`, order, type: columnTypes[sort], ...nulls, ...prefix }, { by: 'documents.id', type: 'id', order })
}
const keysetsOf = (order: 'asc' | 'desc') =>
  Object.fromEntries(sortable.map((sort) => [sort, keysetOf(sort, order)])) as Record<Column, Keyset>
const keysets = { asc: keysetsOf('asc'), desc: keysetsOf('desc') }

/** Compiled query of the list without parameters. It saves a seventh of the request time. */
const selectOwn = (db: Db, owner: string | null): FilteredQuery =>
  db.selectFrom('live_documents as documents').where('documents.owner_id', '=', owner)
const fetchDefaultPage = compileStatement((db: Db, owner: string | null, limit: number, offset: number) =>
  selectSlice(db, selectOwn(db, owner), keysets.desc.created_at, { limit, offset, after: null }, excerptLength),
)
const fetchDefaultTotal = compileStatement((db: Db, owner: string | null) => selectOwn(db, owner).select(sql<number>`count(*)`.as('total')))

function applyFilter(db: Db, actor: Actor, filter: Filter) {
  const { status, source_id, text_source, split_from, label_ids, date_from, date_to, document_date_from, document_date_to } = filter
  const { min_confidence, warning, owner } = filter
  let query = db.selectFrom('live_documents as documents')
  if (!isAdmin(actor)) query = query.where('documents.owner_id', '=', actor.id)
  if (status?.length) query = query.where('documents.status', 'in', status)
  if (source_id) query = query.where('documents.source_id', '=', source_id)
  if (text_source?.length) query = query.where('documents.text_source', 'in', text_source)
  if (split_from) query = query.where('documents.split_from', '=', split_from)
  if (date_from) query = query.where('documents.created_at', '>=', date_from)
  if (date_to) query = query.where('documents.created_at', '<', afterMillisecond(date_to))
  const confidence = lowestConfidence(min_confidence)
  if (confidence !== null) query = query.where(sql<boolean>`documents.ocr_confidence >= ${confidence}::real`)
  if (warning)
    query = query.where(sql<boolean>`documents.warnings <> '[]' and documents.warnings @> ${JSON.stringify([{ code: warning }])}::jsonb`)
  if (document_date_from) query = query.where('documents.document_date', '>=', document_date_from)
  if (document_date_to) query = query.where('documents.document_date', '<=', document_date_to)
  if (owner) {
    const { column, value } = parseUserIdentifier(owner)
    query = query.where('documents.owner_id', '=', (eb) => eb.selectFrom('users').select('id').where(column, '=', value))
  }
  return filterByLabels(query, [...new Set(label_ids?.map((id) => id.toLowerCase()))])
}

/** Maximum number of labels that are matched by one subquery each. Planning many more would exceed the statement timeout. */
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
  return labels.reduce((narrowed, label) => {
    const isLabelled = sql<boolean>`exists (select from document_labels where document_id = documents.id and label_id = ${label})`
    return narrowed.where(isLabelled) as Q
  }, query)
}
