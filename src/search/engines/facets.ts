/** Facets: counts of the values of matches. */
import type { SearchAnswer } from '../../ports/search-engine.ts'

export interface Counted {
  readonly mime_type: string
  readonly labels: readonly string[]
  readonly document_year?: number | null
}

/** Counts the values of matches. */
export function facetsOf(matches: readonly Counted[]): SearchAnswer['facets'] {
  const count = (values: readonly string[]) => {
    const counts = new Map<string, number>()
    for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
    return sortCounts(Object.fromEntries(counts))
  }
  return {
    mime_types: count(matches.map(({ mime_type }) => mime_type)),
    labels: count(matches.flatMap(({ labels }) => labels)),
    years: count(matches.flatMap(({ document_year }) => (document_year ? [String(document_year)] : []))),
  }
}

/** Sorts counts, the largest first. */
export const sortCounts = (counts: Readonly<Record<string, number>> = {}): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).sort(([one, many], [other, more]) => more - many || (one < other ? -1 : 1)))
