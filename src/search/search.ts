/** Searching documents. */
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { DocumentStatus } from '../db/schema.ts'
import { invalid } from '../errors.ts'
import { isId } from '../http/input.ts'
import { type PageOf, pagination } from '../http/pages.ts'
import type { SearchAnswer, SearchClause, SearchFilter, SearchHit, SearchSort } from '../ports.ts'

export { type Health, type Reindexed, type ReindexOptions, reindex, status } from './reindex.ts'

/** As a client names them: labels by id or by name (no case), the owner by id or user name. */
export interface Filters {
  mime_types?: readonly string[] | undefined
  labels?: readonly string[] | undefined
  label_ids?: readonly string[] | undefined
  status?: readonly DocumentStatus[] | undefined
  source_id?: string | undefined
  date_range?: { from?: Date | undefined; to?: Date | undefined } | undefined
  min_confidence?: number | undefined
  owner?: string | undefined
}

interface Asked extends PageOf {
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
  total: number
  total_capped: boolean
  facets: { mime_types: Readonly<Record<string, number>>; labels: Readonly<Record<string, number>> }
  pagination: ReturnType<typeof pagination>
  took_ms: number
}

/** What the actor may see and matches, best first. Throws VALIDATION_ERROR for a page past the window, SERVICE_UNAVAILABLE. */
export const search = (app: App, actor: Actor, { q, fuzzy, ...asked }: Search): Promise<Found> =>
  find(app, actor, asked, (options) => app.search.search({ ...options, text: q, fuzzy }))

/** The same by conditions on fields, in the order that is asked for. Throws as search() does. */
export const advanced = (app: App, actor: Actor, { must, should, must_not, sort, ...asked }: AdvancedSearch): Promise<Found> =>
  find(app, actor, asked, (options) => app.search.advanced({ ...options, must, should, mustNot: must_not, sort }))

type EngineOptions = { filter: SearchFilter; highlight: boolean; offset: number; limit: number; maxResults: number }

const nothing: SearchAnswer = { hits: [], total: 0, isCapped: false, facets: { mime_types: {}, labels: {} } }

async function find(
  app: App,
  actor: Actor,
  { filters, highlight, page, per_page }: Asked,
  ask: (options: EngineOptions) => Promise<SearchAnswer>,
): Promise<Found> {
  const start = performance.now()
  const maxResults = app.config.limits.search_max_results
  const offset = (page - 1) * per_page
  if (offset >= maxResults) throw invalid('page', `only the first ${maxResults} results can be paged through`)
  const filter = await resolve(app, actor, filters)
  const limit = Math.min(per_page, maxResults - offset)
  const { hits, total, isCapped, facets } = filter ? await ask({ filter, highlight, offset, limit, maxResults }) : nothing
  return {
    results: hits,
    total,
    total_capped: isCapped,
    facets,
    pagination: pagination({ page, per_page }, total),
    took_ms: Math.round((performance.now() - start) * 10) / 10,
  }
}

/** The filter for the engine; null where nothing can pass it. Here and nowhere else users are kept to their own documents. */
async function resolve(app: App, actor: Actor, filters: Filters): Promise<SearchFilter | null> {
  const asked = filters.owner === undefined ? null : await ownerId(app, filters.owner)
  if (filters.owner !== undefined && asked === null) return null
  if (!isAdmin(actor) && asked !== null && asked !== actor.id) return null
  const labels = await Promise.all([...(filters.labels ?? []), ...(filters.label_ids ?? [])].map((label) => labelId(app, label)))
  const labelIds = labels.filter((id) => id !== null)
  if (labelIds.length < labels.length) return null
  return {
    ownerId: isAdmin(actor) ? asked : actor.id,
    mimeTypes: filters.mime_types ?? [],
    notMimeTypes: [],
    labelIds,
    notLabelIds: [],
    status: filters.status ?? [],
    sourceId: filters.source_id?.toLowerCase() ?? null,
    from: filters.date_range?.from ?? null,
    to: filters.date_range?.to ?? null,
    minConfidence: filters.min_confidence ?? null,
  }
}

async function ownerId(app: App, owner: string): Promise<string | null> {
  const column = isId(owner) ? 'id' : 'username_key'
  const user = await app.db.selectFrom('users').select('id').where(column, '=', owner.toLowerCase()).executeTakeFirst()
  return user?.id ?? null
}

async function labelId(app: App, label: string): Promise<string | null> {
  const column = isId(label) ? 'id' : 'name_key'
  const found = await app.db.selectFrom('labels').select('id').where(column, '=', label.toLowerCase()).executeTakeFirst()
  return found?.id ?? null
}
