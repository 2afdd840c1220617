/** From terms to what the index is asked. */
import type { SearchFilter } from '../../ports/search.ts'
import type { Term } from '../query.ts'
import { filterHints, prefixHint, rowHints } from './postgres-hints.ts'
import { and, filters, or } from './postgres-query.ts'
import { inARow, lookedUp, oneOfWords, rowsOf, type Step, weights } from './postgres-rows.ts'
import { headingLexeme, quote } from './postgres-vector.ts'

/** Which other words of the index count as a word of the query. */
export type Spellings = ReadonlyMap<string, readonly string[]>

/** One group of terms on its own, to be looked for in the passages of long documents. */
export interface Check {
  readonly query: string
  readonly phrase: boolean
  readonly negated: boolean
}

export interface Queries {
  /** finds the documents; long ones only perhaps: see checks. null: the hints say it all */
  readonly match: string | null
  /** numbers that a document must have, all of them; of each list of `oneOf` one */
  readonly hints: readonly number[]
  readonly oneOf: readonly (readonly number[])[]
  /** what a long document must pass besides */
  readonly checks: readonly Check[]
  /** all positive terms at once; null where there is none */
  readonly all: string | null
  /** for the score: every word as it was typed, and whole */
  readonly typed: string
  /** for the score: every word in every spelling, begun ones however they go on */
  readonly meant: string
  /** that all positive terms are in the title; null where that cannot be asked */
  readonly inTitle: string | null
}

/** Puts the queries together; null where there is nothing to look for, which must not mean everything. */
export function build(terms: readonly Term[], spellings: Spellings, filter: SearchFilter, hasHints: boolean): Queries | null {
  if (terms.length === 0) return null
  const groups = grouped(terms)
  const wanted = terms.filter(({ negated }) => !negated)
  const asked = groups.map((group) => ask(group, spellings, hasHints))
  const matches = [...filters(filter), ...asked.flatMap(({ match }) => match ?? [])]
  const whole = (term: Term): Term => ({ ...term, parts: term.parts.map((part) => ({ ...part, prefix: false })) })
  const positive = groups.filter(([first]) => !first!.negated)
  return {
    match: matches.length === 0 ? null : and(matches),
    hints: asked.flatMap(({ hints }) => hints),
    oneOf: hasHints ? filterHints(filter) : [],
    checks: groups.map((group) => ({
      query: alone(group, spellings),
      phrase: group.some(({ parts }) => parts.length > 1),
      negated: group[0]!.negated,
    })),
    all: positive.length === 0 ? null : and(positive.map((group) => alone(group, spellings))),
    typed: or(wanted.flatMap((term) => rankedWords(whole(term), new Map()))),
    meant: or(wanted.flatMap((term) => rankedWords(isTooShort(term) ? whole(term) : term, spellings))),
    inTitle: inTitle(positive),
  }
}

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

/** A group as any document must have it that could match. */
function ask(group: readonly Term[], spellings: Spellings, hasHints: boolean): { match: string | null; hints: number[] } {
  const [term] = group as [Term, ...Term[]]
  if (term.negated) return { match: `!${or(group.map((one) => exactly(one, spellings)))}`, hints: [] }
  const match = or(group.map((one) => lookedUp([rowsOf(one, spellings)], one.field ?? 'any').candidate))
  if (!hasHints || group.length > 1) return { match, hints: [] }
  const hint = prefixOf(term, spellings)
  return hint === null ? { match, hints: term.joined === null ? rowHints(term.parts) : [] } : { match: null, hints: [hint] }
}

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

function inTitle(groups: readonly (readonly Term[])[]): string | null {
  const none = new Map<string, string[]>()
  const isHinted = groups.some((group) =>
    group.some((term) => prefixOf(term, none) !== null || (term.field !== null && term.field !== 'title')),
  )
  if (groups.length === 0 || isHinted) return null
  const marked = (step: Step) => oneOfWords({ ...step, words: step.words.map((word) => headingLexeme(word, 'A')) }, '')
  return and(groups.map((group) => or(group.flatMap((term) => rowsOf(term, none).map((row) => and(row.map(marked)))))))
}

/** No document has this word, with which no filter begins. */
export const nowhere = quote('~nowhere')
