/** Converts the words of a query to an OpenSearch query. */
import type { SearchQuery } from '../../../ports/search-engine.ts'
import { groupsOf, type Term } from '../../query/parser.ts'
import { anyOf, filterOf, type Query } from './filter.ts'
import { matchTerm, scoreOf, type WordField, withinLimits } from './terms.ts'

/** Score of a match without any typed word. */
const minScore = 0.05

const fieldOf = ({ field }: Term): WordField => field ?? 'any'

/** Returns the query for the documents that match all terms. */
export function toQuery(
  terms: readonly Term[],
  { fuzzy, filter }: Pick<SearchQuery, 'fuzzy' | 'filter'>,
  languages: readonly string[],
): Query {
  const options = withinLimits({ fuzzy, languages }, terms.length)
  const groups = groupsOf(terms).map((group) => ({
    isNegated: group[0]!.negated,
    query: anyOf(group.map((term) => matchTerm(term, fieldOf(term), options))),
  }))
  const { filter: required, mustNot } = filterOf(filter)
  return {
    bool: {
      filter: required,
      must: groups.filter(({ isNegated }) => !isNegated).map(({ query }) => ({ constant_score: { filter: query, boost: minScore } })),
      must_not: [...mustNot, ...groups.filter(({ isNegated }) => isNegated).map(({ query }) => query)],
      should: scoreOf(
        terms.filter(({ negated }) => !negated),
        fieldOf,
      ),
    },
  }
}
