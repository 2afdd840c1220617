import type { z } from 'zod'
import type { SearchClause, SearchSort } from '../ports/search-engine.ts'
import type { Answer, Filters, MatchesAnswer, MatchesQuery, PendingAnswer, SimilarAnswer, Suggestions } from '../search/routes.ts'
import { type OpenConnection, pathOf, type QueryOf, withQuery } from './http/connection.ts'

export type SearchAnswer = z.infer<typeof Answer>

interface SearchOptions {
  filters?: z.input<typeof Filters>
  highlight?: boolean
  page?: number
  per_page?: number
}

export interface SearchConditions extends SearchOptions {
  query?: { must?: SearchClause[]; should?: SearchClause[]; must_not?: SearchClause[] }
  sort?: SearchSort[]
}

/** Search. */
export const search = ({ call }: OpenConnection) => ({
  /**
   * Searches by a query string: words are ANDed; "a phrase"; -not; one OR other; title:word; type:pdf label:name date:2026-01..2026-03
   * (on the document) added:2026 (time of arrival).
   * Returns one page.
   */
  query: (q: string, { filters, ...options }: SearchOptions & { fuzzy?: boolean; relax?: boolean } = {}): Promise<SearchAnswer> =>
    call('GET', withQuery(pathOf('search'), { q, ...options, filters: filters && JSON.stringify(filters) })),
  /** Searches by conditions on fields. Returns one page. */
  advanced: (conditions: SearchConditions): Promise<SearchAnswer> => call('POST', pathOf('search', 'advanced'), conditions),
  /** Suggests completions of a query. */
  suggest: async (q: string, limit?: number): Promise<z.infer<typeof Suggestions>['suggestions']> => {
    const { suggestions } = await call<z.infer<typeof Suggestions>>('GET', withQuery(pathOf('search', 'suggest'), { q, limit }))
    return suggestions
  },
  /** Returns the ids of the documents whose last change search does not find yet. At most 1,000 ids. */
  pending: async (ids: readonly string[]): Promise<string[]> =>
    (await call<z.infer<typeof PendingAnswer>>('POST', pathOf('search', 'pending'), { ids })).pending,
  /** Finds the words of a query in a document. Returns the pages with a match. */
  matches: (id: string, query: QueryOf<typeof MatchesQuery>): Promise<z.infer<typeof MatchesAnswer>> =>
    call('GET', withQuery(pathOf('documents', id, 'matches'), query)),
  /** Finds the documents most similar to one, best first. */
  similar: async (id: string, limit?: number): Promise<z.infer<typeof SimilarAnswer>['results']> => {
    const { results } = await call<z.infer<typeof SimilarAnswer>>('GET', withQuery(pathOf('documents', id, 'similar'), { limit }))
    return results
  },
})
