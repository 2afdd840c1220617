/** Interface of search engines. */
import type { DocumentStatus } from '../db/schema-documents.ts'
import { AppError } from '../errors.ts'

/**
 * Filter of documents. Any value of `mimeTypes` and `status` matches, all of `labelIds`, none of `not…`. Empty lists match everything. A type
 * may be a wildcard: `image/*`.
 */
export interface SearchFilter {
  /** Owner of the documents; null for all. Engines must never ignore it, because it isolates users. */
  readonly ownerId: string | null
  readonly mimeTypes: readonly string[]
  readonly notMimeTypes: readonly string[]
  readonly labelIds: readonly string[]
  readonly notLabelIds: readonly string[]
  readonly status: readonly string[]
  readonly sourceId: string | null
  /** Range of created_at, inclusive. */
  readonly from: Date | null
  readonly to: Date | null
  /** Range of document_date, inclusive, YYYY-MM-DD. */
  readonly datedFrom: string | null
  readonly datedTo: string | null
  /** Minimum OCR confidence, 0 to 1. Documents without a confidence do not match. */
  readonly minConfidence: number | null
}

/** Filter that matches all documents of all users. */
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
  datedFrom: null,
  datedTo: null,
  minConfidence: null,
}

export interface SearchQuery {
  /** Query for parse() of src/search/query/parser.ts, without filters. */
  readonly text: string
  /** Tolerates typos. */
  readonly fuzzy: boolean
  readonly highlight: boolean
  readonly filter: SearchFilter
  readonly offset: number
  readonly limit: number
  /** Maximum number of matches that are ranked and counted. */
  readonly maxResults: number
}

/** Condition on a field. `any` is title, filename, content and labels. */
export interface SearchClause {
  readonly field: SearchField
  readonly value: string
  /**
   * `match`: words in any order. `contains`: part of the text, ignoring case and accents. `exact`: the whole field, ignoring case, or the phrase
   * for `content` and `any`.
   */
  readonly type: 'match' | 'contains' | 'exact'
}

export type SearchField = 'any' | 'title' | 'content' | 'filename' | 'labels' | 'mime_type' | 'status' | 'source_id' | `metadata.${string}`

export interface SearchSort {
  readonly field: 'score' | 'created_at' | 'updated_at' | 'title' | 'size' | 'ocr_confidence' | 'document_date'
  readonly order: 'asc' | 'desc'
}

/**
 * All of `must` match and none of `mustNot`. Without `must`, at least one of `should` matches; with it, `should` only adds to the score. A query
 * without clauses matches every document.
 */
export interface AdvancedQuery extends Omit<SearchQuery, 'text' | 'fuzzy'> {
  readonly must: readonly SearchClause[]
  readonly should: readonly SearchClause[]
  readonly mustNot: readonly SearchClause[]
  /** At least one sort key. Ties are sorted by id. */
  readonly sort: readonly SearchSort[]
}

export interface SearchHit {
  readonly document_id: string
  readonly title: string
  readonly filename: string
  readonly mime_type: string
  readonly status: DocumentStatus
  readonly labels: readonly string[]
  /** 0 to 1 */
  readonly score: number
  readonly created_at: Date
  /** YYYY-MM-DD */
  readonly document_date: string | null
  /** `snippet` is HTML with <mark> as its only element. */
  readonly highlights: readonly { readonly field: string; readonly snippet: string }[]
}

export interface SearchAnswer {
  /** Hits by descending score. */
  readonly hits: readonly SearchHit[]
  /** Number of matches, at most maxResults. */
  readonly total: number
  /** There are more matches than `total`. */
  readonly isCapped: boolean
  /** Counts by name over the matches in `total`. */
  readonly facets: Readonly<Record<'mime_types' | 'labels' | 'years', Readonly<Record<string, number>>>>
}

/** Answer without matches. */
export const noHits: SearchAnswer = { hits: [], total: 0, isCapped: false, facets: { mime_types: {}, labels: {}, years: {} } }

/** Query for documents similar to one. */
export interface SimilarQuery {
  readonly documentId: string
  readonly filter: SearchFilter
  readonly limit: number
}

export interface IndexStatus {
  /** Name of the current index in the engine. */
  readonly index: string
  /** Number of entries in the current format. */
  readonly documents: number
  /** Number of entries in an older format, which searches may find by fewer words. */
  readonly outdated: number
  /** Number of the current format. */
  readonly version: number
  /** Time of the last change; null if the engine does not report it. */
  readonly updatedAt: Date | null
  /** Number of documents without an entry. An engine that only counts entries nets it against `extra`. */
  readonly missing: number
  /** Number of entries without a document. */
  readonly extra: number
}

/** Fault of an entry: it is missing, its document is gone (extra), or its words are outdated (stale). */
export interface EntryFault {
  readonly document_id: string
  readonly problem: 'missing' | 'extra' | 'stale'
  /** Words, or values such as `label:…`, in the entry but not in the document. */
  readonly left: readonly string[]
  /** Words and values in the document but not in the entry. */
  readonly lacks: readonly string[]
}

/** Contents of an index for its verification. */
export interface IndexContents {
  /** Name of the engine. */
  readonly engine: string
  /** Returns the ids of all entries in batches, in any order. Concurrent changes may be missing. */
  ids(): AsyncIterable<readonly string[]>
  /** Returns faults of the entries of these documents. An older format is no fault. Concurrent changes may appear as faults. */
  faults(ids: readonly string[]): Promise<readonly EntryFault[]>
}

/** Details of an error that may soon be over. */
export const retryLater = { retry_after_secs: 5 }

/** The engine is available but failed to process an operation. */
export class SearchFailure extends AppError {
  constructor(reason: string) {
    super('SERVICE_UNAVAILABLE', retryLater, `The search engine failed: ${reason}`)
  }
}

export const engineUnreachable = (cause: Error): AppError =>
  Object.assign(new AppError('SERVICE_UNAVAILABLE', retryLater, 'The search engine is out of reach.'), { cause })

/** Rebuild of the index. The current one answers searches until swap(). */
export interface IndexRebuild {
  /** Name of the old index if it can be kept. */
  readonly keptAs?: string
  /** Errors of documents that cannot be indexed, by id. The new index lacks them. */
  readonly omitted?: ReadonlyMap<string, unknown>
  /**
   * Updates the new index with these documents, first all in ascending order of ids, then changed ones, also after swap(). The next call or
   * complete() may report a failure. Throws the reason of `signal`, possibly in the middle of the documents.
   */
  put(documentIds: readonly string[], signal?: AbortSignal): Promise<void>
  /** Waits until all updates are searchable. Returns the number of documents in the new index. Throws the reason of `signal`. */
  complete(signal?: AbortSignal): Promise<number>
  /** Replaces the current index atomically. Deletes the old one; with `keepOld`, only the next rebuild does. */
  swap(options?: { keepOld?: boolean }): Promise<void>
  /** Deletes the new index. Has no effect after swap(). */
  discard(): Promise<void>
}

/**
 * Search engine. It receives ids and reads the documents itself: updates may be late, repeated or reordered. Every function throws AppError
 * SERVICE_UNAVAILABLE while the engine is unavailable; the index job is then retried.
 */
export interface SearchEngine {
  readonly name: string
  /**
   * Updates the entries of these documents and removes those of deleted ones. Resolves when searches reflect it. If several processes update one
   * document, the last writer has read the latest version: a deleted document never reappears.
   */
  refresh(documentIds: readonly string[]): Promise<void>
  /** Returns one page of the matches of a query. */
  search(query: SearchQuery): Promise<SearchAnswer>
  /** Returns one page of the documents that match conditions on fields, in the requested order. */
  advanced(query: AdvancedQuery): Promise<SearchAnswer>
  /** Returns the most similar documents by descending score, without highlights. Returns none if the document is not in the index. */
  similar(query: SimilarQuery): Promise<readonly SearchHit[]>
  /** Returns the number of entries in the current format. */
  count(): Promise<number>
  status(): Promise<IndexStatus>
  /** Returns the contents of the current index and of the indexes that it depends on. */
  contents(): readonly IndexContents[]
  /** Starts a rebuild and removes remains of an interrupted one. The caller must hold the lock `search.reindex`. */
  rebuild(): Promise<IndexRebuild>
  /** Makes searches faster by work that was put off while documents were indexed. Takes minutes if there is any. */
  optimize(): Promise<void>
  /** Throws if the engine is unavailable. */
  check(): Promise<void>
}
