/** The parts that tsqueries are made of. */
import type { SearchFilter } from '../../../ports/search-engine.ts'
import type { Part } from '../../query/parser.ts'
import { quote } from './tsvector.ts'

/** The lexemes that filters are turned into; one that a document has is the same as one that is asked for. */
export const filterLexemes = {
  owner: (id: string) => `~o${id}`,
  mimeType: (name: string) => `~m${name.toLowerCase()}`,
  label: (id: string) => `~l${id}`,
  status: (status: string) => `~s${status}`,
  source: (id: string) => `~r${id}`,
}

/** What follows each other; `offset` counts words, from wherever. */
export const inRow = (steps: readonly { query: string; offset: number }[]): string =>
  `(${steps.map(({ query, offset }, index) => (index === 0 ? query : ` <${offset - steps[index - 1]!.offset}> ${query}`)).join('')})`

/**
 * All that is asked, as tsqueries that the index is asked each alone: it goes on from what answers one to what answers the next. In one of them all, it would hold whatever
 * has one of the rarer words of any of them against the whole. What is not to be there is asked with the first, because alone it would be asked of every entry.
 */
export function eachAlone(wanted: readonly string[], unwanted: readonly string[]): string[] {
  const [first, ...others] = wanted
  if (first === undefined) return unwanted.length === 0 ? [] : [and(unwanted)]
  return [and([first, ...unwanted]), ...others]
}

/** The filters that are among the words: what of them a document must have, and what it must not. */
export function filters({ ownerId, mimeTypes, notMimeTypes, labelIds, notLabelIds, status, sourceId }: SearchFilter): {
  wanted: string[]
  unwanted: string[]
} {
  const oneOf = (queries: readonly string[]) => (queries.length === 0 ? [] : [or(queries)])
  return {
    wanted: [
      ...(ownerId === null ? [] : [quote(filterLexemes.owner(ownerId))]),
      ...(sourceId === null ? [] : [quote(filterLexemes.source(sourceId))]),
      ...labelIds.map((id) => quote(filterLexemes.label(id))),
      ...oneOf(mimeTypes.map(ofType)),
      ...oneOf(status.map((one) => quote(filterLexemes.status(one)))),
    ],
    unwanted: [...notMimeTypes.map((name) => `!${ofType(name)}`), ...notLabelIds.map((id) => `!${quote(filterLexemes.label(id))}`)],
  }
}

const ofType = (name: string): string =>
  name.endsWith('/*') ? `${quote(filterLexemes.mimeType(name.slice(0, -1)))}:*` : quote(filterLexemes.mimeType(name))

/** One word. `weight`: only where it stands in that field (A title, B labels, C filename, D content). */
export const lexeme = ({ text, prefix }: Pick<Part, 'text' | 'prefix'>, weight: '' | 'A' | 'B' | 'C' | 'D' = ''): string =>
  quote(text) + (prefix || weight ? `:${prefix ? '*' : ''}${weight}` : '')
export const and = (queries: readonly string[]): string => join(queries, ' & ')
export const or = (queries: readonly string[]): string => halved([...new Set(queries)])
/** In halves, so that a hit among the first ends the search: in a long row PostgreSQL goes down to its beginning for each document, a level for each word. */
const halved = (queries: readonly string[]): string =>
  queries.length <= maxInRow
    ? join(queries, ' | ')
    : join([halved(queries.slice(0, queries.length >> 1)), halved(queries.slice(queries.length >> 1))], ' | ')
const maxInRow = 8
const join = (queries: readonly string[], operator: string): string =>
  queries.length === 1 ? queries[0]! : queries.length === 0 ? '' : `(${queries.join(operator)})`
