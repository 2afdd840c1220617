/** Candidates of a search: all matches, or the best and the newest if there are more than `maxResults`. */
import { type RawBuilder, sql } from 'kysely'
import { indexed, type Plan, where } from '../compile/plan.ts'
import { or, quote } from '../compile/tsquery.ts'
import { entriesOf, type Segment } from '../index/segments.ts'
import { blockTerm } from '../index/terms.ts'

/** Common table expressions of the statement that `match` runs. */
export interface Candidates {
  /** SQL of the expressions. The last one, `candidates`, holds the candidates. */
  readonly ctes: RawBuilder<unknown>
  /** Whether more documents match. */
  readonly isCapped: RawBuilder<boolean>
}

/** Conditions on entries. */
type Conditions = Pick<Plan, 'indexed' | 'filters' | 'checks'>

/** A segment, or some of its blocks. */
interface Slice extends Segment {
  readonly onlyBlocks?: readonly number[]
}

/** Number of blocks in the first slices. The newest blocks usually hold enough matches of a frequent term. */
const firstBlocks = [1, 3]

/** Divides the segments into slices, newest first: a few blocks of the newest segment, its other blocks, the older segments. */
function slices(segments: readonly Segment[], { indexed }: Conditions): Slice[] {
  let nth = 0
  return segments.flatMap((segment): Slice[] => {
    if (nth === firstBlocks.length || segment.blocks.length < 2 || indexed.length === 0) return [segment]
    const blocks = segment.blocks.map((_, block) => block)
    const first: Slice[] = []
    while (blocks.length > 0 && nth < firstBlocks.length) first.push({ ...segment, onlyBlocks: blocks.splice(-firstBlocks[nth++]!) })
    return blocks.length === 0 ? first : [...first, { ...segment, onlyBlocks: blocks }]
  })
}

/** Selects the entries of a slice that meet the conditions, except `checks` and `tests`. */
function entriesIn(slice: Slice, { indexed: conditions, filters }: Conditions): RawBuilder<unknown> {
  const inBlocks = slice.onlyBlocks ? [indexed(or(slice.onlyBlocks.map((block) => quote(blockTerm(block)))))] : []
  return sql`select * from ${entriesOf(slice)} ${where([...conditions, ...inBlocks, ...filters])}`
}

/** Selects the newest `limit` matches (null: all), except for `tests`. PostgreSQL reads a slice only if newer slices hold too few. */
export function newest(slices: readonly Slice[], plan: Conditions, limit: number | null): RawBuilder<unknown> {
  const each = slices.map((slice) => {
    // Sorted after the scan of the GIN index: an index scan in the order of ids would evaluate every tsvector.
    const isUnordered = plan.indexed.length > 0 || slice.onlyBlocks
    const sorted = sql`select * from (${entriesIn(slice, plan)} ${isUnordered ? sql`offset 0` : sql``}) entry order by document_id desc`
    if (plan.checks.length === 0) return sql`(${sorted} limit ${limit})`
    return sql`(select * from (${sorted} offset 0) entry ${where(plan.checks)} limit ${limit})`
  })
  return sql`select * from (${sql.join(each, sql` union all `)}) entry limit ${limit}`
}

/** Selects the matches of all segments in any order. `more`: additional conditions. */
export const allMatches = (segments: readonly Segment[], plan: Plan, more: readonly RawBuilder<unknown>[] = []): RawBuilder<unknown> =>
  sql.join(
    segments.map((segment) => entriesIn(segment, { ...plan, filters: [...more, ...plan.filters, ...plan.checks] })),
    sql` union all `,
  )

/** The expression `tested`: the newest matches, at most `maxTested`. */
export const testable = (segments: readonly Segment[], plan: Plan): RawBuilder<unknown> =>
  sql`tested as materialized (${newest(slices(segments, plan), plan, plan.maxTested)})`

/** Whether only `maxTested` documents were tested, so that more may match. */
export const isTestingCut = ({ maxTested }: Plan): RawBuilder<boolean> =>
  maxTested === null ? sql`false` : sql`((select count(*) from tested) >= ${maxTested})`

const minRanked = 300
/** Number of candidates that are scored for a first page. Each score reads a whole tsvector. */
export const rankedOf = (maxResults: number): number => Math.max(Math.min(maxResults, minRanked), Math.ceil(maxResults * 0.3))

/** Selects at most `maxResults` matches. If there are more than can be ranked, the best by impact come first, then the newest. `is_ranked` marks the first. */
export function newestAndBest(segments: readonly Segment[], plan: Plan, maxResults: number): Candidates {
  const { tests } = plan
  const maxRanked = rankedOf(maxResults)
  const best = bestOf(segments, plan, maxRanked)
  const matches =
    tests.length === 0
      ? sql`newest as materialized (${newest(slices(segments, plan), plan, maxResults + 1)})`
      : sql`${testable(segments, plan)}, newest as materialized (select * from tested entry ${where(tests)} limit ${maxResults + 1})`
  return {
    ctes: sql`${matches},
      best as materialized (${best ? sql`select * from (${best}) entry where (select count(*) from newest) > ${maxRanked}` : sql`select * from newest limit 0`}),
      candidates as materialized (
        select *, row_number() over () <= ${maxRanked} as is_ranked from (
          select * from best
          union all (
            select * from newest where document_id not in (select document_id from best) order by document_id desc limit ${maxResults} - (select count(*) from best)
          )
        ) entry
      )`,
    isCapped: sql`((select count(*) from newest) > ${maxResults} or ${isTestingCut(plan)})`,
  }
}

/** Selects at most `limit` matches of the highest impact. Returns null if the query has no impact terms. */
function bestOf(segments: readonly Segment[], plan: Plan, limit: number): RawBuilder<unknown> | null {
  const { top, topIndexed, tests, maxTested } = plan
  if (top.length === 0) return null
  const conditions = [sql`entry.words @@ top.impact`, sql`entry.words @@ top.rest`, ...topIndexed]
  const each = sql`
    select entry.* from unnest(${top.map(({ impact }) => impact)}::text[]::tsquery[], ${top.map(({ impact, rest }) => rest ?? impact)}::text[]::tsquery[])
      top (impact, rest) cross join lateral (${newest(segments, { ...plan, indexed: conditions }, limit)}) entry`
  const some =
    tests.length === 0
      ? sql`${each} limit ${limit}`
      : sql`select * from (${each} limit ${maxTested}::integer) entry ${where(tests)} limit ${limit}`
  // A document may answer several of them.
  return sql`select distinct on (document_id) * from (${some}) entry`
}
