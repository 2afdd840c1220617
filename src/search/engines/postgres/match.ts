/** Runs a search that is put together: which documents, in which order, how many of which type and label. */
import { type RawBuilder, sql } from 'kysely'
import { kept } from '../../../db/cached-plans.ts'
import type { Db } from '../../../db/pool.ts'
import type { SearchAnswer, SearchSort } from '../../../ports/search-engine.ts'
import { type Collected, entries, entriesIn, type Scored, slices, surely } from './candidates.ts'
import { facets, facetsOf, noFacets } from './facets.ts'
import { type Plan, type Planned, planFor, where } from './plan.ts'
import { type Chunk, chunkFor, entriesOf, reading } from './segments.ts'
import { firstInOrder, inOrder } from './sort.ts'
import { likely, maxBest } from './top-candidates.ts'

export interface Window {
  readonly offset: number
  readonly limit: number
  readonly maxResults: number
}

export interface Matches extends Omit<SearchAnswer, 'hits'> {
  readonly page: readonly Scored[]
}

/** Matches that are all ranked by all their words. Of more, these come first: the order of the others is that of what stands in their rows. */
const maxRanked = 100
const maxFirst = 40
/** Chunks in one statement: each takes time to plan, whether or not it is looked into. */
const maxTogether = 60

/**
 * One page of the matches, with totals over at most `maxResults` of them: the first in the order asked for; where that is by score, the newest.
 * `common`: finds only some of them, in less time; nothing else is looked for where these are already too many in the newest chunk.
 */
export function match(db: Db, planned: Planned, sort: readonly SearchSort[], window: Window, common?: Planned): Promise<Matches> {
  const isByScore = sort.every(({ field }) => field === 'score')
  return reading(db, async (chunks) => {
    const isTogether = ({ hinted }: Planned) => isByScore && hinted.tests.length === 0 && chunks.length <= maxTogether
    const { order } = sort[0]!
    if (common && order === 'desc' && isTogether(common) && chunks.every(({ hasHints }) => hasHints)) {
      const answer = await together(db, chunks, common, order, window, chunks.slice(0, 1))
      if (answer.isCapped) return answer
    }
    return isTogether(planned) ? together(db, chunks, planned, order, window) : stepByStep(db, chunks, planned, sort, window)
  })
}

async function stepByStep(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  sort: readonly SearchSort[],
  { offset, limit, maxResults }: Window,
): Promise<Matches> {
  const isByScore = sort[0]!.field === 'score'
  const { found, isCapped } = isByScore
    ? await newest(db, chunks, planned, maxResults)
    : await firstInOrder({ db, chunks, planned, sort, maxResults })
  const page = isByScore
    ? (await inOrderOfScore(db, await ranked(db, chunks, planned, found, sort[0]!.order), sort)).slice(offset, offset + limit)
    : await exactly(db, chunks, planned, found.slice(offset, offset + limit))
  return {
    page,
    total: found.length,
    isCapped,
    facets: found.length === 0 ? noFacets : await facets(db, entriesWith(chunks, found)),
  }
}

/**
 * The newest matches as below, counted and cut into pages by PostgreSQL itself: sending it a thousand ids back took longer than finding them.
 * Where there are too many, some of the best besides. `searched`: the chunks of which the newest are.
 */
async function together(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  order: SearchSort['order'],
  { offset, limit, maxResults }: Window,
  searched = chunks,
): Promise<Matches> {
  const { score } = planned.hinted
  const best = likely(chunks, planned, Math.min(maxBest, maxResults))
  const isMoreThan = (count: number) => sql<boolean>`((select count(*) from newest) > ${count})`
  const isCapped = isMoreThan(maxResults)
  const isAscending = order === 'asc'
  const first = isAscending
    ? sql`${maxResults}`
    : sql`case when ${isMoreThan(maxRanked)} then ${maxFirst}::integer else ${maxRanked}::integer end`
  const inOrder = isAscending
    ? sql`score asc nulls first, document_id asc`
    : sql`is_first desc, score desc nulls last, rough desc, document_id desc`
  const { rows } = await sql<SearchAnswer['facets'] & { total: number; is_capped: boolean; page: Scored[] }>`${kept}
    with newest as materialized (${entriesIn(slices(searched, planned), planned, maxResults + 1)}),
      best as materialized (${best ? sql`select * from (${best}) likely where ${isCapped}` : sql`select * from newest limit 0`}),
      found as materialized (
        select * from best
        union all (
          select * from newest where document_id not in (select document_id from best) order by document_id desc limit ${maxResults} - (select count(*) from best)
        )
      ),
      first as materialized (
        select document_id, rough, ${score} as score from (select * from found order by rough desc, document_id desc limit ${first}) entry
      ),
      -- None of the others counts more than one of the first.
      ranked as (
        select document_id, rough, score, true as is_first from first
        union all select document_id, rough, least(rough, (select min(score) from first)), false from found where document_id not in (select document_id from first)
      )
    select (select count(*)::integer from found) as total, ${isCapped} as is_capped,
      (select coalesce(json_agg(json_build_object('document_id', document_id, 'score', score)), '[]') from (
        select * from ranked order by ${inOrder} limit ${limit} offset ${offset}
      ) entry) as page, ${facetsOf(sql`found`)}`.execute(db)
  const { page, total, is_capped, ...facets } = rows[0]!
  return { page, total, isCapped: is_capped, facets }
}

/** The same order of matches whose scores are rough. */
async function ranked(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  found: readonly Scored[],
  order: SearchSort['order'],
): Promise<readonly Scored[]> {
  if (order === 'asc' || found.length <= maxRanked) return exactly(db, chunks, planned, found)
  const all = found.toSorted((one, other) => other.score - one.score || (one.document_id < other.document_id ? 1 : -1))
  const first = await exactly(db, chunks, planned, all.slice(0, maxFirst))
  const least = Math.min(...first.map(({ score }) => score))
  return [...first, ...all.slice(maxFirst).map((scored) => ({ ...scored, score: Math.min(scored.score, least) }))]
}

/** The entries of these, of which there is at least one. */
function entriesWith(chunks: readonly Chunk[], found: readonly Scored[]): RawBuilder<unknown> {
  const each = [...Map.groupBy(found, ({ document_id }) => chunkFor(chunks, document_id))].map(
    ([chunk, some]) =>
      sql`select entry.* from ${entriesOf(chunk)} where document_id = any(${some.map(({ document_id }) => document_id)}::uuid[])`,
  )
  return sql.join(each, sql` union all `)
}

/** These, with their scores by all words of their entries. */
async function exactly(db: Db, chunks: readonly Chunk[], planned: Planned, found: readonly Scored[]): Promise<Scored[]> {
  if (found.length === 0) return []
  const { rows } =
    await sql<Scored>`select document_id, ${planned.hinted.score} as score from (${entriesWith(chunks, found)}) entry`.execute(db)
  const scores = new Map(rows.map(({ document_id, score }) => [document_id, score]))
  return found.map((scored) => ({ ...scored, score: scores.get(scored.document_id) ?? scored.score }))
}

/** The newest matches, from the newest chunk to the oldest, until there are enough; where there are too many, some of the best besides. */
async function newest(db: Db, chunks: readonly Chunk[], planned: Planned, maxResults: number): Promise<Collected> {
  const { found, isCut } = await collect(db, chunks, planned, maxResults + 1)
  if (found.length <= maxResults) return { found, isCapped: isCut }
  const best = likely(chunks, planned, Math.min(maxBest, maxResults))
  const { rows } = best ? await sql<Scored>`select document_id, rough as score from (${best}) entry`.execute(db) : { rows: [] }
  const all = new Map([...rows, ...found].map((scored) => [scored.document_id, scored]))
  return { found: [...all.values()].slice(0, maxResults), isCapped: true }
}

async function collect(db: Db, chunks: readonly Chunk[], planned: Planned, limit: number): Promise<{ found: Scored[]; isCut: boolean }> {
  const { tests, maxTested } = planned.hinted
  if (tests.length > 0) return collectTested(db, chunks, planned, limit, maxTested)
  const found: Scored[] = []
  let together = 1
  for (let start = 0; start < chunks.length && found.length < limit; ) {
    const { rows } = await sql<Scored>`
      select document_id, rough as score from (${entriesIn(chunks.slice(start, start + together), planned, limit - found.length)}) entry`.execute(
      db,
    )
    found.push(...rows)
    start += together
    together = Math.min(maxTogether, together * 3)
  }
  return { found, isCut: false }
}

async function collectTested(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  limit: number,
  maxTested: number | null,
): Promise<{ found: Scored[]; isCut: boolean }> {
  const found: Scored[] = []
  let tested = 0
  for (const chunk of chunks) {
    const mayTest = maxTested === null ? null : maxTested - tested
    if (found.length >= limit || mayTest === 0) break
    const { rows } = await sql<
      Scored & { seen: number }
    >`${testedIn(chunk, planFor(planned, chunk), limit - found.length, mayTest)}`.execute(db)
    found.push(...rows.flatMap(({ document_id, score }) => (document_id === null ? [] : [{ document_id, score }])))
    tested += rows[0]?.seen ?? 0
  }
  return { found, isCut: maxTested !== null && tested >= maxTested }
}

/** The newest of one chunk that pass the tests, or one row of nothing; with each row how many were looked at. */
function testedIn(chunk: Chunk, plan: Plan, limit: number, mayTest: number | null): RawBuilder<unknown> {
  const sure = surely(chunk, plan)
  const tests = sure ? [sql`(document_id in (${sure}) or ${sql.join([...plan.tests], sql` and `)})`] : plan.tests
  return sql`
    with candidates as materialized (
      ${entries(chunk, plan)} ${mayTest === null ? sql`` : sql`limit ${mayTest}`}
    ), tested as materialized (
      -- As they come, and only until there are enough.
      select * from candidates entry ${where(tests)} limit ${limit}
    )
    select document_id, ${plan.roughly} as score, seen
    from (
      -- Where there are enough, nobody asks, and the others need not be fetched.
      select case when (select count(*) from tested) < ${limit} then (select count(*)::integer from candidates) else 0 end as seen
    ) looked left join tested entry on true`
}

async function inOrderOfScore(db: Db, found: readonly Scored[], sort: readonly SearchSort[]): Promise<readonly Scored[]> {
  const [first, ...others] = sort
  const sign = first?.order === 'asc' ? 1 : -1
  if (others.every(({ field }) => field === 'score')) {
    return found.toSorted((one, other) => sign * (one.score - other.score || (one.document_id < other.document_id ? -1 : 1)))
  }
  const key = (field: SearchSort['field']) => (field === 'score' ? sql`entry.score` : sql.ref(`documents.${field}`))
  const { rows } = await sql<Scored>`
    select entry.document_id, entry.score
    from unnest(${found.map(({ document_id }) => document_id)}::uuid[], ${found.map(({ score }) => score)}::real[]) as entry (document_id, score)
    join documents on documents.id = entry.document_id order by ${inOrder(sort, key)}`.execute(db)
  return rows
}
