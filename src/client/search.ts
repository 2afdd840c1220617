import type { z } from 'zod'
import type { SearchClause, SearchSort } from '../ports.ts'
import type { Answer, Filters } from '../search/routes.ts'
import { type OpenConnection, pathOf, withQuery } from './connection.ts'

export type SearchAnswer = z.infer<typeof Answer>

interface Wanted {
  filters?: z.input<typeof Filters>
  highlight?: boolean
  page?: number
  per_page?: number
}

export interface SearchConditions extends Wanted {
  query?: { must?: SearchClause[]; should?: SearchClause[]; must_not?: SearchClause[] }
  sort?: SearchSort[]
}

/** Finding documents; both answer one page. */
export const search = ({ call }: OpenConnection) => ({
  /** By words: all must match; "a phrase"; -not. */
  query: (q: string, { filters, ...options }: Wanted & { fuzzy?: boolean } = {}): Promise<SearchAnswer> =>
    call('GET', withQuery(pathOf('search'), { q, ...options, filters: filters && JSON.stringify(filters) })),
  /** By conditions on fields. */
  advanced: (conditions: SearchConditions): Promise<SearchAnswer> => call('POST', pathOf('search', 'advanced'), conditions),
})
