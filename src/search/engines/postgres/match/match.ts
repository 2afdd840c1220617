/** Runs a plan in one statement: candidates, scores, one page, total and facets. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../../db/pool.ts'
import type { SearchAnswer, SearchSort } from '../../../../ports/search-engine.ts'
import type { Matches, Scored, Window } from '../../../hits.ts'
import type { Plan } from '../compile/plan.ts'
import { withSegments } from '../index/segments.ts'
import { newestAndBest, rankedOf } from './candidates.ts'
import { facetsOf } from './facets.ts'
import { firstInOrder, orderBy } from './sort.ts'

/**
 * Returns one page of the matches, with total and facets over at most `maxResults` of them: the newest and the best in the order of scores, the first
 * in any other order.
 */
export function match(db: Db, plan: Plan, sort: readonly SearchSort[], { offset, limit, maxResults }: Window): Promise<Matches> {
  const isByScore = sort[0]!.field === 'score'
  return withSegments(db, async (segments) => {
    const { ctes, isCapped } = isByScore
      ? newestAndBest(segments, plan, maxResults)
      : await firstInOrder(db, segments, plan, sort, maxResults)
    const page = isByScore ? pageByScore(plan, sort, { limit, offset, maxResults }) : pageInOrder(plan, limit, offset)
    const { rows } = await sql<SearchAnswer['facets'] & { total: number; is_capped: boolean; page: Scored[] }>`
      with ${ctes}
      select (select count(*)::integer from candidates) as total, ${isCapped} as is_capped,
        (select coalesce(json_agg(json_build_object('document_id', document_id, 'score', score)), '[]') from (${page}) entry) as page,
        ${facetsOf(sql`candidates`)}`.execute(db)
    const { page: scored, total, is_capped, ...facets } = rows[0]!
    return { page: scored, total, isCapped: is_capped, facets }
  })
}

/**
 * A page in the order of scores. Ranked matches come first; no other match gets a higher score than the last of them. The first page therefore reads
 * few tsvectors.
 */
function pageByScore({ score }: Plan, sort: readonly SearchSort[], { limit, offset, maxResults }: Window): RawBuilder<unknown> {
  const key = (field: SearchSort['field']) =>
    field === 'score' ? sql`score` : sql`(select ${sql.ref(field)} from live_documents documents where documents.id = entry.document_id)`
  const isFirst = sort[0]!.order === 'desc' && offset + limit <= rankedOf(maxResults)
  // The concatenation reads a tsvector once for all ranks of the score.
  const scored = sql`
    select document_id, is_ranked, ${score} as score from (
      select document_id, segment, parts, is_ranked, words || ''::tsvector as words from candidates ${isFirst ? sql`where is_ranked` : sql``} offset 0
    ) entry offset 0`
  const lowest = sql`case when is_ranked then score else least(score, min(score) filter (where is_ranked) over ()) end`
  return sql`
    select document_id, ${isFirst ? sql`score` : lowest} as score from (${scored}) entry
    order by ${isFirst ? sql`` : sql`is_ranked ${sql.raw(sort[0]!.order)},`} ${orderBy(sort, key)} limit ${limit} offset ${offset}`
}

const pageInOrder = ({ score }: Plan, limit: number, offset: number): RawBuilder<unknown> =>
  sql`select document_id, ${score} as score from (select * from candidates order by place limit ${limit} offset ${offset}) entry`
