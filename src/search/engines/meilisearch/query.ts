/** From terms and filters to what Meilisearch is asked. */
import type { SearchFilter } from '../../../ports/search-engine.ts'
import type { Term } from '../../query/parser.ts'
import { maxTypos } from '../../query/typos.ts'
import { exactAttributes } from './settings.ts'
import { minSizeForTypos, written } from './word-encoding.ts'

/** Meilisearch reads ten words and phrases and forgets the rest. */
const maxTerms = 9

/** Whether Meilisearch can be asked for these terms: it knows no OR, no words in one field among others, and no phrase that goes on; e-mail is both a phrase and a word. */
export const isExpressible = (terms: readonly Term[]): boolean =>
  terms.length <= maxTerms &&
  terms.filter(isBegun).length <= 1 &&
  terms.every(
    ({ field, alternative, joined, parts }) =>
      field === null &&
      !alternative &&
      joined === null &&
      (parts.length === 1 || parts.every(({ offset, prefix }, index) => offset === index && !prefix)),
  ) &&
  !terms.some((term) => isBegun(term) && term.negated)

const isBegun = ({ parts }: Term): boolean => parts.length === 1 && parts[0]!.prefix

export interface Asked {
  readonly q: string
  /** where to look; null: everywhere, also for typos */
  readonly attributes: readonly string[] | null
}

/**
 * In quotation marks Meilisearch takes a word exactly; without, with typos, and the last also as a prefix. So only those stand without that may be mistyped,
 * or the one that is but begun, behind which nothing follows. The latter would still be looked for with typos, but for the attributes.
 */
export function asked(terms: readonly Term[], fuzzy: boolean): Asked {
  const isLoose = ({ parts: [part], quoted, negated }: Term) => fuzzy && !quoted && !negated && maxTypos(part!.text) > 0
  const begun = terms.find(isBegun)
  const rest = terms.filter((term) => term !== begun)
  const loose = rest.filter((term) => term.parts.length === 1 && isLoose(term))
  const exact = rest.filter((term) => !loose.includes(term))
  const word = ({ parts: [part] }: Term) => written(part!.text)
  const phrase = ({ parts, negated }: Term) => `${negated ? '-' : ''}"${parts.map(({ text }) => written(text)).join(' ')}"`
  return {
    // A space behind the last word says that it is whole.
    q: `${[...loose.map(word), ...exact.map(phrase)].join(' ')} ${begun ? word(begun) : ''}`.trimStart(),
    attributes: begun && loose.length === 0 && !isLoose(begun) && word(begun).length >= minSizeForTypos.oneTypo ? exactAttributes : null,
  }
}

/** The filter; null where nothing can pass it. Owners are kept apart here: everything that Meilisearch is asked to find passes through. */
export function filterOf(filter: SearchFilter): string[] | null {
  const { ownerId, mimeTypes, notMimeTypes, labelIds, notLabelIds, status, sourceId, from, to, minConfidence } = filter
  const types = mimeTypes.filter(isPlain)
  if (types.length < Math.min(1, mimeTypes.length) || ![...labelIds, ...status, sourceId ?? '', ownerId ?? ''].every(isPlain)) return null
  return [
    ...(ownerId === null ? [] : [`owner_id = "${ownerId}"`]),
    ...(types.length === 0 ? [] : [`(${types.map(ofType).join(' OR ')})`]),
    ...notMimeTypes.filter(isPlain).map((type) => `NOT ${ofType(type)}`),
    ...labelIds.map((id) => `label_ids = "${id}"`),
    ...notLabelIds.filter(isPlain).map((id) => `NOT label_ids = "${id}"`),
    ...(status.length === 0 ? [] : [`status IN [${status.map((one) => `"${one}"`).join(', ')}]`]),
    ...(sourceId === null ? [] : [`source_id = "${sourceId}"`]),
    ...(from === null ? [] : [`created_at >= ${from.getTime()}`]),
    ...(to === null ? [] : [`created_at <= ${to.getTime()}`]),
    ...(minConfidence === null ? [] : [`confidence >= ${minConfidence}`]),
  ]
}

/** What no document has would have to be quoted: ids, types and states are plain. */
const isPlain = (value: string): boolean => /^[\w.+*/-]*$/.test(value)

const ofType = (type: string): string => (type.endsWith('/*') ? `mime_family = "${type.slice(0, -2)}"` : `mime_type = "${type}"`)
