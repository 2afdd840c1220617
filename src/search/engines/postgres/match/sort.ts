/** Candidates in the order of document fields. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../../db/pool.ts'
import type { SearchSort } from '../../../../ports/search-engine.ts'
import { indexed, type Plan, where } from '../compile/plan.ts'
import { or, quote } from '../compile/tsquery.ts'
import type { Segment } from '../index/segments.ts'
import { monthSpans } from '../index/terms.ts'
import { allMatches, type Candidates, isTestingCut, testable } from './candidates.ts'

/** Selects the first `maxResults` matches in the requested order. Column `place` numbers them. */
export async function firstInOrder(
  db: Db,
  segments: readonly Segment[],
  plan: Plan,
  sort: readonly SearchSort[],
  maxResults: number,
): Promise<Candidates> {
  const { tests, maxTested } = plan
  const isByDate = sort[0]!.field === 'created_at' && tests.length === 0
  const first = (matches: RawBuilder<unknown>) => sortedBy(matches, plan, sort, maxResults + 1)
  const matches = isByDate
    ? sql.join(
        (await datePeriods(db, sort[0]!.order)).map((period) => sql`(${first(allMatches(segments, plan, [period]))})`),
        sql` union all `,
      )
    : first(maxTested === null ? allMatches(segments, plan, tests) : sql`select * from tested entry ${where(tests)}`)
  return {
    ctes: sql`${maxTested === null ? sql`` : sql`${testable(segments, plan)},`}
      sorted as materialized (select *, row_number() over () as place from (select * from (${matches}) entry limit ${maxResults + 1}) entry),
      candidates as materialized (select * from sorted where place <= ${maxResults})`,
    isCapped: sql`((select count(*) from sorted) > ${maxResults} or ${isTestingCut(plan)})`,
  }
}

/** Returns conditions for consecutive periods. Later periods are not read once earlier ones hold enough matches. */
async function datePeriods(db: Db, order: SearchSort['order']): Promise<RawBuilder<unknown>[]> {
  const isBack = order === 'desc'
  const { rows } = await sql<{ created_at: Date }>`
    select created_at from live_documents order by created_at ${sql.raw(isBack ? 'desc' : 'asc')} limit 1`.execute(db)
  const { spans, end } = monthSpans(rows[0]?.created_at ?? new Date(0), isBack)
  return [
    ...spans.map((months) => indexed(or(months.map(quote)))),
    isBack ? sql`entry.created_at < ${end}` : sql`entry.created_at >= ${end}`,
  ]
}

/** Columns of an entry for fields that documents are sorted by. */
const entryColumns: ReadonlyMap<SearchSort['field'], RawBuilder<unknown>> = new Map([
  ['created_at', sql`entry.created_at`],
  ['ocr_confidence', sql`entry.confidence`],
  ['document_date', sql`entry.document_date`],
])

function sortedBy(matches: RawBuilder<unknown>, { score }: Plan, sort: readonly SearchSort[], limit: number): RawBuilder<unknown> {
  const ofEntry = (field: SearchSort['field']) => (field === 'score' ? score : entryColumns.get(field))
  const isInEntries = sort.every(({ field }) => ofEntry(field) !== undefined)
  const key = (field: SearchSort['field']) => ofEntry(field) ?? sql.ref(`documents.${field}`)
  return sql`
    select entry.* from (${matches}) entry ${isInEntries ? sql`` : sql`join live_documents documents on documents.id = entry.document_id`}
    order by ${orderBy(sort, key)} limit ${limit}`
}

/** Returns ORDER BY keys. NULL is lower than any value, as in lists of documents. */
export function orderBy(sort: readonly SearchSort[], key: (field: SearchSort['field']) => RawBuilder<unknown>): RawBuilder<unknown> {
  const direction = (order: SearchSort['order']) => (order === 'asc' ? sql`asc nulls first` : sql`desc nulls last`)
  const keys = sort.map(({ field, order }) => sql`${key(field)} ${direction(order)}`)
  return sql.join([...keys, sql`entry.document_id ${direction(sort[0]!.order)}`])
}
