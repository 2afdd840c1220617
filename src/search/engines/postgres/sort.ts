/** Matches in an order of fields: which of them come first. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { SearchSort } from '../../../ports/search-engine.ts'
import type { Collected, Scored } from './candidates.ts'
import { type Planned, planFor, where } from './plan.ts'
import { type Chunk, entriesOf } from './segments.ts'
import { monthsFrom } from './tags.ts'

interface Wanted {
  readonly db: Db
  readonly chunks: readonly Chunk[]
  readonly planned: Planned
  readonly sort: readonly SearchSort[]
  readonly maxResults: number
}

/** At most `maxResults` of the matches, those that come first in the order asked for. */
export function firstInOrder(wanted: Wanted): Promise<Collected> {
  const { chunks, planned, sort } = wanted
  const isByDate = sort[0]!.field === 'created_at' && planned.hinted.tests.length === 0 && chunks.every(({ hasHints }) => hasHints)
  return isByDate ? firstByDate(wanted) : firstOfAll(wanted)
}

/** What documents are sorted by that their entries have too. */
const entryColumns: ReadonlyMap<SearchSort['field'], RawBuilder<unknown>> = new Map([
  ['created_at', sql`entry.created_at`],
  ['ocr_confidence', sql`entry.confidence`],
])

/** Over all matches of all chunks. */
async function firstOfAll({ db, chunks, planned, sort, maxResults }: Wanted): Promise<Collected> {
  const { maxTested } = planned.hinted
  const each = chunks.map((chunk) => {
    const { indexed, filters, late, tests } = planFor(planned, chunk)
    const conditions = [...indexed, ...filters, ...late, ...(maxTested === null ? tests : [])]
    return sql`select entry.* from ${entriesOf(chunk)} ${where(conditions)}`
  })
  const matching = sql.join(each, sql` union all `)
  const tested =
    maxTested === null
      ? matching
      : sql`select entry.* from (select * from (${matching}) entry order by document_id desc limit ${maxTested}) entry ${where(planned.hinted.tests)}`
  const found = await sorted(db, tested, planned, sort, maxResults + 1)
  const isCut = maxTested !== null && (await isMoreThan(db, matching, maxTested))
  return { found: found.slice(0, maxResults), isCapped: found.length > maxResults || isCut }
}

/** By date, where there are no tests: month by month, until there are enough, so that the dates of all others are not read. */
async function firstByDate({ db, chunks, planned, sort, maxResults }: Wanted): Promise<Collected> {
  const isBack = sort[0]!.order === 'desc'
  const { rows } = await sql<{ created_at: Date }>`
    select created_at from documents order by created_at ${sql.raw(isBack ? 'desc' : 'asc')} limit 1`.execute(db)
  if (rows.length === 0) return { found: [], isCapped: false }
  const { indexed, filters, late } = planned.hinted
  const { stretches, end } = monthsFrom(rows[0]!.created_at, isBack)
  const inStretches = [
    ...stretches.map((months) => sql`entry.hints && ${months}::integer[]`),
    isBack ? sql`entry.created_at < ${end}` : sql`entry.created_at >= ${end}`,
  ]
  const found: Scored[] = []
  for (const inStretch of inStretches) {
    const each = chunks.map((chunk) => sql`select entry.* from ${entriesOf(chunk)} ${where([...indexed, inStretch, ...filters, ...late])}`)
    found.push(...(await sorted(db, sql.join(each, sql` union all `), planned, sort, maxResults + 1 - found.length)))
    if (found.length > maxResults) break
  }
  return { found: found.slice(0, maxResults), isCapped: found.length > maxResults }
}

/** The first of these entries in the order asked for, with their rough scores. */
async function sorted(
  db: Db,
  entries: RawBuilder<unknown>,
  { hinted: { score, roughly } }: Planned,
  sort: readonly SearchSort[],
  limit: number,
): Promise<readonly Scored[]> {
  const ofEntry = (field: SearchSort['field']) => (field === 'score' ? score : entryColumns.get(field))
  const isInEntries = sort.every(({ field }) => ofEntry(field) !== undefined)
  const key = (field: SearchSort['field']) => ofEntry(field) ?? sql.ref(`documents.${field}`)
  // No words are read, unless the score is part of the order.
  const { rows } = await sql<Scored>`
    select document_id, ${roughly} as score from (
      select entry.* from (${entries}) entry ${isInEntries ? sql`` : sql`join documents on documents.id = entry.document_id`}
      order by ${inOrder(sort, key)} limit ${limit}
    ) entry`.execute(db)
  return rows
}

async function isMoreThan(db: Db, matching: RawBuilder<unknown>, count: number): Promise<boolean> {
  const { rows } = await sql`select from (${matching}) entry limit ${count}`.execute(db)
  return rows.length >= count
}

/** As in the list of documents: nothing counts as less than anything. */
export function inOrder(sort: readonly SearchSort[], key: (field: SearchSort['field']) => RawBuilder<unknown>): RawBuilder<unknown> {
  const direction = (order: SearchSort['order']) => (order === 'asc' ? sql`asc nulls first` : sql`desc nulls last`)
  const keys = sort.map(({ field, order }) => sql`${key(field)} ${direction(order)}`)
  return sql.join([...keys, sql`entry.document_id ${direction(sort[0]!.order)}`])
}
