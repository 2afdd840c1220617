/** From terms to tsqueries. */
import type { SearchFilter } from '../../ports.ts'
import type { Part, Term } from '../query.ts'
import { quote } from './postgres-vector.ts'

/** Which other words of the index count as a word of the query. */
export type Spellings = ReadonlyMap<string, readonly string[]>

/** One term on its own, to be looked for in the passages of long documents. */
export interface Check {
  readonly query: string
  readonly phrase: boolean
  readonly negated: boolean
}

export interface Queries {
  /** finds the documents; long ones only perhaps: see checks */
  readonly match: string
  /** what a long document must pass besides */
  readonly checks: readonly Check[]
  /** all positive terms at once; null where there is none */
  readonly all: string | null
  /** for the score: every word as it was typed */
  readonly typed: string
  /** for the score: every word in every spelling */
  readonly meant: string
}

/** The lexemes that filters are turned into; one that a document has is the same as one that is asked for. */
export const filterLexemes = {
  owner: (id: string) => `~o${id}`,
  mimeType: (name: string) => `~m${name.toLowerCase()}`,
  label: (id: string) => `~l${id}`,
  status: (status: string) => `~s${status}`,
  source: (id: string) => `~r${id}`,
}

/** Puts the queries together; null where there is nothing to look for, which must not mean everything. */
export function build(terms: readonly Term[], spellings: Spellings, filter: SearchFilter): Queries | null {
  if (terms.length === 0) return null
  const wanted = terms.filter(({ negated }) => !negated)
  const words = wanted.flatMap(({ parts, joined }) => [...parts.map((part) => lexeme(part)), ...(joined === null ? [] : [quote(joined)])])
  const others = wanted.flatMap(({ parts }) => parts.flatMap(({ text }) => spellings.get(text) ?? [])).map(quote)
  return {
    match: and([...filters(filter), ...terms.map((term) => match(term, spellings))]),
    checks: terms.map((term) => ({ query: alone(term, spellings), phrase: term.parts.length > 1, negated: term.negated })),
    all: wanted.length === 0 ? null : and(wanted.map((term) => alone(term, spellings))),
    typed: or(words),
    meant: or([...words, ...others]),
  }
}

/** A term as any document must have it that could match. */
function match(term: Term, spellings: Spellings): string {
  const exact = alone(term, spellings)
  if (term.negated) return `!${exact}`
  const perhaps = term.parts.length > 1 ? [and([quote('~long'), ...term.parts.map((part) => lexeme(part))])] : []
  return or([exact, ...perhaps, quote('~many')])
}

function alone({ parts, joined }: Term, spellings: Spellings): string {
  const last = parts.at(-1)!
  const steps = parts.map((part) => ({
    query: or([lexeme(part), ...(parts.length === 1 ? (spellings.get(part.text) ?? []).map(quote) : [])]),
    offset: part.offset,
  }))
  return or([inRow(steps), ...(joined === null ? [] : [lexeme({ text: joined, prefix: last.prefix })])])
}

/** What follows each other; `offset` counts words, from wherever. */
export const inRow = (steps: readonly { query: string; offset: number }[]): string =>
  `(${steps.map(({ query, offset }, index) => (index === 0 ? query : ` <${offset - steps[index - 1]!.offset}> ${query}`)).join('')})`

/** The filters that are among the words. */
export function filters({ ownerId, mimeTypes, notMimeTypes, labelIds, notLabelIds, status, sourceId }: SearchFilter): string[] {
  const oneOf = (queries: readonly string[]) => (queries.length === 0 ? [] : [or(queries)])
  return [
    ...(ownerId === null ? [] : [quote(filterLexemes.owner(ownerId))]),
    ...oneOf(mimeTypes.map(ofType)),
    ...notMimeTypes.map((name) => `!${ofType(name)}`),
    ...labelIds.map((id) => quote(filterLexemes.label(id))),
    ...notLabelIds.map((id) => `!${quote(filterLexemes.label(id))}`),
    ...oneOf(status.map((one) => quote(filterLexemes.status(one)))),
    ...(sourceId === null ? [] : [quote(filterLexemes.source(sourceId))]),
  ]
}

const ofType = (name: string): string =>
  name.endsWith('/*') ? `${quote(filterLexemes.mimeType(name.slice(0, -1)))}:*` : quote(filterLexemes.mimeType(name))

/** One word. `weight`: only where it stands in that field (A title, B labels, C filename, D content). */
export const lexeme = ({ text, prefix }: Pick<Part, 'text' | 'prefix'>, weight: '' | 'A' | 'B' | 'C' | 'D' = ''): string =>
  quote(text) + (prefix || weight ? `:${prefix ? '*' : ''}${weight}` : '')
export const and = (queries: readonly string[]): string => join(queries, ' & ')
export const or = (queries: readonly string[]): string => join([...new Set(queries)], ' | ')
const join = (queries: readonly string[], operator: string): string =>
  queries.length === 1 ? queries[0]! : queries.length === 0 ? '' : `(${queries.join(operator)})`
