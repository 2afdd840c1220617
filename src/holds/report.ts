/** The retention report: documents that cannot be destroyed, with the end of their retention and their holds. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { clock } from '../db/clock.ts'
import { keyset, type RowWithCursorKey } from '../db/keyset.ts'
import type { Row } from '../db/schema.ts'
import { holdNames, retainedIds } from '../documents/retention.ts'
import { type FetchedPage, fetchPage, fetchSlice, type PageRequest } from '../http/pages.ts'

interface Amount {
  documents: number
  /** of all versions */
  bytes: number
}

export interface Report {
  /** under retention or hold */
  total: Amount
  retained: Amount
  held: Amount
  /** by the month in which the retention ends, in UTC */
  months: (Amount & { month: string })[]
  /** holds in force */
  holds: (Amount & { id: string; name: string })[]
}

/** A document. `retain_until` is null if it is only under hold. */
export interface ReportedDocument extends Pick<Row<'documents'>, 'id' | 'title' | 'size' | 'retain_until' | 'deleted_at'> {
  owner: string
  holds: string[]
}

/** Rows of documents under retention or hold that the actor can see. */
const retainedDocuments = (actor: Actor) => sql`(
  select documents.id, retain_until > ${clock} as is_retained, held.document_id is not null as is_held, retain_until,
    (select sum(version.size) from document_versions version where version.document_id = documents.id) as bytes
  from documents
  left join (
    select distinct document_id from hold_documents join holds on holds.id = hold_id where released_at is null
  ) held on held.document_id = documents.id
  where ${isReported(actor)})`

const isReported = (actor: Actor) => sql<boolean>`
  documents.id in (${retainedIds}) and ${isAdmin(actor) ? sql`true` : sql`documents.owner_id = ${actor.id}`}`

/** Returns the numbers of the report: for users of their own documents, for admins of all. */
export async function summarize(app: App, actor: Actor): Promise<Report> {
  const retained = retainedDocuments(actor)
  const { rows: amounts } = await sql<{ month: string | null; is_held: boolean; documents: number; bytes: number }>`
    select case when is_retained then to_char(retain_until at time zone 'UTC', 'YYYY-MM') end as month, is_held,
      count(*) as documents, sum(bytes)::bigint as bytes
    from ${retained} retained group by 1, 2 order by 1`.execute(app.db)
  const { rows: holds } = await sql<Report['holds'][number]>`
    select holds.id, holds.name, count(*) as documents, sum(bytes)::bigint as bytes
    from ${retained} retained join hold_documents on document_id = retained.id join holds on holds.id = hold_id
    where released_at is null group by holds.id order by name_key`.execute(app.db)
  const byMonth = Map.groupBy(
    amounts.filter(({ month }) => month !== null),
    ({ month }) => month as string,
  )
  return {
    total: sum(amounts),
    retained: sum(amounts.filter(({ month }) => month !== null)),
    held: sum(amounts.filter(({ is_held }) => is_held)),
    months: Array.from(byMonth, ([month, rows]) => ({ month, ...sum(rows) })),
    holds,
  }
}

const sum = (amounts: readonly Amount[]): Amount => ({
  documents: amounts.reduce((total, { documents }) => total + documents, 0),
  bytes: amounts.reduce((total, { bytes }) => total + bytes, 0),
})

const soonestFirst = keyset(
  { by: 'documents.retain_until', type: 'timestamp', order: 'asc', nulls: 'last' },
  { by: 'documents.id', type: 'id', order: 'asc' },
)

/**
 * Returns one page of the documents of the report, by the end of their retention; documents only under hold come last. `count` returns their number.
 */
export function listRetained(
  app: App,
  actor: Actor,
  page: PageRequest,
  count: () => Promise<number>,
): Promise<FetchedPage<ReportedDocument & RowWithCursorKey>> {
  const documents = app.db
    .selectFrom('documents')
    .innerJoin('users', 'users.id', 'documents.owner_id')
    .select(['documents.id', 'documents.title', 'documents.size', 'documents.retain_until', 'documents.deleted_at'])
    .select('users.username as owner')
    .select(sql<string[]>`coalesce(${holdNames}, '{}')`.as('holds'))
    .where(isReported(actor))
    .$castTo<ReportedDocument>()
  return fetchPage(page, soonestFirst, ['retention', actor.id], (slice) => fetchSlice(documents, soonestFirst, slice), count)
}
