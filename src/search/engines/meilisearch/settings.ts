/** How an index of Meilisearch is set up. */
import type { Settings } from 'meilisearch'
import { maxLists, maxParts } from './document.ts'
import { minSizeForTypos } from './word-encoding.ts'

const numbered = (name: string, count: number): string[] => Array.from({ length: count }, (_, index) => `${name}_${index}`)

/** Where words are found as they are typed, what weighs most first. */
export const exactAttributes = ['title', 'label_words', 'filename', ...numbered('content', maxParts), ...numbered('joined', maxLists)]

/** `maxResults`: limits.search_max_results */
export const settings = (maxResults: number): Settings => ({
  searchableAttributes: [...exactAttributes, ...numbered('loose', maxLists)],
  filterableAttributes: [
    'confidence',
    'created_at',
    'label_ids',
    'labels',
    'mime_family',
    'mime_type',
    'owner_id',
    'source_id',
    'status',
    'version',
  ],
  displayedAttributes: ['id', 'labels', 'mime_type'],
  rankingRules: ['words', 'typo', 'attribute', 'proximity', 'exactness', 'sequence:desc'],
  typoTolerance: { enabled: true, minWordSizeForTypos: minSizeForTypos, disableOnAttributes: exactAttributes.toSorted() },
  // One more than can be had tells that there are more.
  pagination: { maxTotalHits: maxResults + 1 },
  faceting: { maxValuesPerFacet: 1000 },
  // Words come folded: what builds of Meilisearch know of single languages would make them differ.
  localizedAttributes: [{ attributePatterns: ['*'], locales: ['eng'] }],
  facetSearch: false,
})

/** Whether everything in `wanted` is so in `found`, which may hold more. */
export function isSet(wanted: unknown, found: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null) return wanted === found
  if (typeof found !== 'object' || found === null) return false
  if (Array.isArray(wanted) && (!Array.isArray(found) || wanted.length !== found.length)) return false
  return Object.entries(wanted).every(([key, value]) => isSet(value, (found as Record<string, unknown>)[key]))
}
