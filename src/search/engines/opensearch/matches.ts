/** Runs a query: one page, the number of matches and facets. */
import type { SearchSort } from '../../../ports/search-engine.ts'
import type { Matches, Window } from '../../hits.ts'
import { type Counted, facetsOf } from '../facets.ts'
import type { Cluster, Send } from './cluster.ts'
import type { Query } from './filter.ts'

/** Maximum number of hits of a response: the default of index.max_result_window. More are read with search_after. */
const maxHits = 10_000
const keepAlive = '1m'

export interface Hit {
  readonly _score: number | null
  readonly sort: readonly unknown[]
  readonly fields?: Readonly<Record<string, readonly string[]>>
  readonly matched_queries?: readonly string[]
}

interface Response {
  readonly hits: { readonly total: { readonly value: number }; readonly hits: readonly Hit[] }
}

/** Names of the columns that the order of a search refers to. */
const columns: Readonly<Record<SearchSort['field'], string>> = {
  score: '_score',
  created_at: 'created_at',
  updated_at: 'updated_at',
  title: 'title_order',
  size: 'size',
  ocr_confidence: 'confidence',
  document_date: 'document_date',
}

/** Returns the order of hits; ties are sorted by id. Documents without a value come before all others in ascending order. */
export const orderOf = (sort: readonly SearchSort[]): object[] => [
  ...sort.map(({ field, order }) => ({
    [columns[field]]: field === 'score' ? { order } : { order, missing: order === 'asc' ? '_first' : '_last' },
  })),
  { id: { order: sort[0]!.order } },
]

/** Returns the id of a document from the values that its hit is sorted by, in the order of orderOf(). */
export const idOf = (hit: Hit, sort: readonly SearchSort[]): string => hit.sort[sort.length] as string

/** Returns one page, with total and facets over at most `maxResults` matches. Returns null if the index does not exist. */
export async function match(
  cluster: Cluster,
  index: string,
  query: Query,
  sort: readonly SearchSort[],
  { offset, limit, maxResults }: Window,
): Promise<Matches | null> {
  const body = { query, sort: orderOf(sort), track_scores: true, docvalue_fields: ['mime_type', 'label_names', 'document_date'] }
  const found = await findHits(cluster, index, body, maxResults)
  if (found === null) return null
  const { hits, total } = found
  return {
    page: hits.slice(offset, offset + limit).map((hit) => ({ document_id: idOf(hit, sort), score: scale(hit._score ?? 0) })),
    total: Math.min(total, maxResults),
    isCapped: total > maxResults,
    facets: facetsOf(hits.map(({ fields = {} }) => countedOf(fields))),
  }
}

/** Score of BM25 that is mapped to 0.5. */
const middleScore = 10

/** Maps a score of BM25 to the range from 0 to 1. */
const scale = (score: number): number => score / (score + middleScore)

const countedOf = (fields: Readonly<Record<string, readonly string[]>>): Counted => ({
  mime_type: fields.mime_type![0]!,
  labels: fields.label_names ?? [],
  document_year: fields.document_date ? Number(fields.document_date[0]!.slice(0, 4)) : null,
})

/** Returns the first hits, at most `max`, and the number of all, counted up to `max` + 1. Returns null if the index does not exist. */
export async function findHits(cluster: Cluster, index: string, body: object, max: number): Promise<{ hits: Hit[]; total: number } | null> {
  // Even the id of a document is a stored field, and to read one OpenSearch decompresses its whole block: 0.4 ms for each hit.
  const common = { ...body, _source: false, stored_fields: '_none_', track_total_hits: max + 1 }
  if (max <= maxHits) {
    const query = { allow_partial_search_results: false }
    const response = await cluster.requestExisting<Response>('POST', `/${index}/_search`, { ...common, size: max }, query)
    return response && { hits: [...response.hits.hits], total: response.hits.total.value }
  }
  return cluster.sequence((send) => readFromPointInTime(send, index, common, max))
}

/** Reads hits in several requests from a point in time, a fixed state of the index. If a node that holds part of it fails, it is lost. */
async function readFromPointInTime(send: Send, index: string, body: object, max: number): Promise<{ hits: Hit[]; total: number }> {
  const pit = await send<{ pit_id: string }>('POST', `/${index}/_search/point_in_time`, undefined, {
    keep_alive: keepAlive,
    allow_partial_pit_creation: false,
  })
  try {
    const hits: Hit[] = []
    let total = 0
    for (;;) {
      const size = Math.min(maxHits, max - hits.length)
      const after = hits.length > 0 ? { search_after: hits.at(-1)!.sort } : {}
      const page = { ...body, size, ...after, pit: { id: pit.pit_id, keep_alive: keepAlive } }
      const response = await send<Response>('POST', '/_search', page, { allow_partial_search_results: false })
      hits.push(...response.hits.hits)
      total = Math.max(total, response.hits.total.value)
      if (response.hits.hits.length < size || hits.length >= max) return { hits, total }
    }
  } finally {
    await send('DELETE', '/_search/point_in_time', { pit_id: [pit.pit_id] }).catch(() => {})
  }
}

/** Counts the entries that match a query, or all entries without one. Returns null if the index does not exist. Throws SERVICE_UNAVAILABLE if part of the index is missing. */
export async function countEntries(cluster: Cluster, index: string, query: Query = { match_all: {} }): Promise<number | null> {
  const body = { query, size: 0, track_total_hits: true }
  const response = await cluster.requestExisting<Response>('POST', `/${index}/_search`, body, { allow_partial_search_results: false })
  return response?.hits.total.value ?? null
}
