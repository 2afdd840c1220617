/** What is likely to score best, of more matches than are ranked. */
import { type RawBuilder, sql } from 'kysely'
import { entriesIn } from './candidates.ts'
import { type Plan, type Planned, where } from './plan.ts'
import type { Chunk } from './segments.ts'
import { and } from './tsquery.ts'

/** So many are ranked then: those that are likely to be the best, and the newest. */
export const maxBest = 200

/**
 * At most so many entries with the marks of a plan, those first whose marks say most: PostgreSQL looks for the next mark only while it has not enough.
 * null: nothing is known of what is best, or some entries have no marks.
 */
export function likely(chunks: readonly Chunk[], { hinted }: Planned, limit: number): RawBuilder<unknown> | null {
  const { best, besides, tests, maxTested } = hinted
  if (best.length === 0 || chunks.some(({ hasHints }) => !hasHints)) return null
  // The mark and what is asked besides each alone, as in eachAlone() of tsquery.ts.
  const isMore = best.some(({ besides }) => besides.length > 0)
  const marks = best.map(({ mark }) => mark)
  const others = isMore ? best.map(({ mark, besides }) => (besides.length === 0 ? mark : and(besides))) : []
  const asked = [sql`entry.words @@ mark.query`, ...(isMore ? [sql`entry.words @@ mark.besides`] : []), ...besides]
  const marked: Plan = { ...hinted, indexed: asked, isLong: false }
  const found = entriesIn(chunks, { hinted: marked, plain: marked }, limit)
  const each = sql`select entry.* from unnest(${marks}::text[]::tsquery[], ${others}::text[]::tsquery[]) mark (query, besides) cross join lateral (${found}) entry`
  const some =
    tests.length === 0
      ? sql`${each} limit ${limit}`
      : sql`select entry.* from (${each} limit ${maxTested}::integer) entry ${where(tests)} limit ${limit}`
  // Some have several marks: to leave out, with each mark, what has one of those before takes longer.
  return sql`select distinct on (document_id) * from (${some}) entry`
}
