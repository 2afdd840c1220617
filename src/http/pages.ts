/** The envelope of lists that come in pages, and cursors, which lead from each page to the next one. */
import { createHash } from 'node:crypto'
import { type SelectQueryBuilder, sql } from 'kysely'
import { z } from 'zod'
import type { Config } from '../config/schema.ts'
import type { Keyset, RowWithCursorKey } from '../db/keyset.ts'
import { invalid } from '../errors.ts'
import { integerText } from './input.ts'

export interface PageRequest {
  page: number
  per_page: number
  /** `next_cursor` of another page: this one begins behind it */
  cursor?: string | undefined
}

/** What a request says of the page that it wants; how long one is that it does not say is up to whoever asks (settings.paged). */
export interface PageInput {
  page: number
  per_page?: number | undefined
  cursor?: string | undefined
}

/** `page` and `per_page` of a query string, with the configured maximum. */
export const numberedPageQuery = ({ limits }: Config) => ({
  page: integerText(1, 1_000_000_000).default(1),
  per_page: integerText(1, limits.per_page_max).optional(),
})

/** Titles are part of a cursor where a list is sorted by them. */
export const cursorField = z
  .string()
  .max(12_000)
  .optional()
  .describe('`pagination.next_cursor` of the previous page. Requires the same filters, `sort` and `order`, and excludes `page`.')

/** `page`, `per_page` and `cursor` of a query string. */
export const pageQuery = (config: Config) => ({ ...numberedPageQuery(config), cursor: cursorField })

/** `per_page` and `cursor` of a list that is returned whole unless `per_page` is given. */
export const wholeQuery = ({ limits }: Config) => ({ per_page: integerText(1, limits.per_page_max).optional(), cursor: cursorField })

export const PageNumbers = z.object({
  page: z.int(),
  per_page: z.int(),
  total: z.int(),
  total_pages: z.int(),
  has_next: z.boolean(),
  has_prev: z.boolean(),
})
const nextCursor = z.string().nullable().describe('Cursor of the next page; null on the last page.')
export const Pagination = PageNumbers.extend({ next_cursor: nextCursor })

/** `pagination` of lists without page numbers. */
export const CursorPagination = z.object({ next_cursor: nextCursor })

export const pageSchema = <T extends z.ZodType>(item: T) => z.object({ data: z.array(item), pagination: Pagination })

/** The `pagination` object for a numbered page of a list with `total` entries. */
export function pageNumbers({ page, per_page }: PageRequest, total: number): z.infer<typeof PageNumbers> {
  const total_pages = Math.ceil(total / per_page)
  return { page, per_page, total, total_pages, has_next: page < total_pages, has_prev: page > 1 }
}

/** The `pagination` object of a page, with the cursor of the next one. `page` is 1 on a page that was requested by cursor. */
export function pagination(page: PageRequest, { total, next }: Pick<FetchedPage<unknown>, 'total' | 'next'>): z.infer<typeof Pagination> {
  const numbers = pageNumbers(page, total)
  return { ...numbers, ...(page.cursor === undefined ? {} : { has_next: next !== null, has_prev: false }), next_cursor: next }
}

/** Which rows to read: `limit` of them, either those behind a place in the order, or those after `offset`. */
export interface Slice {
  readonly limit: number
  readonly offset: number
  /** the sort keys of a row */
  readonly after: readonly unknown[] | null
}

export interface FetchedPage<Row> {
  readonly rows: Row[]
  /** entries of the whole list; with a cursor, as they were when the walk began */
  readonly total: number
  /** the cursor of the next page; null: this is the last one */
  readonly next: string | null
}

/**
 * Reads one page of a list. A cursor is bound to `order` and `filters`. `fetch` reads the rows of a slice in that order. Throws VALIDATION_ERROR
 * for a cursor of another list.
 */
export async function fetchPage<Row extends RowWithCursorKey>(
  { page, per_page, cursor }: PageRequest,
  order: Keyset,
  filters: unknown,
  fetch: (slice: Slice) => Promise<Row[]>,
  count: () => Promise<number>,
): Promise<FetchedPage<Row>> {
  const fingerprint = fingerprintList(order, filters)
  if (cursor !== undefined && page > 1) throw invalid('page', 'page and cursor exclude each other')
  const place = cursor === undefined ? null : decodeCursor(cursor, order, fingerprint)
  // One more than is shown tells whether there is a next page.
  const slice = { limit: per_page + 1, offset: place ? 0 : (page - 1) * per_page, after: place?.key ?? null }
  const [found, total] = await Promise.all([fetch(slice), place ? place.total : count()])
  const rows = found.slice(0, per_page)
  const last = found.length > per_page ? rows.at(-1) : undefined
  const next = last ? Buffer.from(`["${fingerprint}",${total},${last.cursor_key}]`).toString('base64url') : null
  return { rows, total, next }
}

// biome-ignore lint/suspicious/noExplicitAny: the tables of the query do not matter here.
export type Query<Row> = SelectQueryBuilder<any, any, Row>

/** Returns the rows of a slice of the query in this order, with their sort keys. */
export const fetchSlice = <Row>(query: Query<Row>, order: Keyset, { limit, offset, after }: Slice): Promise<(Row & RowWithCursorKey)[]> =>
  order
    .orderBy(after ? query.where(order.isAfter(after)) : query)
    .select(order.key)
    .limit(limit)
    .offset(offset)
    .$castTo<Row & RowWithCursorKey>()
    .execute()

/** Returns the number of rows of a query that selects nothing yet. */
export const countRows = async (query: Query<object>): Promise<number> =>
  (await query.select(sql<number>`count(*)`.as('total')).$castTo<{ total: number }>().executeTakeFirstOrThrow()).total

export interface WholeInput {
  per_page?: number | undefined
  cursor?: string | undefined
}

/** Reads a list whole, or one page of it if `per_page` is given. Its entries are not counted: `total` is 0. */
export const fetchWhole = <Row extends RowWithCursorKey>(
  { per_page = Number.MAX_SAFE_INTEGER - 1, cursor }: WholeInput,
  order: Keyset,
  filters: unknown,
  fetch: (slice: Slice) => Promise<Row[]>,
): Promise<FetchedPage<Row>> => fetchPage({ page: 1, per_page, cursor }, order, filters, fetch, async () => 0)

const Cursor = z.tuple([z.string(), z.int().min(0), z.array(z.unknown())])

function decodeCursor(cursor: string, order: Keyset, fingerprint: string): { total: number; key: unknown[] } {
  let value: unknown
  try {
    value = JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch {
    value = null
  }
  const parsed = Cursor.safeParse(value)
  if (!parsed.success) throw invalid('cursor', 'not a cursor: pass pagination.next_cursor as it came')
  const [madeFor, total, key] = parsed.data
  if (madeFor !== fingerprint || !order.isPosition(key))
    throw invalid('cursor', 'the cursor of another list: repeat the filters, sort and order that it came with')
  return { total, key }
}

const fingerprintList = ({ keys }: Keyset, boundTo: unknown): string =>
  createHash('sha1')
    .update(JSON.stringify([keys.map(({ by, order }) => [typeof by === 'string' ? by : '', order]), boundTo]))
    .digest('base64url')
    .slice(0, 11)
