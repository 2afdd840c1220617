/** Converts terms and filters to a Meilisearch query. */
import type { SearchFilter } from '../../../ports/search-engine.ts'
import type { Term } from '../../query/parser.ts'
import { maxTypos } from '../../query/typos.ts'
import { isMistypable } from '../../vocabulary/vocabulary.ts'
import { exactAttributes } from './settings.ts'
import { encodeWord, minSizeForTypos } from './word-encoding.ts'

/** Maximum number of terms. Meilisearch ignores words and phrases after the tenth. */
const maxTerms = 9

/** Returns whether stems of a word, or the word with typos, match too. */
export const hasOtherForms = ({ parts: [part], joined, quoted }: Pick<Term, 'parts' | 'joined' | 'quoted'>): boolean =>
  !quoted && (isMistypable(part!.text) || (joined !== null && isMistypable(joined)))

/**
 * Returns whether Meilisearch can express the terms. It has no OR, no prefixes in phrases, no joined words and no numbers in groups. It does not
 * know in which field two words are neighbors, or are one word without the hyphen or space between them.
 */
export const isExpressible = (terms: readonly Term[]): boolean =>
  terms.length <= maxTerms &&
  terms.filter(isPrefix).length <= 1 &&
  terms.every(
    ({ field, alternative, joined, grouped, parts }) =>
      field === null &&
      !alternative &&
      joined === null &&
      grouped === null &&
      (parts.length === 1 || parts.every(({ offset, prefix }, index) => offset === index && !prefix)),
  ) &&
  !terms.some((term) => isPrefix(term) && term.negated)

const isPrefix = ({ parts }: Term): boolean => parts.length === 1 && parts[0]!.prefix

export interface MeilisearchQuery {
  readonly q: string
  /** attributes to search; null: all, with typo tolerance */
  readonly attributes: readonly string[] | null
}

/**
 * Returns the Meilisearch query of terms. Meilisearch matches quoted words exactly, others with typos, and the last one also as a prefix. All words
 * are therefore quoted except fuzzy words and the prefix. The prefix comes last. `attributes` exclude typos of the prefix.
 */
export function toMeilisearchQuery(terms: readonly Term[], { fuzzy }: { fuzzy: boolean }): MeilisearchQuery {
  const isFuzzy = ({ parts: [part], quoted, negated }: Term) => fuzzy && !quoted && !negated && maxTypos(part!.text) > 0
  const prefix = terms.find(isPrefix)
  const rest = terms.filter((term) => term !== prefix)
  const fuzzyTerms = rest.filter((term) => term.parts.length === 1 && isFuzzy(term))
  const exact = rest.filter((term) => !fuzzyTerms.includes(term))
  const word = ({ parts: [part] }: Term) => encodeWord(part!.text)
  const phrase = ({ parts, negated }: Term) => `${negated ? '-' : ''}"${parts.map(({ text }) => encodeWord(text)).join(' ')}"`
  return {
    // After a space the last word is no prefix.
    q: `${[...fuzzyTerms.map(word), ...exact.map(phrase)].join(' ')} ${prefix ? word(prefix) : ''}`.trimStart(),
    attributes:
      prefix && fuzzyTerms.length === 0 && !isFuzzy(prefix) && word(prefix).length >= minSizeForTypos.oneTypo ? exactAttributes : null,
  }
}

/** Returns the filter expressions, which restrict every search to the owner's documents; null if no document can pass. */
export function filterOf(filter: SearchFilter): string[] | null {
  const { ownerId, mimeTypes, notMimeTypes, labelIds, notLabelIds, status, sourceId, from, to, datedFrom, datedTo, minConfidence } = filter
  const types = mimeTypes.filter(isUnescaped)
  if (types.length < Math.min(1, mimeTypes.length) || ![...labelIds, ...status, sourceId ?? '', ownerId ?? ''].every(isUnescaped))
    return null
  return [
    ...(ownerId === null ? [] : [`owner_id = "${ownerId}"`]),
    ...(types.length === 0 ? [] : [`(${types.map(ofType).join(' OR ')})`]),
    ...notMimeTypes.filter(isUnescaped).map((type) => `NOT ${ofType(type)}`),
    ...labelIds.map((id) => `label_ids = "${id}"`),
    ...notLabelIds.filter(isUnescaped).map((id) => `NOT label_ids = "${id}"`),
    ...(status.length === 0 ? [] : [`status IN [${status.map((one) => `"${one}"`).join(', ')}]`]),
    ...(sourceId === null ? [] : [`source_id = "${sourceId}"`]),
    ...(from === null ? [] : [`created_at >= ${from.getTime()}`]),
    ...(to === null ? [] : [`created_at <= ${to.getTime()}`]),
    ...(datedFrom === null ? [] : [`document_date >= ${Date.parse(datedFrom)}`]),
    ...(datedTo === null ? [] : [`document_date <= ${Date.parse(datedTo)}`]),
    ...(minConfidence === null ? [] : [`confidence >= ${minConfidence}`]),
  ]
}

/** Returns whether a value needs no escaping. All ids, media types and states of documents need none. */
export const isUnescaped = (value: string): boolean => /^[\w.+*/-]*$/.test(value)

const ofType = (type: string): string => (type.endsWith('/*') ? `mime_family = "${type.slice(0, -2)}"` : `mime_type = "${type}"`)
