/** Pagination of lists by page number and by cursor. */
import { createHash } from 'node:crypto'
import { type SelectQueryBuilder, sql } from 'kysely'
import { z } from 'zod'
import type { Config } from '../config/schema.ts'
import type { Keyset, RowWithCursorKey } from '../db/keyset.ts'
import { invalid } from '../errors.ts'
import { tryParseJson } from '../json.ts'
import { integerText } from './input.ts'

export interface PageRequest {
  page: number
  per_page: number
  /** `next_cursor` of the previous page. */
  cursor?: string | undefined
}

/** Page parameters of a request. The caller sets the default of `per_page` from the user's settings. */
export interface PageInput {
  page: number
  per_page?: number | undefined
  cursor?: string | undefined
}

/** Query parameters `page` and `per_page`, with the configured maximum. */
export const numberedPageQuery = ({ limits }: Config) => ({
  page: integerText(1, 1_000_000_000).default(1),
  per_page: integerText(1, limits.per_page_max).optional(),
})

/** Query parameter `cursor`. It is long because a list sorted by title has titles in its cursors. */
export const cursorField = z
  .string()
  .max(12_000)
  .optional()
  .describe('`pagination.next_cursor` of the previous page. Requires the same filters, `sort` and `order`, and excludes a `page` above 1.')

/** Query parameters `page`, `per_page` and `cursor`. */
export const pageQuery = (config: Config) => ({ ...numberedPageQuery(config), cursor: cursorField })

/** Query parameters `per_page` and `cursor` of a list that is returned whole without `per_page`. */
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

/** Object `pagination` of lists without page numbers. */
export const CursorPagination = z.object({ next_cursor: nextCursor })

export const pageSchema = <T extends z.ZodType>(item: T) => z.object({ data: z.array(item), pagination: Pagination })

/** Returns the `pagination` object of a numbered page of a list with `total` entries. */
export function pageNumbers({ page, per_page }: PageRequest, total: number): z.infer<typeof PageNumbers> {
  const total_pages = Math.ceil(total / per_page)
  return { page, per_page, total, total_pages, has_next: page < total_pages, has_prev: page > 1 }
}

/** Returns the `pagination` object of a page with the cursor of the next one. `page` is 1 for requests by cursor. */
export function pagination(page: PageRequest, { total, next }: Pick<FetchedPage<unknown>, 'total' | 'next'>): z.infer<typeof Pagination> {
  const numbers = pageNumbers(page, total)
  return { ...numbers, ...(page.cursor === undefined ? {} : { has_next: next !== null, has_prev: false }), next_cursor: next }
}

/** Range of rows to read: `limit` rows, either behind a position in the order or after `offset`. */
export interface Slice {
  readonly limit: number
  readonly offset: number
  /** Sort keys of the last row before the range. */
  readonly after: readonly unknown[] | null
}

export interface FetchedPage<Row> {
  readonly rows: Row[]
  /** Number of entries of the whole list; with a cursor, at the start of the walk. */
  readonly total: number
  /** Cursor of the next page; null on the last one. */
  readonly next: string | null
}

/**
 * Reads one page of a list. `fetch` reads the rows of a slice in `order`. A cursor is bound to `order` and `filters`; throws VALIDATION_ERROR
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
  const position = cursor === undefined ? null : decodeCursor(cursor, order, fingerprint)
  // An additional row tells if there is a next page.
  const slice = { limit: per_page + 1, offset: position ? 0 : (page - 1) * per_page, after: position?.key ?? null }
  const [fetched, total] = await Promise.all([fetch(slice), position ? position.total : count()])
  const rows = fetched.slice(0, per_page)
  const last = fetched.length > per_page ? rows.at(-1) : undefined
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

/** Returns the number of rows of a query without selected columns. */
export const countRows = async (query: Query<object>): Promise<number> =>
  (await query.select(sql<number>`count(*)`.as('total')).$castTo<{ total: number }>().executeTakeFirstOrThrow()).total

export interface WholeInput {
  per_page?: number | undefined
  cursor?: string | undefined
}

/** Reads a whole list, or one page of it if `per_page` is set. Entries are not counted: `total` is 0. */
export const fetchWhole = <Row extends RowWithCursorKey>(
  { per_page = Number.MAX_SAFE_INTEGER - 1, cursor }: WholeInput,
  order: Keyset,
  filters: unknown,
  fetch: (slice: Slice) => Promise<Row[]>,
): Promise<FetchedPage<Row>> => fetchPage({ page: 1, per_page, cursor }, order, filters, fetch, async () => 0)

const Cursor = z.tuple([z.string(), z.int().min(0), z.array(z.unknown())])

function decodeCursor(cursor: string, order: Keyset, fingerprint: string): { total: number; key: unknown[] } {
  const parsed = Cursor.safeParse(tryParseJson(Buffer.from(cursor, 'base64url').toString()))
  if (!parsed.success) throw invalid('cursor', 'not a cursor: pass pagination.next_cursor unchanged')
  const [ownFingerprint, total, key] = parsed.data
  if (ownFingerprint !== fingerprint || !order.isPosition(key))
    throw invalid('cursor', 'the cursor of another list: repeat its filters, sort and order')
  return { total, key }
}

const fingerprintList = ({ keys }: Keyset, boundTo: unknown): string =>
  createHash('sha1')
    .update(JSON.stringify([keys.map(({ by, order }) => [typeof by === 'string' ? by : '', order]), boundTo]))
    .digest('base64url')
    .slice(0, 11)
