/** Compiles clauses on fields into tsqueries, and into tests of the row of the document. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../../db/pool.ts'
import { isId } from '../../../../id.ts'
import type { SearchClause } from '../../../../ports/search-engine.ts'
import { slicesOf } from '../../../../slices.ts'
import { foldExact, foldSpaces } from '../../../query/folding.ts'
import { phraseOf, type Term, termsOf, wordsOf } from '../../../query/parser.ts'
import { statuses } from '../../../query/qualifiers.ts'
import { type SubstringWords, wordsOfSubstring } from '../../../query/substring-words.ts'
import { normalizeText } from '../../../query/tokenizer.ts'
import { type Expansions, stemExpansions } from '../../../vocabulary/expansions.ts'
import { findWordsWith, type Holders, maxListedLength } from '../../../vocabulary/substrings.ts'
import { answers, inContent, test } from '../../document-conditions.ts'
import { shinglesOf } from '../index/tags.ts'
import { absentTerm, labelTerm, mimeTypeTerm, overflowTerm, sourceTerm, statusTerm, type TextField } from '../index/terms.ts'
import type { Condition } from './conditions.ts'
import { isTextField, queryOf, type Step, sequencesOf, stepInField, stepQueries, stepQuery, type TermQuery } from './term-queries.ts'
import { or, quote } from './tsquery.ts'

export interface CompiledClause extends Condition {
  readonly clause: SearchClause
  /** Tsqueries for the score with their words. Empty if the clause has no words. */
  readonly ranked: readonly { readonly query: string; readonly words: readonly string[] }[]
  /** Terms to highlight. */
  readonly terms: readonly Term[]
  readonly expansions: Expansions
  readonly substrings: readonly string[]
}

/** Maximum number of words per substring that count for the score. */
const maxRanked = 16
/** Maximum number of words in one tsquery. More words are divided among several. */
const maxAlternatives = 16
/** Maximum number of labels that the clauses of a query may match. */
const maxLabels = 2_000

/** Length of a media type (RFC 6838, 4.2): two names of 127 characters. A lexeme of PostgreSQL has at most 2,046 bytes. */
const maxMimeType = 255

const base = {
  superset: null,
  check: null,
  passages: [],
  tags: [],
  ranked: [],
  terms: [],
  expansions: new Map(),
  substrings: [],
} as const

/** Compiles clauses, in order. `unprepared`: a connection that plans each statement for its values. */
export async function compileClauses(db: Db, unprepared: Db, clauses: readonly SearchClause[]): Promise<CompiledClause[]> {
  const substrings = new Map(
    clauses
      .filter(({ field, type }) => type === 'contains' && isTextField(field) && field !== 'labels')
      .map((clause) => [clause, wordsOfSubstring(clause.value)]),
  )
  const open = [...substrings].filter(([, { isOpenLeft }]) => isOpenLeft)
  const found = await findWordsWith(
    unprepared,
    open.map(([, { parts, isOpenRight }]) => ({ text: parts[0]!.text, isSuffix: parts.length > 1 || !isOpenRight })),
  )
  const holders = new Map(open.map(([clause], nth) => [clause, found[nth]!]))
  const labels = clauses.some(({ field, type }) => field === 'labels' && type !== 'match') ? await loadLabels(db) : []
  const expansions = await stemExpansions(
    db,
    clauses.filter(({ field, type }) => type === 'match' && isTextField(field)).flatMap(({ value }) => termsOf(value)),
  )
  return clauses.map((clause) => {
    const { field, type } = clause
    const substring = substrings.get(clause)
    if (field === 'labels' && type !== 'match') return onLabels(clause, labels, maxLabels / clauses.length)
    if (!isTextField(field)) return onValue(clause)
    if (substring) return contains(clause, field, substring, holders.get(clause) ?? { words: [], isComplete: true })
    return type === 'exact' ? exact(clause, field) : matches(clause, field, expansions)
  })
}

/** Returns the words of match and exact clauses. */
export const wordsIn = (clauses: readonly SearchClause[]): string[] =>
  wordsOf(clauses.filter(({ field, type }) => isTextField(field) && type !== 'contains').flatMap(({ value }) => termsOf(value)))

function matches(clause: SearchClause, field: TextField, expansions: Expansions): CompiledClause {
  const terms = termsOf(clause.value)
  if (terms.length === 0) return { ...base, clause, superset: quote(absentTerm) }
  return { ...base, clause, ...ofTerms(terms, field, expansions), terms, expansions }
}

/** Compiles an exact clause: a phrase in the content or any field, the whole value of other fields. */
function exact(clause: SearchClause, field: TextField): CompiledClause {
  const isPhrase = field === 'content' || field === 'any'
  const term = phraseOf(clause.value)
  if (!term) return isPhrase ? { ...base, clause, superset: quote(absentTerm) } : { ...base, clause, test: test(clause) }
  const phrase = { ...base, clause, ...ofTerms([term], field, new Map()), terms: [term] }
  return isPhrase ? { ...phrase, tags: term.joined === null ? shinglesOf(term.parts) : [] } : { ...phrase, check: null, test: test(clause) }
}

function ofTerms(terms: readonly Term[], field: TextField, expansions: Expansions): TermQuery & Pick<CompiledClause, 'ranked'> {
  const sequences = terms.map((term) => sequencesOf(term, expansions))
  return {
    ...queryOf(sequences, field),
    ranked: terms.map((term, nth) => ({ query: or(stepQueries(sequences[nth]!, field)), words: wordsOf([term]) })),
  }
}

/** Compiles a contains clause. `holders`: words of the vocabulary that contain the first word of the value. */
function contains(
  clause: SearchClause,
  field: TextField,
  { parts, isOpenRight, isAlphanumeric }: SubstringWords,
  holders: Holders,
): CompiledClause {
  const { value } = clause
  const steps = parts.map((word, index) => ({
    words: [word.text, ...(index === 0 && holders.isComplete ? holders.words : [])],
    prefix: word.form === 'last' || (isOpenRight && index === parts.length - 1),
    offset: word.position,
  }))
  // A first word with too many alternatives does not restrict the matches.
  const usable = holders.isComplete ? steps : steps.slice(1)
  const query = usable.length === 0 ? null : queryOf([[usable]], field)
  // The vocabulary decides about letters and digits in a row, except about titles and filenames: it also has joined forms (email for e-mail), which are
  // no part of a text, and to read a title takes little time.
  const isInWord =
    isAlphanumeric && normalizeText(value).length <= maxListedLength && (parts.length === 1 || parts.every(({ form }) => form !== 'word'))
  const isDecided = isInWord && holders.isComplete && field !== 'title' && field !== 'filename'
  const passage = query?.passages[0]
  return {
    ...base,
    clause,
    superset: query?.superset ?? null,
    ...(usable.length === 1 && usable[0]!.words.length > maxAlternatives ? { anyOf: alternativesOf(usable[0]!, field) } : {}),
    check: isDecided ? (query?.check ?? null) : null,
    passages: query?.passages ?? [],
    test: isDecided ? null : test(clause, passage === undefined ? undefined : testPassages(clause, passage)),
    readsContent: !isDecided && (field === 'content' || field === 'any'),
    ranked: steps.length === 0 ? [] : [{ query: or(steps.map((step) => stepQuery(step, field, maxRanked))), words: [] }],
    substrings: [value],
  }
}

/** Divides the words of a step among tsqueries. Every document with one of the words meets one of them. */
const alternativesOf = (step: Step, field: TextField): string[] => [
  ...[...slicesOf(step.words, maxAlternatives)].map((words, nth) =>
    stepInField({ ...step, words, prefix: step.prefix && nth === 0 }, field),
  ),
  quote(overflowTerm),
]

/** Maximum number of passages that are read one by one. Each decompresses the text and counts its characters from the beginning. */
const maxPassages = 8

/** Tests the content for a clause. Of a long document, only passages that meet the tsquery are read, if they are few. */
function testPassages(clause: SearchClause, query: string): RawBuilder<boolean> {
  const matching = sql`
    select from search_passages passage
    where passage.document_id = documents.id and passage.segment = entry.segment and passage.words @@ ${query}::tsquery`
  return sql`
    case when entry.parts = 0 or exists (${matching} offset ${sql.lit(maxPassages)}) then ${inContent(clause)}
    else exists (${matching} and ${answers(sql`substr(documents.content, passage.start_at + 1, passage.length)`, clause)}) end`
}

/** Returns the labels in the forms that clauses compare. */
async function loadLabels(db: Db) {
  const labels = await db.selectFrom('labels').select(['id', 'name']).execute()
  return labels.map(({ id, name }) => ({ id, part: foldSpaces(name), whole: foldExact(name) }))
}

function onLabels(clause: SearchClause, labels: Awaited<ReturnType<typeof loadLabels>>, max: number): CompiledClause {
  const { type, value } = clause
  const [part, whole] = [foldSpaces(value), foldExact(value)]
  const meant = labels.filter((label) => (type === 'exact' ? label.whole === whole : part !== '' && label.part.includes(part)))
  const highlighted = type === 'contains' ? { substrings: [value] } : { terms: [phraseOf(value) ?? []].flat() }
  const condition = meant.length > max ? { test: test(clause) } : { superset: anyTerm(meant.map(({ id }) => labelTerm(id))) }
  return { ...base, clause, ...highlighted, ...condition }
}

/** Compiles a clause on a field without words. The index has terms for exact values only. */
function onValue(clause: SearchClause): CompiledClause {
  const { field, type, value } = clause
  const withTerms = (terms: readonly string[]) => ({ ...base, clause, superset: anyTerm(terms) })
  if (field === 'status') {
    const folded = foldSpaces(value)
    const meant = statuses.filter((status) => (type === 'contains' ? folded !== '' && status.includes(folded) : status === folded))
    return withTerms(meant.map(statusTerm))
  }
  if (field === 'source_id' && type === 'exact') return withTerms(isId(value) ? [sourceTerm(value.toLowerCase())] : [])
  if (field === 'mime_type' && type === 'exact') return withTerms(value.length > maxMimeType ? [] : [mimeTypeTerm(value)])
  return { ...base, clause, test: test(clause) }
}

const anyTerm = (terms: readonly string[]): string => (terms.length === 0 ? quote(absentTerm) : or(terms.map(quote)))
