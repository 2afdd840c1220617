/** Builds tsqueries. */
import type { SearchFilter } from '../../../../ports/search-engine.ts'
import type { Part } from '../../../query/parser.ts'
import { labelTerm, mimeTypeTerm, ownerTerm, rangeFilterTerms, sourceTerm, statusTerm } from '../index/terms.ts'

/** Quotes a lexeme for tsvector and tsquery. */
export const quote = (lexeme: string): string => `'${lexeme.replace(/['\\]/g, '$&$&')}'`

/** Returns a tsquery of one word. `weight` restricts it to a field. */
export const lexeme = ({ text, prefix }: Pick<Part, 'text' | 'prefix'>, weight: '' | 'A' | 'B' | 'C' | 'D' = ''): string =>
  quote(text) + (prefix || weight ? `:${prefix ? '*' : ''}${weight}` : '')

export const and = (queries: readonly string[]): string => join(queries, ' & ')
export const or = (queries: readonly string[]): string => balanced([...new Set(queries)])
export const not = (query: string): string => `!${query}`

/** Returns a phrase query. `offset`: distance from the first word. */
export const inSequence = (steps: readonly { query: string; offset: number }[]): string =>
  `(${steps.map(({ query, offset }, index) => (index === 0 ? query : ` <${offset - steps[index - 1]!.offset}> ${query}`)).join('')})`

/** Joins queries by OR as a balanced tree. PostgreSQL recurses through a long chain for every document. */
const balanced = (queries: readonly string[]): string =>
  queries.length <= maxChain
    ? join(queries, ' | ')
    : join([balanced(queries.slice(0, queries.length >> 1)), balanced(queries.slice(queries.length >> 1))], ' | ')
const maxChain = 8

const join = (queries: readonly string[], operator: string): string =>
  queries.length === 1 ? queries[0]! : queries.length === 0 ? '' : `(${queries.join(operator)})`

/** Returns the tsqueries of a filter that every match meets; those of `excluded` are negations. */
export function filterQueries(filter: SearchFilter): { readonly required: readonly string[]; readonly excluded: readonly string[] } {
  const { ownerId, mimeTypes, notMimeTypes, labelIds, notLabelIds, status, sourceId } = filter
  const anyOf = (queries: readonly string[]) => (queries.length === 0 ? [] : [or(queries)])
  return {
    required: [
      ...(ownerId === null ? [] : [quote(ownerTerm(ownerId))]),
      ...(sourceId === null ? [] : [quote(sourceTerm(sourceId))]),
      ...labelIds.map((id) => quote(labelTerm(id))),
      ...anyOf(mimeTypes.map(ofType)),
      ...anyOf(status.map((one) => quote(statusTerm(one)))),
      ...rangeFilterTerms(filter).map((terms) => or(terms.map(quote))),
    ],
    excluded: [...notMimeTypes.map((name) => not(ofType(name))), ...notLabelIds.map((id) => not(quote(labelTerm(id))))],
  }
}

const ofType = (name: string): string => (name.endsWith('/*') ? `${quote(mimeTypeTerm(name.slice(0, -1)))}:*` : quote(mimeTypeTerm(name)))

/**
 * Returns the tsqueries of an index scan. Each one becomes a GIN scan key: the index skips from a match of one key to the next match of another. It
 * would evaluate one large tsquery for every document with its rarest word. Negations join the first key, because alone they match nearly every
 * document.
 */
export function scanKeys(required: readonly string[], excluded: readonly string[]): string[] {
  const [first, ...others] = required
  if (first === undefined) return excluded.length === 0 ? [] : [and(excluded)]
  return [and([first, ...excluded]), ...others]
}
