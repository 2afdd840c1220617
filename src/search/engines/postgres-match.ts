/** Runs a search that is put together: which documents, in which order, how many of which type and label. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/db.ts'
import type { SearchAnswer, SearchFilter, SearchSort } from '../../ports.ts'

export interface Plan {
  /** what the index decides; in terms of `entry`, a row of search_entries */
  readonly conditions: readonly RawBuilder<unknown>[]
  /** what takes a look at the documents that the index leaves, likewise */
  readonly tests: readonly RawBuilder<unknown>[]
  /** so many of them are looked at, the newest; null: all */
  readonly maxTested: number | null
  /** 0 to 1, likewise */
  readonly score: RawBuilder<number>
  readonly sort: readonly SearchSort[]
}

export interface Window {
  readonly offset: number
  readonly limit: number
  readonly maxResults: number
}

export interface Scored {
  readonly document_id: string
  readonly score: number
}

export interface Matches extends Omit<SearchAnswer, 'hits'> {
  readonly page: readonly Scored[]
}

/** One page of the matches, with totals over at most `maxResults` of them: the first in the order asked for; where that is by score, the newest. All in one snapshot. */
export async function match(
  db: Db,
  { conditions, tests, maxTested, score, sort }: Plan,
  { offset, limit, maxResults }: Window,
): Promise<Matches> {
  const isByScore = sort[0]!.field === 'score'
  const byDocument = sort.some(({ field }) => field !== 'score') ? sql`join documents on documents.id = entry.document_id` : sql``
  const narrowed = isByScore ? sql`order by entry.document_id desc` : sql`order by ${inOrder(sort, score)}`
  // Candidates come newest first as they are, and are only tested until there are enough: sorting them would test them all.
  const narrow = isByScore && maxTested !== null ? sql`` : narrowed
  const source = maxTested === null ? sql`search_entries entry` : sql`candidates entry`
  const { rows } = await sql<{
    count: number
    is_cut: boolean
    page: Scored[]
    mime_types: Record<string, number>
    labels: Record<string, number>
  }>`
    with ${
      maxTested === null
        ? sql``
        : sql`candidates as materialized (
            select entry.document_id, entry.words, entry.parts from search_entries entry ${where(conditions)}
            order by entry.document_id desc limit ${maxTested}
          ),`
    }
    matches as materialized (
      select entry.document_id, entry.words, entry.parts from ${source} ${isByScore ? sql`` : byDocument}
      ${where(maxTested === null ? [...conditions, ...tests] : tests)} ${narrow} limit ${maxResults + 1}
    ), counted as materialized (
      select entry.document_id, ${score} as score
      from (select entry.* from matches entry ${isByScore ? sql`` : byDocument} ${narrowed} limit ${maxResults}) entry
    ), page as (
      select entry.document_id, entry.score, row_number() over (order by ${inOrder(sort, sql`entry.score`)}) as place
      from counted entry ${byDocument} order by place limit ${limit} offset ${offset}
    )
    select
      (select count(*) from matches) as count,
      ${maxTested === null ? sql`false` : sql`(select count(*) >= ${maxTested} from candidates)`} as is_cut,
      (select coalesce(json_agg(json_build_object('document_id', document_id, 'score', score) order by place), '[]') from page) as page,
      (select coalesce(json_object_agg(mime_type, count), '{}') from (
        select mime_type, count(*) from counted join documents on documents.id = document_id group by mime_type order by count(*) desc, mime_type
      ) types) as mime_types,
      (select coalesce(json_object_agg(name, count), '{}') from (
        select labels.name, count(*) from counted join document_labels using (document_id) join labels on labels.id = label_id
        group by labels.name order by count(*) desc, labels.name
      ) names) as labels`.execute(db)
  const { count, is_cut, page, ...facets } = rows[0]!
  return { page, total: Math.min(count, maxResults), isCapped: count > maxResults || is_cut, facets }
}

/** What of a filter is not among the words. */
export function ranges({ from, to, minConfidence }: SearchFilter): RawBuilder<unknown>[] {
  return [
    ...(from ? [sql`entry.created_at >= ${from}`] : []),
    ...(to ? [sql`entry.created_at <= ${to}`] : []),
    ...(minConfidence === null ? [] : [sql`entry.confidence >= ${minConfidence}`]),
  ]
}

/** From 0 to 1 by the words of a query. */
export const rank = (query: string): RawBuilder<number> => sql<number>`ts_rank('{0.1, 0.3, 0.6, 1}', words, ${query}::tsquery)`

const where = (all: readonly RawBuilder<unknown>[]): RawBuilder<unknown> =>
  all.length === 0 ? sql`` : sql`where ${sql.join([...all], sql` and `)}`

/** As in the list of documents: nothing counts as less than anything. */
function inOrder(sort: readonly SearchSort[], score: RawBuilder<unknown>): RawBuilder<unknown> {
  const direction = (order: SearchSort['order']) => (order === 'asc' ? sql`asc nulls first` : sql`desc nulls last`)
  const keys = sort.map(({ field, order }) => sql`${field === 'score' ? score : sql.ref(`documents.${field}`)} ${direction(order)}`)
  return sql.join([...keys, sql`entry.document_id ${direction(sort[0]!.order)}`])
}
