/** Settings of a Meilisearch index. */
import type { Settings } from 'meilisearch'
import { maxLists, maxParts } from './document.ts'
import { minSizeForTypos } from './word-encoding.ts'

const numbered = (name: string, count: number): string[] => Array.from({ length: count }, (_, index) => `${name}_${index}`)

/** Attributes without typo tolerance, the most relevant first. */
export const exactAttributes = ['title', 'label_words', 'filename', ...numbered('content', maxParts), ...numbered('joined', maxLists)]

/** Returns the settings. `maxResults`: limits.search_max_results. */
export const settings = (maxResults: number): Settings => ({
  searchableAttributes: [...exactAttributes, ...numbered('loose', maxLists)],
  filterableAttributes: [
    'confidence',
    'created_at',
    'document_date',
    'document_year',
    'label_ids',
    'labels',
    'mime_family',
    'mime_type',
    'owner_id',
    'source_id',
    'status',
    'version',
  ],
  displayedAttributes: ['document_year', 'id', 'labels', 'mime_type'],
  rankingRules: ['words', 'typo', 'attribute', 'proximity', 'exactness', 'sequence:desc'],
  typoTolerance: { enabled: true, minWordSizeForTypos: minSizeForTypos, disableOnAttributes: exactAttributes.toSorted() },
  // One more than the limit detects further matches.
  pagination: { maxTotalHits: maxResults + 1 },
  faceting: { maxValuesPerFacet: 1000 },
  // Words are normalized already. Language support differs between builds of Meilisearch.
  localizedAttributes: [{ attributePatterns: ['*'], locales: ['eng'] }],
  facetSearch: false,
})

/** Returns whether `current` contains all settings of `expected`. */
export function includesSettings(expected: unknown, current: unknown): boolean {
  if (typeof expected !== 'object' || expected === null) return expected === current
  if (typeof current !== 'object' || current === null) return false
  if (Array.isArray(expected) && (!Array.isArray(current) || expected.length !== current.length)) return false
  return Object.entries(expected).every(([key, value]) => includesSettings(value, (current as Record<string, unknown>)[key]))
}
