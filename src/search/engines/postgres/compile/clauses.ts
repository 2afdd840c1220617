/** Compiles clauses on fields into tsqueries, and into tests of the row of the document. */
import type { RawBuilder } from 'kysely'
import type { Db } from '../../../../db/pool.ts'
import { isId } from '../../../../id.ts'
import type { SearchClause } from '../../../../ports/search-engine.ts'
import { slicesOf } from '../../../../slices.ts'
import { foldExact, foldSpaces } from '../../../query/folding.ts'
import { phraseOf, type Term, termsOf, wordsOf } from '../../../query/parser.ts'
import { normalizeText, type Token, tokenize } from '../../../query/tokenizer.ts'
import { type Expansions, stemExpansions } from '../../../vocabulary/expansions.ts'
import { findWordsWith, type Holders, maxListedLength, type Substring } from '../../../vocabulary/substrings.ts'
import { shinglesOf } from '../index/tags.ts'
import { absentTerm, labelTerm, mimeTypeTerm, overflowTerm, sourceTerm, statusTerm, type TextField, weights } from '../index/terms.ts'
import { inPassages, test } from './document-conditions.ts'
import { isTextField, queryOf, sequencesOf, stepInField, stepQuery, type TermQuery } from './term-queries.ts'
import { or, quote } from './tsquery.ts'

export interface CompiledClause {
  readonly clause: SearchClause
  /** A tsquery that the index evaluates and every match meets. Null: any document may match. */
  readonly superset: string | null
  /** Replaces `superset` if it would be too large: every match meets one of these tsqueries. */
  readonly anyOf?: readonly string[]
  /** See TermQuery. */
  readonly check: string | null
  readonly passages: readonly string[]
  /** An additional test of the row of `documents`. */
  readonly test: RawBuilder<boolean> | null
  readonly readsContent: boolean
  readonly shingles: readonly number[]
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

const statuses = ['pending', 'processing', 'completed', 'failed']

const base = {
  superset: null,
  check: null,
  passages: [],
  test: null,
  readsContent: false,
  shingles: [],
  ranked: [],
  terms: [],
  expansions: new Map(),
  substrings: [],
} as const

/** Compiles clauses, in order. `unprepared`: a connection that plans each statement for its values. */
export async function compileClauses(db: Db, unprepared: Db, clauses: readonly SearchClause[]): Promise<CompiledClause[]> {
  const cuts = clauses.map(({ field, type, value }) =>
    type === 'contains' && isTextField(field) && field !== 'labels' ? cut(value) : null,
  )
  const openings = cuts.map((parts) => (parts ? openWord(parts) : null))
  const holders = await findWordsWith(
    unprepared,
    openings.filter((one) => one !== null),
  )
  const labels = clauses.some(({ field, type }) => field === 'labels' && type !== 'match') ? await loadLabels(db) : []
  const expansions = await stemExpansions(
    db,
    clauses.filter(({ field, type }) => type === 'match' && isTextField(field)).flatMap(({ value }) => termsOf(value)),
  )
  return clauses.map((clause, index) => {
    const parts = cuts[index]
    if (clause.field === 'labels' && clause.type !== 'match') return onLabels(clause, labels, maxLabels / clauses.length)
    if (!isTextField(clause.field)) return onValue(clause)
    if (parts) return contains(clause, clause.field, parts, openings[index] ? holders.shift()! : none)
    return clause.type === 'exact' ? exact(clause, clause.field) : matches(clause, clause.field, expansions)
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
  return isPhrase
    ? { ...phrase, shingles: term.joined === null ? shinglesOf(term.parts) : [] }
    : { ...phrase, check: null, test: test(clause) }
}

function ofTerms(terms: readonly Term[], field: TextField, expansions: Expansions): TermQuery & Pick<CompiledClause, 'ranked'> {
  return {
    ...queryOf(
      terms.map((term) => sequencesOf(term, expansions)),
      field,
    ),
    ranked: terms.map((term) => ({
      query: or(sequencesOf(term, expansions).flatMap((sequence) => sequence.map((step) => stepQuery(step, weights[field])))),
      words: wordsOf([term]),
    })),
  }
}

/** The value of a contains clause, divided into words. */
interface Cut {
  readonly parts: readonly Token[]
  /** Whether a matching word may extend beyond the first or last one. */
  readonly opensLeft: boolean
  readonly opensRight: boolean
  /** Whether the value consists of letters and digits only. Then the vocabulary decides, without a test of the content. */
  readonly isWord: boolean
}

function cut(value: string): Cut {
  const all = [...tokenize(value)]
  const parts = all.filter(({ form }, index) => form !== 'joined' && !(form === 'last' && all[index - 1]?.form === 'pair'))
  const first = parts[0]
  const last = parts.at(-1)
  return {
    parts,
    opensLeft: first?.form === 'word' && normalizeText(value.slice(0, first.start)) === '',
    opensRight: last?.form === 'word' && normalizeText(value.slice(last.end)) === '',
    isWord:
      /^[\p{L}\p{N}\p{M}]+$/u.test(normalizeText(value)) &&
      normalizeText(value).length <= maxListedLength &&
      (parts.length === 1 || parts.every(({ form }) => form !== 'word')),
  }
}

const openWord = ({ parts, opensLeft, opensRight }: Cut): Substring | null =>
  opensLeft ? { text: parts[0]!.text, isSuffix: parts.length > 1 || !opensRight } : null

const none: Holders = { words: [], isComplete: true }

/** Compiles a contains clause. `holders`: words of the vocabulary that contain the first word of the value. */
function contains(clause: SearchClause, field: TextField, { parts, opensRight, isWord }: Cut, holders: Holders): CompiledClause {
  const steps = parts.map((word, index) => {
    const prefix = word.form === 'last' || (opensRight && index === parts.length - 1)
    return { words: [word.text, ...(index === 0 && holders.isComplete ? holders.words : [])], prefix, offset: word.position }
  })
  // A first word with too many alternatives does not restrict the matches.
  const usable = holders.isComplete ? steps : steps.slice(1)
  const [first, ...rest] = usable
  const query = usable.length === 0 ? null : queryOf([[usable]], field)
  // The vocabulary also has joined forms (email for e-mail), which are no part of a text. To read a title or filename takes little time.
  const isDecided = isWord && holders.isComplete && field !== 'title' && field !== 'filename'
  const alternatives =
    first && rest.length === 0 && first.words.length > maxAlternatives ? alternativesOf(first.words, first.prefix, field) : null
  const passage = query?.passages[0]
  return {
    ...base,
    clause,
    superset: query?.superset ?? null,
    ...(alternatives ? { anyOf: alternatives } : {}),
    check: isDecided ? (query?.check ?? null) : null,
    passages: query?.passages ?? [],
    test: isDecided ? null : test(clause, passage === undefined ? undefined : inPassages(clause, passage)),
    readsContent: !isDecided && (field === 'content' || field === 'any'),
    ranked: steps.length === 0 ? [] : [{ query: or(steps.map((step) => stepQuery(step, weights[field], maxRanked))), words: [] }],
    substrings: [clause.value],
  }
}

/** Divides words among tsqueries. Every document with one of the words meets one of them. */
function alternativesOf(words: readonly string[], prefix: boolean, field: TextField): string[] {
  const some = [...slicesOf(words, maxAlternatives)].map((slice, nth) =>
    stepInField({ words: slice, prefix: prefix && nth === 0, offset: 0 }, field),
  )
  return [...some, quote(overflowTerm)]
}

/** A label in the forms that clauses compare. */
interface FoldedLabel {
  readonly id: string
  readonly part: string
  readonly whole: string
}

async function loadLabels(db: Db): Promise<FoldedLabel[]> {
  const labels = await db.selectFrom('labels').select(['id', 'name']).execute()
  return labels.map(({ id, name }) => ({ id, part: foldSpaces(name), whole: foldExact(name) }))
}

function onLabels(clause: SearchClause, labels: readonly FoldedLabel[], max: number): CompiledClause {
  const meant = labels.filter(labelTest(clause))
  const highlighted = clause.type === 'contains' ? { substrings: [clause.value] } : { terms: [phraseOf(clause.value) ?? []].flat() }
  if (meant.length > max) return { ...base, clause, ...highlighted, test: test(clause) }
  return { ...base, clause, ...highlighted, superset: anyTerm(meant.map(({ id }) => labelTerm(id))) }
}

function labelTest({ type, value }: SearchClause): (label: FoldedLabel) => boolean {
  const [folded, exact] = [foldSpaces(value), foldExact(value)]
  return type === 'exact' ? ({ whole }) => whole === exact : ({ part }) => folded !== '' && part.includes(folded)
}

/** Compiles a clause on a field without words. The index has terms for exact values only. */
function onValue(clause: SearchClause): CompiledClause {
  const { field, type, value } = clause
  const isExact = type === 'exact'
  if (field === 'status') {
    const folded = foldSpaces(value)
    const meant = statuses.filter((status) => (type === 'contains' ? folded !== '' && status.includes(folded) : status === folded))
    return { ...base, clause, superset: anyTerm(meant.map(statusTerm)) }
  }
  if (field === 'source_id' && isExact) return { ...base, clause, superset: anyTerm(isId(value) ? [sourceTerm(value.toLowerCase())] : []) }
  if (field === 'mime_type' && isExact)
    return { ...base, clause, superset: anyTerm(value.length > maxMimeType ? [] : [mimeTypeTerm(value)]) }
  return { ...base, clause, test: test(clause) }
}

const anyTerm = (terms: readonly string[]): string => (terms.length === 0 ? quote(absentTerm) : or(terms.map(quote)))
