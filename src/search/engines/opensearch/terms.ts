/** Converts terms of a query to OpenSearch queries. */
import { type Part, sequences, type Term } from '../../query/parser.ts'
import { maxTypos } from '../../query/typos.ts'
import { isMistypable } from '../../vocabulary/vocabulary.ts'
import { anyOf, type Query } from './filter.ts'
import { gap, type TextField, textFields, weights } from './mapping.ts'

/** A field with words, or any of them. */
export type WordField = TextField | 'any'

export interface MatchOptions {
  readonly fuzzy: boolean
  /** languages whose stems are compared */
  readonly languages: readonly string[]
  /** fields whose phrases are compared if any field may match */
  readonly phraseFields?: readonly TextField[]
}

/** Maximum number of words that an incomplete word at the end of a phrase stands for. */
const maxPrefixWords = 1000
/** Maximum number of clauses for the stems, and for the score, of a query. OpenSearch accepts 1,024 clauses in all. */
const maxStemClauses = 300
const maxScoreClauses = 200
/** Maximum number of terms of a query that are compared as phrases in labels and filenames too. */
const maxPhraseTerms = 100

const fieldsOf = (field: WordField): readonly TextField[] => (field === 'any' ? textFields : [field])

/** Returns options that keep the clauses of a query with so many terms within the limit. */
export const withinLimits = (options: MatchOptions, termCount: number): MatchOptions => ({
  ...options,
  languages: termCount * options.languages.length * textFields.length <= maxStemClauses ? options.languages : [],
  phraseFields: termCount <= maxPhraseTerms ? textFields : ['title', 'content'],
})

/** Returns a query for documents that match a term in a field. */
export function matchTerm(term: Term, field: WordField, { fuzzy, languages, phraseFields = textFields }: MatchOptions): Query {
  const { parts, joined, quoted, negated } = term
  const first = parts[0]!
  const isWord = parts.length === 1
  const words = [...(isWord ? [first] : []), ...(joined === null ? [] : [{ text: joined, prefix: parts.at(-1)!.prefix }])]
  const typed = words.map(({ text }) => text)
  const isExpandable = !quoted && !negated
  return anyOf([
    ...words.filter(({ prefix }) => !prefix).map(({ text }) => ({ term: { [field]: text } })),
    ...words.filter(({ prefix }) => prefix).map(({ text }) => ({ prefix: { [field]: text } })),
    ...phrasesOf(term).flatMap((parts) => (field === 'any' ? phraseFields : [field]).map((one) => phrase(parts, one))),
    ...(isExpandable ? typed.filter(isMistypable).flatMap((word) => stems(word, field, languages)) : []),
    ...(isExpandable && fuzzy ? typed.flatMap((word) => typos(word, field)) : []),
  ])
}

/** Returns the forms of a term that have several parts. */
const phrasesOf = (term: Term): (readonly Part[])[] => sequences(term).filter(({ length }) => length > 1)

const stems = (word: string, field: WordField, languages: readonly string[]): Query[] =>
  languages.flatMap((language) => fieldsOf(field).map((one) => ({ match: { [`stems.${language}.${one}`]: word } })))

function typos(word: string, field: WordField): Query[] {
  const fuzziness = maxTypos(word)
  // A clause for each word of the index could exceed the limit of clauses after eight words of a query.
  return fuzziness === 0 ? [] : [{ fuzzy: { [field]: { value: word, fuzziness, rewrite: 'constant_score' } } }]
}

function phrase(parts: readonly Part[], field: TextField, options: object = {}): Query {
  const last = parts.at(-1)!
  const words = Array.from({ length: last.offset + 1 }, () => gap)
  for (const { text, offset } of parts) words[offset] = text
  const query = { query: words.join(' '), ...options }
  return last.prefix
    ? { match_phrase_prefix: { [field]: { ...query, max_expansions: maxPrefixWords } } }
    : { match_phrase: { [field]: query } }
}

/** How two words near each other raise the score: up to `slop` words apart, by the weight `boost`. */
const nearby = { slop: 4, boost: 0.3 }
const maxPairs = 8

/** Returns queries that score documents by the typed words and phrases in each field, and by the proximity of consecutive words. */
export function scoreOf(terms: readonly Term[], fieldOf: (term: Term) => WordField): Query[] {
  const scored = terms.flatMap((term) => fieldsOf(fieldOf(term)).flatMap((field) => scoreIn(term, field)))
  const words = terms.map(({ parts, quoted }) => (parts.length === 1 && !quoted ? parts[0]!.text : null))
  const pairs = words.slice(1).flatMap((word, nth) => (word !== null && words[nth] !== null ? [`${words[nth]} ${word}`] : []))
  return [
    ...scored.slice(0, maxScoreClauses),
    ...pairs.slice(0, maxPairs).map((query) => ({ match_phrase: { content: { query, ...nearby } } })),
  ]
}

function scoreIn(typed: Term, field: TextField): Query[] {
  const { parts, joined } = typed
  const boost = weights[field]
  const term = (value: string): Query => ({ term: { [field]: { value, boost } } })
  const words = parts.length === 1 ? [term(parts[0]!.text)] : []
  return [...words, ...phrasesOf(typed).map((parts) => phrase(parts, field, { boost })), ...(joined === null ? [] : [term(joined)])]
}
