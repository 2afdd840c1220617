/** Translates conditions on fields into Meilisearch terms and filter expressions. */
import type { AdvancedQuery, SearchClause } from '../../../ports/search-engine.ts'
import { phraseOf, type Term, termsOf } from '../../query/parser.ts'
import { hasOtherForms, isExpressible, isUnescaped } from './query.ts'

export interface Conditions {
  readonly terms: readonly Term[]
  readonly filter: readonly string[]
}

const filterable = ['mime_type', 'status', 'source_id']

/** Returns null for conditions that Meilisearch cannot express: alternatives, parts of texts, words in one field, metadata, stems, and another order than by score. */
export function conditionsOf({ must, should, mustNot, sort }: AdvancedQuery): Conditions | null {
  const [first, second] = sort
  if (first?.field !== 'score' || first.order !== 'desc' || second) return null
  // A single alternative is a required condition.
  if (should.length > (must.length === 0 ? 1 : 0)) return null
  const all = [
    ...[...must, ...should].map((clause) => compile(clause, { negated: false })),
    ...mustNot.map((clause) => compile(clause, { negated: true })),
  ]
  if (!all.every((one) => one !== null)) return null
  const terms = all.flatMap(({ terms }) => terms)
  return isExpressible(terms) ? { terms, filter: all.flatMap(({ filter }) => filter) } : null
}

function compile({ field, type, value }: SearchClause, { negated }: { negated: boolean }): Conditions | null {
  if (filterable.includes(field))
    return type === 'exact' && isUnescaped(value) ? { terms: [], filter: [`${negated ? 'NOT ' : ''}${field} = "${value}"`] } : null
  if (field !== 'any') return null
  const phrase = type === 'exact' ? phraseOf(value) : null
  const words = type === 'match' ? termsOf(value) : phrase ? [phrase] : []
  const terms = words.map((term) => ({ ...term, negated }))
  // A document that lacks one of several words does not match all of them.
  const isExpressed = terms.length > 0 && (!negated || terms.length === 1) && !terms.some(hasOtherForms)
  return isExpressed ? { terms, filter: [] } : null
}
