/** The envelope of lists that come in pages. */
import { z } from 'zod'
import type { Config } from '../config.ts'
import { wholeNumber } from './input.ts'

export interface PageOf {
  page: number
  per_page: number
}

/** What a request says of the page that it wants; how long one is that it does not say is up to whoever asks (settings.paged). */
export interface PageWanted {
  page: number
  per_page?: number | undefined
}

/** `page` and `per_page` of a query string, with the configured maximum. */
export const pageQuery = ({ limits }: Config) => ({
  page: wholeNumber(1, 1_000_000_000).default(1),
  per_page: wholeNumber(1, limits.per_page_max).optional(),
})

export const Pagination = z.object({
  page: z.int(),
  per_page: z.int(),
  total: z.int(),
  total_pages: z.int(),
  has_next: z.boolean(),
  has_prev: z.boolean(),
})

export const pageOf = <T extends z.ZodType>(item: T) => z.object({ data: z.array(item), pagination: Pagination })

/** The `pagination` object for a page of a list with `total` entries. */
export function pagination({ page, per_page }: PageOf, total: number): z.infer<typeof Pagination> {
  const total_pages = Math.ceil(total / per_page)
  return { page, per_page, total, total_pages, has_next: page < total_pages, has_prev: page > 1 }
}
