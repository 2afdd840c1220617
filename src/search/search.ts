/** Searching documents. */
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { DocumentStatus } from '../db/schema.ts'
import { visibleName } from '../documents/access.ts'
import { labelKey } from '../documents/labelling.ts'
import { invalid } from '../errors.ts'
import { isId } from '../http/input.ts'
import { type PageOf, pagination } from '../http/pages.ts'
import type { SearchAnswer, SearchClause, SearchFilter, SearchHit, SearchSort } from '../ports/search.ts'
import { usernameKey } from '../users/fields.ts'
import { parse } from './query.ts'
import { seenBy } from './suggest.ts'
import { earliest, latest, read, type Typed } from './syntax.ts'

export { type Health, type Reindexed, type ReindexOptions, reindex, status } from './reindex.ts'
export { type Suggestion, suggest } from './suggest.ts'

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
  /** what of the query was probably not meant as it was typed */
  warnings: readonly string[]
  total: number
  total_capped: boolean
  facets: { mime_types: Readonly<Record<string, number>>; labels: Readonly<Record<string, number>> }
  pagination: ReturnType<typeof pagination>
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
  const { id } = await visibleName(app.db, actor, documentId)
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
    pagination: pagination({ page, per_page }, total),
    took_ms: Math.round((performance.now() - start) * 10) / 10,
  }
}

/** The filter for the engine, of what was asked and what was typed; null where nothing can pass it. Here and nowhere else users are kept to their own documents. */
async function resolve(app: App, actor: Actor, filters: Filters, typed: Typed, warnings: string[]): Promise<SearchFilter | null> {
  const owners = [...new Set([filters.owner, typed.owner].filter((owner) => owner !== undefined && owner !== null))]
  const ownerIds = [...new Set(await Promise.all(owners.map((owner) => ownerId(app, owner))))]
  const asked = ownerIds[0] ?? null
  if (typed.owner !== null) {
    const meant = ownerIds.at(-1) ?? null
    // Whether there is such a user is nobody's business but an admin's.
    if (!isAdmin(actor) && meant !== actor.id) warnings.push(`owner:${typed.owner} is not you: you find what is yours`)
    if (isAdmin(actor) && meant === null) warnings.push(`owner:${typed.owner} does not exist: nothing is theirs`)
  }
  if (ownerIds.length > 1 || (ownerIds.length > 0 && asked === null)) return null
  if (!isAdmin(actor) && asked !== null && asked !== actor.id) return null
  const wanted = [...(filters.labels ?? []), ...(filters.label_ids ?? []), ...typed.labels]
  const labels = await Promise.all(wanted.map((label) => labelId(app, label)))
  const notLabels = await Promise.all(typed.notLabels.map((label) => labelId(app, label)))
  for (const label of typed.labels.filter((_, nth) => labels.at(nth - typed.labels.length) === null))
    warnings.push(`label:${label} does not exist: nothing carries it`)
  for (const label of typed.notLabels.filter((_, nth) => notLabels[nth] === null))
    warnings.push(`-label:${label} does not exist: nothing carries it`)
  const labelIds = labels.filter((id) => id !== null)
  if (labelIds.length < labels.length) return null
  const mimeTypes = both(filters.mime_types ?? [], typed.types, isTypeOf)
  const status = both(filters.status ?? [], typed.status, (one, other) => one === other)
  if (mimeTypes === null || status === null) return null
  return {
    ownerId: isAdmin(actor) ? asked : actor.id,
    mimeTypes,
    notMimeTypes: typed.notTypes,
    labelIds,
    notLabelIds: notLabels.filter((id) => id !== null),
    status,
    sourceId: filters.source_id?.toLowerCase() ?? null,
    from: latest(filters.date_range?.from ?? null, typed.from),
    to: earliest(filters.date_range?.to ?? null, typed.to),
    minConfidence: filters.min_confidence ?? null,
  }
}

/** What is in both lists, of which an empty one means anything; null where that is nothing. */
function both(
  one: readonly string[],
  other: readonly string[],
  isWithin: (narrow: string, wide: string) => boolean,
): readonly string[] | null {
  if (one.length === 0) return other
  if (other.length === 0) return one
  const narrower = [
    ...one.filter((value) => other.some((wide) => isWithin(value, wide))),
    ...other.filter((value) => one.some((wide) => isWithin(value, wide))),
  ]
  return narrower.length === 0 ? null : [...new Set(narrower)]
}

/** Whether a type is another one, or of a family that is meant by `image/*`. */
const isTypeOf = (type: string, wide: string): boolean => {
  const [narrow, other] = [type.toLowerCase(), wide.toLowerCase()]
  return narrow === other || (other.endsWith('/*') && narrow.startsWith(other.slice(0, -1)))
}

async function ownerId(app: App, owner: string): Promise<string | null> {
  const column = isId(owner) ? 'id' : 'username_key'
  const user = await app.db.selectFrom('users').select('id').where(column, '=', usernameKey(owner)).executeTakeFirst()
  return user?.id ?? null
}

async function labelId(app: App, label: string): Promise<string | null> {
  const column = isId(label) ? 'id' : 'name_key'
  const found = await app.db.selectFrom('labels').select('id').where(column, '=', labelKey(label)).executeTakeFirst()
  return found?.id ?? null
}
