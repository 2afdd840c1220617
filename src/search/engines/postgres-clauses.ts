/** From a condition on a field to what the index and the documents are asked. */
import type { RawBuilder } from 'kysely'
import type { Db } from '../../db/db.ts'
import type { SearchClause } from '../../ports.ts'
import { phraseOf, type Term, termsOf } from '../query.ts'
import { plain, type Word, words } from '../words.ts'
import { longestWord, type Piece, wordsWith } from './postgres-pieces.ts'
import { and, filterLexemes, inRow, lexeme, or } from './postgres-query.ts'
import { inPassages, test } from './postgres-values.ts'
import { headingLexeme, quote } from './postgres-vector.ts'

export interface Compiled {
  readonly clause: SearchClause
  /** a tsquery that every document answers which passes; for one in one row that is all, unless there is a `test`. null: any document may pass */
  readonly candidate: string | null
  /** tsqueries, each of which some passage of a long document must answer */
  readonly passages: readonly string[]
  /** what is to be seen in the row of `documents` besides */
  readonly test: RawBuilder<boolean> | null
  /** the test reads the text of documents */
  readonly readsContent: boolean
  /** a tsquery for the score; null where the clause is not about words */
  readonly rank: string | null
  readonly terms: readonly Term[]
  readonly pieces: readonly string[]
}

/** Words that hold the piece of a clause and count for the score. */
const maxRanked = 100

const weights = { any: '', title: 'A', labels: 'B', filename: 'C', content: 'D' } as const
type TextField = keyof typeof weights
const isText = (field: string): field is TextField => Object.hasOwn(weights, field)
const statuses = ['pending', 'processing', 'completed', 'failed']
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const base = { candidate: null, passages: [], test: null, readsContent: false, rank: null, terms: [], pieces: [] } as const
/** No document has this word, with which no filter begins. */
const nowhere = quote('~nowhere')

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
  return clauses.map((clause, index) => {
    const parts = cuts[index]
    if (clause.field === 'labels' && clause.type !== 'match') return onLabels(clause, labels, maxLabels / clauses.length)
    if (isText(clause.field)) {
      if (parts) return contains(clause, clause.field, parts, asked[index] ? (found.shift() ?? null) : [])
      return clause.type === 'exact' ? exact(clause, clause.field) : matches(clause, clause.field)
    }
    return onValue(clause)
  })
}

function matches(clause: SearchClause, field: TextField): Compiled {
  const terms = termsOf(clause.value)
  if (terms.length === 0) return { ...base, clause, candidate: nowhere }
  return { ...base, clause, ...byTerms(terms, field), terms }
}

/** Of content, and of any field, the phrase; of the others the whole. */
function exact(clause: SearchClause, field: TextField): Compiled {
  const isPhrase = field === 'content' || field === 'any'
  const term = phraseOf(clause.value)
  if (!term) return isPhrase ? { ...base, clause, candidate: nowhere } : { ...base, clause, test: test(clause) }
  const found = { ...base, clause, ...byTerms([term], field), terms: [term] }
  return isPhrase ? found : { ...found, test: test(clause) }
}

function byTerms(terms: readonly Term[], field: TextField): Pick<Compiled, 'candidate' | 'passages' | 'rank'> {
  const found = terms.map(({ parts, joined }) => {
    const inOrder = parts.map((part) => ({ words: [part.text], prefix: part.prefix, offset: part.offset }))
    return [inOrder, ...(joined === null ? [] : [[{ words: [joined], prefix: false, offset: 0 }]])]
  })
  return {
    ...lookedUp(found, field),
    rank: or(found.flatMap((rows) => rows.flatMap((row) => row.map((step) => oneOfWords(step, weights[field]))))),
  }
}

/** One place in a row of words: any of `words`, of which the first may go on where `prefix`. */
interface Step {
  readonly words: readonly string[]
  readonly prefix: boolean
  readonly offset: number
}

const oneOfWords = ({ words, prefix }: Step, weight: (typeof weights)[TextField], max = Number.POSITIVE_INFINITY): string =>
  or(words.slice(0, max).map((text, index) => lexeme({ text, prefix: prefix && index === 0 }, weight)))

/** What asks for all of these terms, each of which is any of its rows of words. */
function lookedUp(terms: readonly (readonly (readonly Step[])[])[], field: TextField): Pick<Compiled, 'candidate' | 'passages'> {
  const weight = weights[field]
  if (weight === 'A' || weight === 'B' || weight === 'C') {
    const marked = (step: Step): string => oneOfWords({ ...step, words: step.words.map((word) => headingLexeme(word, weight)) }, '')
    // The place is looked up in what the marks leave: to see it, PostgreSQL reads all words of a document.
    const inField = (row: readonly Step[]): string => and([...row.map(marked), ...(row.length > 1 ? [inARow(row, weight)] : [])])
    return { candidate: and(terms.map((rows) => or(rows.map(inField)))), passages: [] }
  }
  const alone = terms.map((rows) => or(rows.map((row) => inARow(row, weight))))
  const loose = terms.map((rows) => or(rows.map((row) => and(row.map((step) => oneOfWords(step, ''))))))
  return { candidate: or([and(alone), and([quote('~long'), ...loose]), quote('~many')]), passages: alone }
}

const inARow = (row: readonly Step[], weight: (typeof weights)[TextField]): string =>
  inRow(row.map((step) => ({ query: oneOfWords(step, weight), offset: step.offset })))

interface Cut {
  readonly parts: readonly Word[]
  /** the first, or last, word may go on beyond the value */
  readonly opensLeft: boolean
  readonly opensRight: boolean
  /** nothing but letters and digits in a row, which the words of the index show alone */
  readonly isOneRun: boolean
}

function cut(value: string): Cut {
  const all = [...words(value)]
  const parts = all.filter(({ form }, index) => form !== 'joined' && !(form === 'last' && all[index - 1]?.form === 'pair'))
  const first = parts[0]
  const last = parts.at(-1)
  return {
    parts,
    opensLeft: first?.form === 'word' && plain(value.slice(0, first.start)) === '',
    opensRight: last?.form === 'word' && plain(value.slice(last.end)) === '',
    isOneRun:
      /^[\p{L}\p{N}\p{M}]+$/u.test(plain(value)) &&
      plain(value).length <= longestWord &&
      (parts.length === 1 || parts.every(({ form }) => form !== 'word')),
  }
}

const openPiece = ({ parts, opensLeft, opensRight }: Cut): Piece | null =>
  opensLeft ? { text: parts[0]!.text, atEnd: parts.length > 1 || !opensRight } : null

/** `others`: the words that hold the first one, where it may go on to the left; null: too many to tell. */
function contains(
  clause: SearchClause,
  field: TextField,
  { parts, opensRight, isOneRun }: Cut,
  others: readonly string[] | null,
): Compiled {
  const steps = parts.map((word, index) => {
    const prefix = word.form === 'last' || (opensRight && index === parts.length - 1)
    return { words: [word.text, ...(index === 0 ? (others ?? []) : [])], prefix, offset: word.position }
  })
  // A first word that may be any of too many says nothing.
  const known = others === null ? steps.slice(1) : steps
  const { candidate, passages } = known.length === 0 ? { candidate: null, passages: [] } : lookedUp([[known]], field)
  const isShown = isOneRun && others !== null
  const passage = passages[0]
  return {
    clause,
    candidate,
    passages,
    test: isShown ? null : passage === undefined ? test(clause) : test(clause, inPassages(clause, passage)),
    readsContent: !isShown && (field === 'content' || field === 'any'),
    rank: steps.length === 0 ? null : or(steps.map((step) => oneOfWords(step, weights[field], maxRanked))),
    terms: [],
    pieces: [clause.value],
  }
}

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

const spaced = (text: string): string => plain(text).replace(/\s+/g, ' ')

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
