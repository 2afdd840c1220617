/** Searching documents. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { requireDocumentName } from '../documents/access.ts'
import { invalid } from '../errors.ts'
import { type PageRequest, pageNumbers } from '../http/pages.ts'
import type { SearchAnswer, SearchClause, SearchFilter, SearchHit, SearchSort } from '../ports/search-engine.ts'
import { type Filters, resolve, seenBy } from './query/filters.ts'
import { parse } from './query/parser.ts'
import { read, type Typed } from './query/qualifiers.ts'

export { type Health, type Reindexed, type ReindexOptions, reindex, status } from './reindex.ts'
export { type Suggestion, suggest } from './suggest.ts'

interface Asked extends PageRequest {
  filters: Filters
  highlight: boolean
}

export interface Search extends Asked {
  q: string
  fuzzy: boolean
}

/** See AdvancedQuery of the port. */
export interface AdvancedSearch extends Asked {
  must: readonly SearchClause[]
  should: readonly SearchClause[]
  must_not: readonly SearchClause[]
  sort: readonly SearchSort[]
}

export interface Found {
  results: readonly SearchHit[]
  /** what of the query was probably not meant as it was typed */
  warnings: readonly string[]
  total: number
  total_capped: boolean
  facets: { mime_types: Readonly<Record<string, number>>; labels: Readonly<Record<string, number>> }
  pagination: ReturnType<typeof pageNumbers>
  took_ms: number
}

/** What the actor may see and matches, best first. Throws VALIDATION_ERROR for a page past the window, SERVICE_UNAVAILABLE. */
export async function search(app: App, actor: Actor, { q, fuzzy, ...asked }: Search): Promise<Found> {
  const typed = read(q)
  const isWordless = parse(typed.text).length === 0
  const isListing = typed.isFiltered && isWordless
  const isLeftOut = isWordless && (typed.text !== '' || !typed.isFiltered)
  const warnings = isLeftOut
    ? [...typed.warnings, `no word in it${isListing ? ' besides the filters' : ': nothing is found'}`]
    : typed.warnings
  return find(app, actor, asked, { ...typed, warnings }, (options) =>
    isListing ? app.search.advanced({ ...options, ...noConditions }) : app.search.search({ ...options, text: typed.text, fuzzy }),
  )
}

/** Filters alone list what passes them. */
const noConditions = { must: [], should: [], mustNot: [], sort: [{ field: 'score', order: 'desc' }] } as const

/** The same by conditions on fields, in the order that is asked for. Throws as search() does. */
export const advanced = (app: App, actor: Actor, { must, should, must_not, sort, ...asked }: AdvancedSearch): Promise<Found> =>
  find(app, actor, asked, read(''), (options) => app.search.advanced({ ...options, must, should, mustNot: must_not, sort }))

/** The documents most like one that the actor may see, best first. Throws DOCUMENT_NOT_FOUND, SERVICE_UNAVAILABLE. */
export async function similar(app: App, actor: Actor, documentId: string, limit: number): Promise<readonly SearchHit[]> {
  const { id } = await requireDocumentName(app.db, actor, documentId)
  return app.search.similar({ documentId: id, filter: seenBy(actor), limit })
}

type EngineOptions = { filter: SearchFilter; highlight: boolean; offset: number; limit: number; maxResults: number }

const nothing: SearchAnswer = { hits: [], total: 0, isCapped: false, facets: { mime_types: {}, labels: {} } }

async function find(
  app: App,
  actor: Actor,
  { filters, highlight, page, per_page }: Asked,
  typed: Typed,
  ask: (options: EngineOptions) => Promise<SearchAnswer>,
): Promise<Found> {
  const start = performance.now()
  const maxResults = app.config.limits.search_max_results
  const offset = (page - 1) * per_page
  if (offset >= maxResults) throw invalid('page', `only the first ${maxResults} results can be paged through`)
  const warnings = [...typed.warnings]
  const filter = await resolve(app, actor, filters, typed, warnings)
  const limit = Math.min(per_page, maxResults - offset)
  const { hits, total, isCapped, facets } = filter ? await ask({ filter, highlight, offset, limit, maxResults }) : nothing
  return {
    results: hits,
    warnings: [...new Set(warnings)],
    total,
    total_capped: isCapped,
    facets,
    pagination: pageNumbers({ page, per_page }, total),
    took_ms: Math.round((performance.now() - start) * 10) / 10,
  }
}
