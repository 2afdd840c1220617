/** What we ask of a search engine. */
import { AppError } from '../errors.ts'

/** What documents must be like besides their words. Several values of `mimeTypes` or `status` mean any of them, of `labelIds` all; `not…`: none of them; empty: no matter. A type may be a family: `image/*`. */
export interface SearchFilter {
  /** null: everybody's. The one thing that keeps users apart: engines must never widen it. */
  readonly ownerId: string | null
  readonly mimeTypes: readonly string[]
  readonly notMimeTypes: readonly string[]
  readonly labelIds: readonly string[]
  readonly notLabelIds: readonly string[]
  readonly status: readonly string[]
  readonly sourceId: string | null
  /** of created_at, both inclusive */
  readonly from: Date | null
  readonly to: Date | null
  /** 0 to 1; documents without any do not reach it */
  readonly minConfidence: number | null
}

/** Every document, of everybody. */
export const noFilter: SearchFilter = {
  ownerId: null,
  mimeTypes: [],
  notMimeTypes: [],
  labelIds: [],
  notLabelIds: [],
  status: [],
  sourceId: null,
  from: null,
  to: null,
  minConfidence: null,
}

export interface SearchQuery {
  /** words, "phrases", -not, one OR other, title:word: what parse() of src/search/query/parser.ts reads; whatever of a query is a filter has become one */
  readonly text: string
  /** whether typos are tolerated */
  readonly fuzzy: boolean
  readonly highlight: boolean
  readonly filter: SearchFilter
  readonly offset: number
  readonly limit: number
  /** matches that are ranked and counted, at most */
  readonly maxResults: number
}

/** One condition on one field. `any` is title, filename, content and labels together. */
export interface SearchClause {
  readonly field: SearchField
  readonly value: string
  /** `match`: its words, in any order; `contains`: a piece of the text, no case, no accents; `exact`: the whole field, no case (of content and any: the phrase) */
  readonly type: 'match' | 'contains' | 'exact'
}

export type SearchField = 'any' | 'title' | 'content' | 'filename' | 'labels' | 'mime_type' | 'status' | 'source_id' | `metadata.${string}`

export interface SearchSort {
  readonly field: 'score' | 'created_at' | 'updated_at' | 'title' | 'size' | 'ocr_confidence'
  readonly order: 'asc' | 'desc'
}

/** All of `must`; at least one of `should` where there is no `must`, else they only add to the score; none of `mustNot`. No clause at all: every document. */
export interface AdvancedQuery extends Omit<SearchQuery, 'text' | 'fuzzy'> {
  readonly must: readonly SearchClause[]
  readonly should: readonly SearchClause[]
  readonly mustNot: readonly SearchClause[]
  /** at least one; what is equal in all of them is in the order of ids */
  readonly sort: readonly SearchSort[]
}

export interface SearchHit {
  readonly document_id: string
  readonly title: string
  readonly filename: string
  readonly mime_type: string
  /** 0 to 1 */
  readonly score: number
  readonly created_at: Date
  /** `snippet` is HTML with <mark> as its only markup */
  readonly highlights: readonly { readonly field: string; readonly snippet: string }[]
}

export interface SearchAnswer {
  /** best first */
  readonly hits: readonly SearchHit[]
  /** at most maxResults */
  readonly total: number
  /** there are more than `total` */
  readonly isCapped: boolean
  /** over the matches that `total` counts: name -> how many */
  readonly facets: { readonly mime_types: Readonly<Record<string, number>>; readonly labels: Readonly<Record<string, number>> }
}

/** Documents that are like one. */
export interface SimilarQuery {
  readonly documentId: string
  readonly filter: SearchFilter
  readonly limit: number
}

export interface IndexStatus {
  /** what the index in force is called where it lives */
  readonly index: string
  /** of its entries, those in the form that this version of dms writes */
  readonly documents: number
  /** those in an older form: still found, perhaps by less */
  readonly outdated: number
  /** the form that this version of dms writes; goes up when that changes */
  readonly version: number
  /** when the index was made or changed last, as far as the engine knows; null where it does not */
  readonly updatedAt: Date | null
  /** documents without an entry. Where entries are counted and not compared, one of these hides one of `extra`. */
  readonly missing: number
  /** entries without a document */
  readonly extra: number
}

/** What is wrong with the entry of a document: there is none; the document is gone; or it was written from other words. */
export interface EntryFault {
  readonly document_id: string
  readonly problem: 'missing' | 'extra' | 'stale'
  /** words by which it is found and should not be, or values, as `label:…` */
  readonly left: readonly string[]
  /** those by which it should be found */
  readonly lacks: readonly string[]
}

/** An index as it is looked through for what is wrong in it. */
export interface IndexContents {
  /** the engine that it is of */
  readonly engine: string
  /** The ids of all its entries, some at a time and in no order; what comes or goes meanwhile may be left out. */
  ids(): AsyncIterable<readonly string[]>
  /** What is wrong with the entries of these. One in an older form is right: status() tells of it. What changes meanwhile may seem wrong. */
  faults(ids: readonly string[]): Promise<readonly EntryFault[]>
}

/** The engine is there and could not do what it was told; with other documents it may. */
export class SearchFailure extends AppError {
  constructor(why: string) {
    super('SERVICE_UNAVAILABLE', {}, `The search engine failed: ${why}`)
  }
}

/** A new index in the making, beside the one in force, which answers all searches until the swap. */
export interface IndexRebuild {
  /** what the old index is called where it is kept; absent where it cannot be */
  readonly keptAs?: string
  /** Brings the new index up to date with these documents, as refresh() does with the one in force: again for what changes meanwhile, also after swap(). In ascending order of ids the first time. What fails may be said by the next call, or by settle(). */
  put(documentIds: readonly string[]): Promise<void>
  /** Waits until all that was put can be found; how many documents the new index has then. */
  settle(): Promise<number>
  /** Puts the new index into force, at once and for everybody; the old one is gone, or with `keepOld` stays as it is until the next rebuild. */
  swap(keepOld?: boolean): Promise<void>
  /** Throws the new index away; harmless after swap(). */
  discard(): Promise<void>
}

/**
 * Finds documents. Knows their ids and reads the rest itself, so that index changes can be done late, twice, or in any order.
 * While the engine is out of reach every verb throws AppError SERVICE_UNAVAILABLE; what was to be indexed is asked for again until it is done.
 */
export interface SearchEngine {
  readonly name: string
  /**
   * Brings the index in force up to date with these documents: what exists is put, what does not is removed. Resolves once searches find it so.
   * Of two at the same time for one document, also in two processes, the last to write has read the latest: a deleted document never comes back.
   */
  refresh(documentIds: readonly string[]): Promise<void>
  /** Returns one page of the matches of a query. */
  search(query: SearchQuery): Promise<SearchAnswer>
  /** Returns one page of the documents that meet conditions on fields, in the requested order. */
  advanced(query: AdvancedQuery): Promise<SearchAnswer>
  /** The documents most like one by their words, best first, without itself and without highlights. None where it is not in the index. */
  similar(query: SimilarQuery): Promise<readonly SearchHit[]>
  /** How many documents are in the index, in the form that this version of dms writes. */
  count(): Promise<number>
  status(): Promise<IndexStatus>
  /** The index in force, and those that it needs besides. */
  contents(): readonly IndexContents[]
  /** Begins a new index; what an interrupted rebuild left behind is removed first. One at a time: the caller holds the lock `search.reindex`. */
  rebuild(): Promise<IndexRebuild>
  /** Throws where it cannot answer now. */
  check(): Promise<void>
}
