/** Converts conditions on fields to OpenSearch queries. */
import type { SearchClause } from '../../../ports/search-engine.ts'
import { foldExact, foldSpaces } from '../../query/folding.ts'
import { phraseOf, type Term, termsOf } from '../../query/parser.ts'
import { wordsOfSubstring } from '../../query/substring-words.ts'
import { valueTerm } from './entry.ts'
import { allOf, anyOf, matchNone, type Query } from './filter.ts'
import { type TextField, textFields } from './mapping.ts'
import { type MatchOptions, matchTerm, scoreOf, type WordField } from './terms.ts'

export interface CompiledClause {
  readonly clause: SearchClause
  readonly query: Query
  /** The query is a superset: it also matches documents that have the words, but not side by side. */
  readonly isSuperset: boolean
  readonly score: readonly Query[]
  /** Terms and parts of texts to highlight. */
  readonly terms: readonly Term[]
  readonly substrings: readonly string[]
}

const isWordField = (field: SearchClause['field']): field is WordField =>
  field === 'any' || (textFields as readonly string[]).includes(field)

/** Compiles a condition to a query with its scores and highlights. */
export function compileClause(clause: SearchClause, options: MatchOptions): CompiledClause {
  const { field, type, value } = clause
  const base = { clause, isSuperset: false, score: [], terms: [], substrings: [] }
  if (!isWordField(field)) return { ...base, ...onValue(field, clause) }
  const highlighted = field === 'any' || field === 'content' ? phraseOf(value) : null
  if (type === 'contains') {
    const parts = (field === 'any' ? textFields : [field]).map((one) => containing(one, value))
    return {
      ...base,
      query: anyOf(parts.map(({ query }) => query)),
      isSuperset: parts.some(({ isSuperset }) => isSuperset),
      substrings: [value],
    }
  }
  if (type === 'exact' && field !== 'any' && field !== 'content') {
    const term = phraseOf(value)
    return { ...base, ...onValue(field, clause), terms: term ? [term] : [] }
  }
  const terms = type === 'exact' ? (highlighted ? [highlighted] : []) : termsOf(value)
  if (terms.length === 0) return { ...base, query: matchNone }
  const query = allOf(terms.map((term) => matchTerm(term, field, options)))
  return { ...base, query, score: scoreOf(terms, () => field), terms }
}

interface Part {
  readonly query: Query
  readonly isSuperset: boolean
}

/** Compares values of a field without words, or whole values. */
function onValue(field: string, { type, value }: Pick<SearchClause, 'type' | 'value'>): Part {
  const exactly = (query: Query): Part => ({ query, isSuperset: false })
  if (type === 'exact') return exactly({ term: { exact_values: valueTerm(field, foldExact(value)) } })
  if (type === 'contains') return partOfValue(field, value)
  const parts = phraseOf(value)?.parts ?? []
  const words = parts.map(({ text, prefix }) => ({ [prefix ? 'prefix' : 'term']: { value_words: valueTerm(field, text) } }))
  return exactly(words.length === 0 ? matchNone : allOf(words))
}

/**
 * Maximum number of characters after a wildcard. Longer values are compared with the texts of candidates. Lucene refuses an automaton that takes more
 * than 10,000 steps to determinize, such as one for 1,000 equal characters.
 */
const maxAfterWildcard = 100

function partOfValue(field: string, value: string): Part {
  const text = foldSpaces(value)
  if (text === '') return { query: matchNone, isSuperset: false }
  const start = beginning(text)
  // The field can be the name of any key of metadata.
  const query = wildcard('values', `${escapeWildcard(valueTerm(field, ''))}*${escapeWildcard(start)}*`)
  return { query, isSuperset: start !== text }
}

const beginning = (text: string): string => [...text].slice(0, maxAfterWildcard).join('')
const ending = (text: string): string => [...text].slice(-maxAfterWildcard).join('')

const wildcard = (field: string, value: string): Query => ({ wildcard: { [field]: { value } } })

const escapeWildcard = (text: string): string => text.replace(/[\\*?]/g, '\\$&')

/** Returns a query for documents whose field contains a text, or has all its words. */
function containing(field: TextField, value: string): Part {
  if (field !== 'content') return partOfValue(field, value)
  if (foldSpaces(value) === '') return { query: matchNone, isSuperset: false }
  const { parts, isOpenLeft, isOpenRight, isAlphanumeric } = wordsOfSubstring(value)
  const [first, last] = [parts[0], parts.at(-1)]
  // Without a word, every document may match.
  if (!first || !last) return { query: { match_all: {} }, isSuperset: true }
  const queries = parts.map((part) => {
    const [left, right] = [part === first && isOpenLeft ? '*' : '', part === last && isOpenRight ? '*' : '']
    if (left + right === '') return { term: { content: part.text } }
    return wildcard('content', left === '' ? part.text + right : left + ending(part.text) + right)
  })
  const isOneWord = isAlphanumeric && parts.length === 1 && first.text.length <= maxAfterWildcard
  return { query: allOf(queries), isSuperset: !isOneWord }
}
