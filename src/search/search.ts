/** Searches documents. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { requireDocumentName } from '../documents/access.ts'
import { invalid } from '../errors.ts'
import { type PageRequest, pageNumbers } from '../http/pages.ts'
import { noHits, type SearchAnswer, type SearchClause, type SearchFilter, type SearchHit, type SearchSort } from '../ports/search-engine.ts'
import { type Filters, resolveFilter, visibleTo } from './query/filters.ts'
import { parse } from './query/parser.ts'
import { type ParsedQuery, parseQualifiers } from './query/qualifiers.ts'

export { type IndexHealth, type ReindexOptions, type ReindexResult, reindex, status } from './reindex.ts'
export { type Suggestion, suggest } from './suggest.ts'

interface SearchOptions extends PageRequest {
  filters: Filters
  highlight: boolean
}

export interface Search extends SearchOptions {
  q: string
  fuzzy: boolean
  /** if no document has all words: tolerates typos, then one missing word; see `relaxed` */
  relax?: boolean
}

/** A boolean query; see AdvancedQuery of the port. */
export interface AdvancedSearch extends SearchOptions {
  must: readonly SearchClause[]
  should: readonly SearchClause[]
  must_not: readonly SearchClause[]
  sort: readonly SearchSort[]
}

export interface SearchResults {
  results: readonly SearchHit[]
  /** probable mistakes in the query */
  warnings: readonly string[]
  /** Why documents without all words were found. */
  relaxed?: Relaxation
  total: number
  total_capped: boolean
  facets: {
    mime_types: Readonly<Record<string, number>>
    labels: Readonly<Record<string, number>>
    years: Readonly<Record<string, number>>
  }
  pagination: ReturnType<typeof pageNumbers>
  took_ms: number
}

export const relaxations = ['typos', 'missing_word'] as const
type Relaxation = (typeof relaxations)[number]

const relaxationWarnings: Readonly<Record<Relaxation, string>> = {
  typos: 'no document has all words: words with typos were searched',
  missing_word: 'no document has all words: documents without one of them were searched, also with typos',
}

/** Returns the matching documents that the actor may see, best first. Throws VALIDATION_ERROR for a page past the limit, SERVICE_UNAVAILABLE. */
export async function search(app: App, actor: Actor, { q, fuzzy, relax = false, ...options }: Search): Promise<SearchResults> {
  const parsed = parseQualifiers(q)
  const isWordless = parse(parsed.text).length === 0
  const isListing = parsed.isFiltered && isWordless
  const hasOnlyPunctuation = isWordless && (parsed.text !== '' || !parsed.isFiltered)
  const warnings = hasOnlyPunctuation
    ? [...parsed.warnings, `the query has no word${isListing ? ' apart from its filters' : ': no document matches'}`]
    : parsed.warnings
  const isRelaxable = relax && warnings.length === 0
  return find(app, actor, options, { ...parsed, warnings }, async (options) => {
    if (isListing) return app.search.advanced({ ...options, ...noConditions })
    const answer = await app.search.search({ ...options, text: parsed.text, fuzzy })
    const words = isRelaxable && answer.total === 0 ? plainWords(parsed) : null
    return (words && (await searchRelaxed(app, words, options))) ?? answer
  })
}

/** Searches for documents with typos of the words, then for documents without one of the words. Returns null if there are none. */
async function searchRelaxed(app: App, words: readonly string[], options: EngineOptions): Promise<FoundDocuments | null> {
  const attempts: [Relaxation, string | null][] = [
    ['typos', words.join(' ')],
    ['missing_word', withoutOne(words)],
  ]
  for (const [relaxed, text] of attempts) {
    const answer = text === null ? null : await app.search.search({ ...options, text, fuzzy: true })
    if (answer && answer.total > 0) return { ...answer, relaxed }
  }
  return null
}

/** A query of filters only: all documents that pass them. */
const noConditions = { must: [], should: [], mustNot: [], sort: [{ field: 'score', order: 'desc' }] } as const

/** Searches by conditions on fields, in the requested order. Throws VALIDATION_ERROR for a page past the limit, SERVICE_UNAVAILABLE. */
export const advanced = (app: App, actor: Actor, { must, should, must_not, sort, ...options }: AdvancedSearch): Promise<SearchResults> =>
  find(app, actor, options, parseQualifiers(''), (options) => app.search.advanced({ ...options, must, should, mustNot: must_not, sort }))

/** Returns the documents most similar to one, best first. Throws DOCUMENT_NOT_FOUND, SERVICE_UNAVAILABLE. */
export async function similar(app: App, actor: Actor, documentId: string, limit: number): Promise<readonly SearchHit[]> {
  const { id } = await requireDocumentName(app.db, actor, documentId)
  return app.search.similar({ documentId: id, filter: visibleTo(actor), limit })
}

type EngineOptions = { filter: SearchFilter; highlight: boolean; offset: number; limit: number; maxResults: number }

interface FoundDocuments extends SearchAnswer {
  readonly relaxed?: Relaxation
}

async function find(
  app: App,
  actor: Actor,
  { filters, highlight, page, per_page }: SearchOptions,
  parsed: ParsedQuery,
  query: (options: EngineOptions) => Promise<FoundDocuments>,
): Promise<SearchResults> {
  const start = performance.now()
  const maxResults = app.config.limits.search_max_results
  const offset = (page - 1) * per_page
  if (offset >= maxResults) throw invalid('page', `only the first ${maxResults} results have pages`)
  const warnings = [...parsed.warnings]
  const filter = await resolveFilter(app, actor, filters, parsed, warnings)
  const limit = Math.min(per_page, maxResults - offset)
  const found: FoundDocuments = filter ? await query({ filter, highlight, offset, limit, maxResults }) : noHits
  const { hits, total, isCapped, facets, relaxed } = found
  return {
    results: hits,
    warnings: [...new Set(relaxed ? [...warnings, relaxationWarnings[relaxed]] : warnings)],
    ...(relaxed && { relaxed }),
    total,
    total_capped: isCapped,
    facets,
    pagination: pageNumbers({ page, per_page }, total),
    took_ms: Math.round((performance.now() - start) * 10) / 10,
  }
}

/** Number of words below which every word matters. */
const minWords = 3
/** Number of words above which none is left out: each pair of words becomes a condition. */
const maxWords = 8

/** Returns the words of a query of at least three plain words; null for one with operators, phrases, fields or filters. */
function plainWords({ text, isFiltered }: ParsedQuery): string[] | null {
  const words = [...new Set(text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)))]
  const terms = parse(text)
  const isPlain = terms.every(({ negated, quoted, field, alternative }) => !negated && !quoted && field === null && !alternative)
  return !isFiltered && isPlain && words.length >= minWords && terms.length === words.length ? words : null
}

/** Returns a query for documents that lack at most one of the words: of every two words, one must match. Returns null for too many words. */
function withoutOne(words: readonly string[]): string | null {
  if (words.length > maxWords) return null
  return words.flatMap((one, nth) => words.slice(nth + 1).map((other) => `${one} OR ${other}`)).join(' ')
}
