/** From terms to what the index is asked. */
import type { SearchFilter } from '../../../ports/search-engine.ts'
import type { Term } from '../../query/parser.ts'
import { inARow, type LookedUp, lookedUp, oneOfWords, type Row, rowOf, rowsOf, type Step, weights } from './phrases.ts'
import type { Mark, Weighted } from './plan.ts'
import { filterHints, prefixHint, rowHints } from './tags.ts'
import { and, eachAlone, filters, or } from './tsquery.ts'
import { gradeLexeme, type HeadingWeight, headingLexeme, quote } from './tsvector.ts'

/** Words that count as one of the query and are looked for in titles besides. */
const maxOthers = 8

/** Which other words of the index count as a word of the query. */
export type Spellings = ReadonlyMap<string, readonly string[]>

/** One group of terms on its own, to be looked for in the passages of long documents. */
export interface Check {
  readonly query: string
  readonly phrase: boolean
  readonly negated: boolean
}

export interface Queries {
  /** tsqueries that find the documents, all of them, by what the index knows, and perhaps more: see late and checks. None: the hints say it all */
  readonly matches: readonly string[]
  /** what their words must answer besides; null: nothing */
  readonly late: string | null
  /** all that is `late`, as rows of words; null: it is more. See rowOf */
  readonly rows: readonly Row[] | null
  /** numbers that a document must have, all of them; of each list of `oneOf` one */
  readonly hints: readonly number[]
  readonly oneOf: readonly (readonly number[])[]
  /** what a long document must pass besides */
  readonly checks: readonly Check[]
  /** all positive terms at once; null where there is none */
  readonly all: string | null
  /** for the score: every word as it was typed, and whole */
  readonly typed: readonly Weighted[]
  /** for the score: every word in every spelling, begun ones however they go on */
  readonly meant: string
  /** for the score: of each two words that were typed one after the other, that they stand near each other */
  readonly near: readonly string[]
  /** what is likely to score best, by marks; see Plan */
  readonly best: readonly Mark[]
  /** numbers that those must have which have such marks, all of them */
  readonly besides: readonly number[]
}

/** Puts the queries together; null where there is nothing to look for, which must not mean everything. */
export function build(
  terms: readonly Term[],
  spellings: Spellings,
  filter: SearchFilter,
  hasHints: boolean,
  rarity: (term: Term) => number = () => 1,
): Queries | null {
  if (terms.length === 0) return null
  const groups = grouped(terms)
  const wanted = terms.filter(({ negated }) => !negated)
  const asked = groups.map((group) => ask(group, spellings, hasHints))
  const { wanted: filtered, unwanted } = filters(filter)
  const found = (isNegated: boolean) =>
    asked.flatMap(({ loose }, nth) => (loose !== null && groups[nth]![0]!.negated === isNegated ? [loose] : []))
  const late = asked.flatMap(({ match, loose, row }) => (match === null || match === loose ? [] : [{ match, row }]))
  const rows = late.flatMap(({ row }) => row ?? [])
  const hints = asked.flatMap(({ hints }) => hints)
  const positive = groups.filter(([first]) => !first!.negated)
  // To go through all words that begin like one takes long, for each mark anew; where there is that word itself, those that only begin so are not what is likely.
  const settled = (term: Term) => (term.parts.length === 1 && term.parts[0]!.isWord ? whole(term) : term)
  const few = groups.map((group) => ask(group.map(settled), spellings, hasHints))
  const besides = (isOne: (group: readonly Term[]) => boolean) => [
    ...filtered,
    ...unwanted,
    ...few.flatMap(({ loose }, nth) => (loose !== null && isOne(groups[nth]!) ? [loose] : [])),
  ]
  const inOneField = positive.some((group) => group.some(({ field }) => field !== null))
  const [of, ofAll] = [besides(() => true), besides(([first]) => inOneField || first!.negated)]
  return {
    matches: eachAlone([...filtered, ...found(false)], [...unwanted, ...found(true)]),
    late: late.length === 0 ? null : and(late.map(({ match }) => match)),
    rows: rows.length === late.length ? rows : null,
    hints,
    oneOf: hasHints ? filterHints(filter) : [],
    checks: groups.map((group) => ({
      query: alone(group, spellings),
      phrase: group.some(({ parts }) => parts.length > 1),
      negated: group[0]!.negated,
    })),
    all: positive.length === 0 ? null : and(positive.map((group) => alone(group, spellings))),
    typed: wanted.map((term) => ({ query: or(rankedWords(whole(term), new Map())), weight: rarity(term) })),
    meant: or(wanted.flatMap((term) => rankedWords(isTooShort(term) ? whole(term) : term, spellings))),
    near: near(positive),
    best: best(positive, spellings).map(({ mark, isOfAll }) => ({ mark, besides: isOfAll ? ofAll : of })),
    besides: isShown(positive) ? [] : few.flatMap(({ hints }) => hints),
  }
}

const whole = (term: Term): Term => ({ ...term, parts: term.parts.map((part) => ({ ...part, prefix: false })) })

/** One or two letters begin so many words of any document that how many says nothing, and takes long to count. */
const isTooShort = ({ parts }: Term): boolean => parts.length === 1 && parts[0]!.prefix && parts[0]!.text.length <= 2

/** What is joined by OR stands together. */
function grouped(terms: readonly Term[]): Term[][] {
  const groups: Term[][] = []
  for (const term of terms) {
    const last = groups.at(-1)
    if (term.alternative && last) last.push(term)
    else groups.push([term])
  }
  return groups
}

interface Ask {
  /** null: the hints say it all */
  readonly match: string | null
  /** what of it the index answers alone, and perhaps more; null: nothing */
  readonly loose: string | null
  readonly hints: readonly number[]
  /** see rowOf */
  readonly row: Row | null
}

/** A group as any document must have it that could match. */
function ask(group: readonly Term[], spellings: Spellings, hasHints: boolean): Ask {
  const [term] = group as [Term, ...Term[]]
  if (term.negated) {
    const match = `!${or(group.map((one) => exactly(one, spellings)))}`
    const isPlain = group.every(({ parts, joined, field }) => parts.length === 1 && joined === null && field !== 'content')
    return { match, loose: isPlain ? match : null, hints: [], row: null }
  }
  const found = group.map((one) => exact(lookedUp([rowsOf(one, spellings)], one.field ?? 'any'), hasHints))
  const whole = {
    match: or(found.map(({ candidate }) => candidate)),
    loose: or(found.map(({ loose }) => loose)),
    row: group.length === 1 ? rowOf(term) : null,
  }
  if (!hasHints || group.length > 1) return { ...whole, hints: [] }
  const hint = prefixOf(term, spellings)
  return hint === null
    ? { ...whole, hints: term.joined === null ? rowHints(term.parts) : [] }
    : { match: null, loose: null, hints: [hint], row: null }
}

/** What the index knows alone need not be looked up otherwise. */
const exact = (found: LookedUp, hasHints: boolean): Pick<LookedUp, 'candidate' | 'loose'> =>
  hasHints && found.known !== undefined ? { candidate: found.known, loose: found.known } : found

/** The hint that says all of a term: of a word that is but begun, anywhere in a document. */
function prefixOf({ parts, joined, field }: Term, spellings: Spellings): number | null {
  const [part] = parts
  if (parts.length > 1 || joined !== null || field !== null || !part?.prefix || spellings.has(part.text)) return null
  return prefixHint(part.text)
}

/** In one row of the index; what is not there may still be in a passage. */
function exactly(term: Term, spellings: Spellings): string {
  const { field } = term
  return field === null || field === 'content' ? aloneOne(term, spellings) : lookedUp([rowsOf(term, spellings)], field).candidate
}

const alone = (group: readonly Term[], spellings: Spellings): string => or(group.map((term) => aloneOne(term, spellings)))
const aloneOne = (term: Term, spellings: Spellings): string =>
  or(rowsOf(term, spellings).map((row) => inARow(row, weights[term.field ?? 'any'])))

const rankedWords = (term: Term, spellings: Spellings): string[] =>
  rowsOf(term, spellings).flatMap((row) => row.map((step) => oneOfWords(step, weights[term.field ?? 'any'])))

/** Pairs that are counted, and words from the one to the other. */
const maxPairs = 8
const nearby = [1, 2, 3]

/** A phrase, and what is one of several, says nothing of how near it should be to another. */
function near(groups: readonly (readonly Term[])[]): string[] {
  const words = groups.map(([term, ...others]) =>
    others.length > 0 || term!.parts.length > 1 || term!.field !== null ? null : quote(term!.parts[0]!.text),
  )
  const pairs = words.slice(1).flatMap((word, nth): [string, string][] => (word && words[nth] ? [[words[nth], word]] : []))
  return pairs
    .slice(0, maxPairs)
    .map(([one, other]) => or(nearby.flatMap((far) => [`(${one} <${far}> ${other})`, `(${other} <${far}> ${one})`])))
}

/** Whether a mark of a word says all that is asked: one word is, wherever it stands. */
const isShown = (groups: readonly (readonly Term[])[]): boolean =>
  groups.length === 1 && groups[0]!.every(({ parts, joined, field }) => parts.length === 1 && joined === null && field === null)

/** Of what has this mark is known that it has the words of all groups somewhere, or of some. */
interface Likely {
  readonly mark: string
  readonly isOfAll: boolean
}

/** From what says much of every word to what says something of one of them; see grades in tsvector.ts. */
function best(groups: readonly (readonly Term[])[], spellings: Spellings): Likely[] {
  if (groups.length === 0 || groups.some((group) => group.some(({ field }) => field !== null && field !== 'title'))) return []
  const graded = (...all: number[]) => all.map((grade) => (word: string) => gradeLexeme(word, grade))
  const heading = (...weights: HeadingWeight[]) => weights.map((weight) => (word: string) => headingLexeme(word, weight))
  const each = (marks: readonly MarkOf[]) => groups.map((group) => marked(group, marks, typedOnly))
  const meantBy = (marks: readonly MarkOf[]) => groups.map((group) => marked(group, marks, nearest, spellings))
  const all = (marks: readonly MarkOf[]) => ({ mark: and(each(marks)), isOfAll: true })
  // What has the mark for the words as they were typed came before.
  const meant = (marks: readonly MarkOf[]) => {
    const [typed, any] = [and(each(marks)), and(meantBy(marks))]
    return typed === any ? [] : { mark: and([any, `!${typed}`]), isOfAll: true }
  }
  const some = (marks: readonly MarkOf[]) => ({ mark: or(each(marks)), isOfAll: false })
  const often = graded(7, 6, 5, 4)
  const fromMuch =
    groups.length === 1
      ? [
          all(graded(7, 6)),
          all(graded(5, 4)),
          meant(often),
          all(graded(3, 2)),
          meant(graded(3, 2)),
          all(heading('A')),
          meant(heading('A')),
          all(heading('B')),
          all(heading('C')),
          meant(heading('B', 'C')),
          all(graded(1)),
          meant(graded(1)),
        ]
      : [
          { mark: and([...each(heading('A')), or(each(often))]), isOfAll: true },
          all(heading('A')),
          some(often),
          some(heading('A')),
          meant(heading('A')),
          { mark: or(meantBy(heading('A'))), isOfAll: false },
          some(heading('B')),
          some(heading('C')),
          all(graded(1)),
          some(graded(1)),
        ]
  return [...new Map(fromMuch.flat().map((one) => [one.mark, one])).values()]
}

type MarkOf = (word: string) => string

const typedOnly = (step: Step): Step => ({ ...step, words: step.words.slice(0, 1), prefix: false })
const nearest = (step: Step): Step => ({ ...step, words: step.words.slice(0, 1 + maxOthers) })

/** That some term of a group has all its words with one of the marks. */
function marked(group: readonly Term[], marks: readonly MarkOf[], meant: (step: Step) => Step, spellings: Spellings = new Map()): string {
  const one = (step: Step) => or(marks.map((mark) => oneOfWords({ ...step, words: step.words.map(mark) }, '')))
  const rows = (term: Term) => rowsOf(isTooShort(term) ? whole(term) : term, spellings)
  return or(group.flatMap((term) => rows(term).map((row) => and(row.map((step) => one(meant(step)))))))
}

/** No document has this word, with which no filter begins. */
export const nowhere = quote('~nowhere')
