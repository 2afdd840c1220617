/** From a condition on a field to what the index and the documents are asked. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { SearchClause } from '../../../ports/search-engine.ts'
import { phraseOf, type Term, termsOf, wordsOf } from '../../query/parser.ts'
import { normalizeText, type Token, tokenize } from '../../query/tokenizer.ts'
import { nowhere, type Spellings } from './compile-query.ts'
import { inPassages, test } from './document-conditions.ts'
import {
  allIn,
  begunOutside,
  each,
  eachInText,
  isText,
  type LookedUp,
  lookedUp,
  oneOfWords,
  type Row,
  rowOf,
  rowsOf,
  type TextField,
  weights,
} from './phrases.ts'
import { type Holding, longestWord, type Piece, wordsWith } from './substring-terms.ts'
import { rowHints } from './tags.ts'
import { filterLexemes, lexeme, or } from './tsquery.ts'
import { quote } from './tsvector.ts'
import { stemmed } from './vocabulary.ts'

export interface Compiled {
  readonly clause: SearchClause
  /** a tsquery that every document answers which passes; for one in one row that is all, unless there is a `test`. null: any document may pass */
  readonly candidate: string | null
  /** what of the candidate the index answers alone, and perhaps more; not there: all of it */
  readonly loose?: string
  /** see LookedUp */
  readonly known?: string
  /** tsqueries, one of which the index answers for each of what is `loose`, where they are many; see `lookUpAny` */
  readonly apart?: readonly string[]
  /** the same where entries have hints: of what is `known`, or of what only those may answer wrongly that answer `doubt` */
  readonly knownApart?: readonly string[]
  /** a tsquery that the index answers alone */
  readonly doubt?: string
  /** tsqueries, each of which some passage of a long document must answer */
  readonly passages: readonly string[]
  /** what is to be seen in the row of `documents` besides */
  readonly test: RawBuilder<boolean> | null
  /** numbers that every such document has; see tags.ts */
  readonly hints: readonly number[]
  /** all that the clause asks of the words; not there: it is no row. See rowOf */
  readonly row?: Row | null
  /** tsqueries, one of which the index answers only for what passes the test, where entries have hints and are in one row */
  readonly sure?: readonly string[]
  /** the test reads the text of documents */
  readonly readsContent: boolean
  /** for the score; empty where the clause is not about words */
  readonly ranked: readonly RankedTerm[]
  readonly terms: readonly Term[]
  /** words, of which a document that has one often, or in its title, is likely to score well */
  readonly telling: readonly string[]
  /** what counts as a word of the terms besides */
  readonly spellings: Spellings
  readonly pieces: readonly string[]
  /** the clause for some of its words, of which each alone shows that a document passes, where entries have hints; not there: it has few */
  readonly common?: Compiled
}

/** What counts for the score. */
export interface RankedTerm {
  /** a tsquery */
  readonly query: string
  /** its words as they were typed; none: it is a piece of words */
  readonly words: readonly string[]
}

/** The clause for entries that have hints: what the index knows of it alone need not be looked up otherwise. */
export const withHints = (clause: Compiled): Compiled => {
  const { known, doubt, apart, knownApart } = clause
  if (doubt !== undefined && knownApart) return { ...clause, loose: or(knownApart), ...(apart ? { apart: knownApart } : {}) }
  if (known === undefined) return clause
  return { ...clause, candidate: known, loose: known, ...(apart && knownApart ? { apart: knownApart } : {}) }
}

/** Words that hold the piece of a clause and count for the score: to count them takes as long as to find them. */
const maxRanked = 16
/** Words that the index is asked for at once. */
const maxAtOnce = 8
/** Words that hold the piece of a clause and spare a look at the text, where there are too many to ask for all. */
const maxSure = 256

/** Words that hold the piece of a clause and are looked for first, where there are far more: those that came up first, as common ones do. */
const maxCommon = 64

const statuses = ['pending', 'processing', 'completed', 'failed']
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const base = {
  candidate: null,
  passages: [],
  hints: [],
  test: null,
  readsContent: false,
  ranked: [],
  terms: [],
  telling: [],
  spellings: new Map(),
  pieces: [],
} as const
/** Compiles the clauses of a query, in their order. */
export async function compile(db: Db, clauses: readonly SearchClause[]): Promise<Compiled[]> {
  const cuts = clauses.map((clause) =>
    clause.type === 'contains' && isText(clause.field) && clause.field !== 'labels' ? cut(clause.value) : null,
  )
  const asked = cuts.map((parts) => (parts ? openPiece(parts) : null))
  const found = await wordsWith(
    db,
    asked.filter((one) => one !== null),
  )
  const labels = clauses.some(({ field, type }) => field === 'labels' && type !== 'match')
    ? await db.selectFrom('labels').select(['id', 'name']).execute()
    : []
  const { others: stems } = await stemmed(
    db,
    clauses.filter(({ field, type }) => type === 'match' && isText(field)).flatMap(({ value }) => termsOf(value)),
  )
  return clauses.map((clause, index) => {
    const parts = cuts[index]
    if (clause.field === 'labels' && clause.type !== 'match') return onLabels(clause, labels, maxLabels / clauses.length)
    if (isText(clause.field)) {
      if (parts) return contains(clause, clause.field, parts, asked[index] ? found.shift()! : none)
      return clause.type === 'exact' ? exact(clause, clause.field) : matches(clause, clause.field, stems)
    }
    return onValue(clause)
  })
}

function matches(clause: SearchClause, field: TextField, spellings: Spellings): Compiled {
  const terms = termsOf(clause.value)
  if (terms.length === 0) return { ...base, clause, candidate: nowhere }
  return { ...base, clause, ...byTerms(terms, field, spellings), terms, telling: wordsOf(terms), spellings }
}

/** The words that clauses ask for as such. */
export const wordsIn = (clauses: readonly SearchClause[]): string[] =>
  wordsOf(clauses.filter(({ field, type }) => isText(field) && type !== 'contains').flatMap(({ value }) => termsOf(value)))

/** Of content, and of any field, the phrase; of the others the whole. */
function exact(clause: SearchClause, field: TextField): Compiled {
  const isPhrase = field === 'content' || field === 'any'
  const term = phraseOf(clause.value)
  if (!term) return isPhrase ? { ...base, clause, candidate: nowhere } : { ...base, clause, test: test(clause) }
  const hints = term.joined === null ? rowHints(term.parts) : []
  const found = { ...base, clause, ...byTerms([term], field, new Map()), hints, terms: [term], telling: wordsOf([term]) }
  return isPhrase ? { ...found, row: rowOf({ ...term, field: field === 'content' ? 'content' : null }) } : { ...found, test: test(clause) }
}

/** `others`: what counts as a word of the terms besides; only the terms as they are make the score. */
function byTerms(terms: readonly Term[], field: TextField, others: Spellings): LookedUp & { ranked: RankedTerm[] } {
  return {
    ...lookedUp(
      terms.map((term) => rowsOf(term, others)),
      field,
    ),
    ranked: terms.map((term) => ({
      query: or(rowsOf(term, others).flatMap((row) => row.map((step) => oneOfWords(step, weights[field])))),
      words: wordsOf([term]),
    })),
  }
}

interface Cut {
  readonly parts: readonly Token[]
  /** the first, or last, word may go on beyond the value */
  readonly opensLeft: boolean
  readonly opensRight: boolean
  /** nothing but letters and digits in a row, which the words of the index show alone */
  readonly isOneRun: boolean
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
    isOneRun:
      /^[\p{L}\p{N}\p{M}]+$/u.test(normalizeText(value)) &&
      normalizeText(value).length <= longestWord &&
      (parts.length === 1 || parts.every(({ form }) => form !== 'word')),
  }
}

const openPiece = ({ parts, opensLeft, opensRight }: Cut): Piece | null =>
  opensLeft ? { text: parts[0]!.text, atEnd: parts.length > 1 || !opensRight } : null

const none: Holding = { words: [], isAll: true }

/** `others`: the words that hold the first one, where it may go on to the left. */
function contains(clause: SearchClause, field: TextField, { parts, opensRight, isOneRun }: Cut, others: Holding): Compiled {
  const steps = parts.map((word, index) => {
    const prefix = word.form === 'last' || (opensRight && index === parts.length - 1)
    return { words: [word.text, ...(index === 0 && others.isAll ? others.words : [])], prefix, offset: word.position }
  })
  // A first word that may be any of too many says nothing.
  const known = others.isAll ? steps : steps.slice(1)
  const [first, ...rest] = known
  const isAlone = first !== undefined && rest.length === 0
  const found = known.length === 0 ? { candidate: null, passages: [] } : lookedUp([[known]], field)
  const isShown = isOneRun && others.isAll
  const passage = found.passages[0]
  const some = isOneRun ? shortest(others.words) : []
  const shown = {
    clause,
    ranked: steps.length === 0 ? [] : [{ query: or(steps.map((step) => oneOfWords(step, weights[field], maxRanked))), words: [] }],
    terms: [],
    telling: steps.length === 1 ? steps[0]!.words.slice(0, maxRanked) : [],
    spellings: new Map(),
    pieces: [clause.value],
  }
  const common = isOneRun && isWords(field) && others.words.length > 2 * maxCommon ? allIn(others.words.slice(0, maxCommon), field) : null
  return {
    ...shown,
    ...found,
    ...(isAlone ? { knownApart: eachInText(first) } : {}),
    ...(isAlone && first.prefix && field === 'content' ? { doubt: begunOutside(first.words[0]!) } : {}),
    ...(isAlone && first.words.length > maxAtOnce ? { apart: each(first, field) } : {}),
    hints: [],
    ...(some.length > 0 && !isShown && passage === undefined && field === 'content'
      ? { sure: allIn(others.words.slice(0, maxSure), field) }
      : {}),
    test: isShown ? null : passage === undefined ? sureTest(clause, field, some) : test(clause, inPassages(clause, passage)),
    readsContent: !isShown && (field === 'content' || field === 'any'),
    ...(common ? { common: { ...base, ...shown, candidate: or(common), apart: common } } : {}),
  }
}

/** Whether a field has so many words that those of one piece may be in more documents than anybody reads. */
const isWords = (field: TextField): field is 'content' | 'any' => field === 'content' || field === 'any'

/** The test of a clause, which reads no text of a document that has one of these words. */
function sureTest(clause: SearchClause, field: TextField, words: readonly string[]): RawBuilder<boolean> {
  if (words.length === 0) return test(clause)
  const some = or(words.map((text) => lexeme({ text, prefix: false }, weights[field])))
  return sql`case when entry.parts = 0 and entry.words @@ (select ${some}::text::tsquery) then true else ${test(clause)} end`
}

const shortest = (words: readonly string[]): string[] =>
  words.toSorted((one, other) => one.length - other.length || (one < other ? -1 : 1)).slice(0, maxSure)

const maxLabels = 2_000

function onLabels(clause: SearchClause, labels: readonly { id: string; name: string }[], max: number): Compiled {
  const isMeant = labelTest(clause)
  const meant = labels.filter(({ name }) => isMeant(name))
  const shown = clause.type === 'contains' ? { pieces: [clause.value] } : { terms: [phraseOf(clause.value) ?? []].flat() }
  if (meant.length > max) return { ...base, clause, ...shown, test: test(clause) }
  return { ...base, clause, ...shown, candidate: oneOf(meant.map(({ id }) => filterLexemes.label(id))) }
}

function labelTest({ type, value }: SearchClause): (name: string) => boolean {
  if (type === 'exact') return (name) => name.normalize('NFC').toLowerCase() === value.normalize('NFC').toLowerCase()
  const wanted = spaced(value)
  return (name) => wanted !== '' && spaced(name).includes(wanted)
}

const spaced = (text: string): string => normalizeText(text).replace(/\s+/g, ' ')

/** Fields that are not among the words, but for what filters ask of them too. */
function onValue(clause: SearchClause): Compiled {
  const { field, type, value } = clause
  const isExact = type === 'exact'
  if (field === 'status') {
    const wanted = spaced(value)
    const meant = statuses.filter((status) => (type === 'contains' ? wanted !== '' && status.includes(wanted) : status === wanted))
    return { ...base, clause, candidate: oneOf(meant.map(filterLexemes.status)) }
  }
  if (field === 'source_id' && isExact)
    return { ...base, clause, candidate: oneOf(uuid.test(value) ? [filterLexemes.source(value.toLowerCase())] : []) }
  if (field === 'mime_type' && isExact) return { ...base, clause, candidate: quote(filterLexemes.mimeType(value)) }
  return { ...base, clause, test: test(clause) }
}

const oneOf = (lexemes: readonly string[]): string => (lexemes.length === 0 ? nowhere : or(lexemes.map(quote)))
