/** Converts filters to OpenSearch queries. */
import type { SearchFilter } from '../../../ports/search-engine.ts'

/** A query of OpenSearch. */
export type Query = Readonly<Record<string, unknown>>

export const matchNone: Query = { match_none: {} }

/** Returns a query for documents that match any of these queries; without queries, for no document. */
export function anyOf(queries: readonly Query[]): Query {
  if (queries.length === 0) return matchNone
  return queries.length === 1 ? queries[0]! : { bool: { should: queries, minimum_should_match: 1 } }
}

/** Returns a query for documents that match all of these. */
export const allOf = (queries: readonly Query[]): Query => (queries.length === 1 ? queries[0]! : { bool: { filter: queries } })

interface FilterQueries {
  readonly filter: readonly Query[]
  readonly mustNot: readonly Query[]
}

/** Returns the conditions of a filter, which restrict every search to the documents of the owner. */
export function filterOf(filter: SearchFilter): FilterQueries {
  const { ownerId, mimeTypes, notMimeTypes, labelIds, notLabelIds, status, sourceId, from, to, datedFrom, datedTo, minConfidence } = filter
  const terms = (field: string, values: readonly string[]): Query[] => (values.length === 0 ? [] : [{ terms: { [field]: values } }])
  return {
    filter: [
      ...(ownerId === null ? [] : [{ term: { owner_id: ownerId } }]),
      ...(mimeTypes.length === 0 ? [] : [anyOf(mimeTypes.map(ofType))]),
      ...labelIds.map((id) => ({ term: { label_ids: id } })),
      ...terms('status', status),
      ...(sourceId === null ? [] : [{ term: { source_id: sourceId } }]),
      ...range('created_at', from?.getTime(), to?.getTime()),
      ...range('document_date', datedFrom, datedTo),
      ...range('confidence', minConfidence, null),
    ],
    mustNot: [...notMimeTypes.map(ofType), ...terms('label_ids', notLabelIds)],
  }
}

const ofType = (type: string): Query =>
  type.endsWith('/*') ? { prefix: { mime_type: type.slice(0, -1).toLowerCase() } } : { term: { mime_type: type.toLowerCase() } }

function range(field: string, gte: string | number | null | undefined, lte: string | number | null | undefined): Query[] {
  if ((gte ?? null) === null && (lte ?? null) === null) return []
  return [{ range: { [field]: { ...((gte ?? null) === null ? {} : { gte }), ...((lte ?? null) === null ? {} : { lte }) } } }]
}
