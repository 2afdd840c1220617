/**
 * Retention and holds: documents that nobody can destroy. Triggers refuse it too (migrations/0019_retention.ts); these functions refuse it first, and say
 * why. A label with `retention_days` retains its documents also before a job has written their `retain_until`.
 */
import { type RawBuilder, sql } from 'kysely'
import { clock } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'

/** Largest retention that can be set, counted from now by hand and from `created_at` by a label: nobody can shorten it. */
export const maxRetentionDays = 36_500

const daysAfter = (from: RawBuilder<unknown>, days: RawBuilder<unknown>) => sql<Date>`${from} + make_interval(secs => ${days} * 86400.0)`

/** The end that the labels of a document give it; null without a label that retains. */
const endByLabels = (table: string): RawBuilder<Date | null> => sql`(
  select max(${daysAfter(sql.ref(`${table}.created_at`), sql`labels.retention_days`)}) from document_labels join labels on labels.id = label_id
  where document_labels.document_id = ${sql.ref(`${table}.id`)} and labels.retention_days is not null)`

/** The end of the retention of a row of `documents`, past or not. `table`: its alias. */
export const retentionEnd = (table = 'documents'): RawBuilder<Date | null> =>
  sql`greatest(${sql.ref(`${table}.retain_until`)}, ${endByLabels(table)})`

/** The names of the unreleased holds of a row of `documents`; null without any. */
export const holdNames = (table = 'documents'): RawBuilder<string[] | null> => sql`(
  select array_agg(holds.name order by holds.name_key) from hold_documents join holds on holds.id = hold_id
  where hold_documents.document_id = ${sql.ref(`${table}.id`)} and holds.released_at is null)`

/** Whether a row of `documents` is under retention or hold. */
export const isRetained = (table = 'documents'): RawBuilder<boolean> => sql`(
  coalesce(${retentionEnd(table)} > ${clock}, false) or exists (
    select from hold_documents join holds on holds.id = hold_id
    where hold_documents.document_id = ${sql.ref(`${table}.id`)} and holds.released_at is null))`

interface Retained {
  id: string
  retain_until: Date | null
  holds: string[] | null
}

/** Documents named in an error. */
const maxNamed = 10

/** Throws RETENTION if one of the documents is under retention or hold. Lock them first: another transaction may be retaining them. */
export async function assertDeletable(trx: Trx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  const { rows } = await sql<Retained & { count: number }>`
    select id, case when ${retentionEnd()} > ${clock} then ${retentionEnd()} end as retain_until, ${holdNames()} as holds, count(*) over () as count
    from documents where id = any(${ids}::uuid[]) and ${isRetained()} order by id limit ${maxNamed}`.execute(trx)
  if (rows.length > 0) throw retentionError(rows, rows[0]?.count ?? 0, ids.length)
}

/** Returns the RETENTION error. `retain_until` and `holds` cover all named documents; `documents` names them if there was more than one to delete. */
function retentionError(retained: readonly Retained[], count: number, requested: number): AppError {
  const ends = retained.flatMap(({ retain_until }) => retain_until ?? []).sort((a, b) => b.getTime() - a.getTime())
  const holds = [...new Set(retained.flatMap((document) => document.holds ?? []))]
  const details = { ...(ends[0] && { retain_until: ends[0].toISOString() }), ...(holds.length > 0 && { holds }) }
  if (requested === 1) return new AppError('RETENTION', details, `The document cannot be destroyed: ${reason(ends[0], holds)}.`)
  const documents = retained.map(({ id, ...rest }) => ({
    id,
    retain_until: rest.retain_until?.toISOString() ?? null,
    holds: rest.holds ?? [],
  }))
  const message = `${count} of the documents cannot be destroyed: they are under retention or hold.`
  return new AppError('RETENTION', { ...details, documents, count }, message)
}

const reason = (end: Date | undefined, holds: readonly string[]): string =>
  [
    ...(end ? [`it is under retention until ${end.toISOString()}`] : []),
    ...(holds.length > 0
      ? [`it is under the ${holds.length === 1 ? 'hold' : 'holds'} ${holds.map((name) => JSON.stringify(name)).join(', ')}`]
      : []),
  ].join(' and ')

/**
 * Lengthens the retention of documents to what their labels ask for. Call it before labels are removed and after they are added: removing a
 * label never shortens. The caller raises `revision`.
 */
export async function retainByLabels(trx: Trx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await sql`
    update documents set retain_until = ${endByLabels('documents')}
    where id = any(${ids}::uuid[]) and ${endByLabels('documents')} > coalesce(retain_until, '-infinity')`.execute(trx)
}

/** Throws VALIDATION_ERROR or RETENTION unless a document can be retained until then. `current`: its retention so far. */
export function assertLengthens(now: Date, until: Date, current: Date | null): void {
  const issue = (message: string) => new AppError('VALIDATION_ERROR', { issues: [{ path: 'retain_until', message }] })
  if (until <= now) throw issue('must be in the future')
  if (until.getTime() - now.getTime() > maxRetentionDays * 86_400_000)
    throw issue(`must be at most ${maxRetentionDays} days ahead, because nobody can shorten it`)
  if (current && until < current)
    throw new AppError(
      'RETENTION',
      { retain_until: current.toISOString() },
      `The retention can only be lengthened: retain_until must not be before ${current.toISOString()}.`,
    )
}

/** Lengthens the retention of documents whose retention ends earlier. Returns the ids of those that changed. The caller queues events. */
export async function lengthenRetention(
  db: Db,
  ids: readonly string[],
  until: Date,
  at: Date,
): Promise<{ id: string; owner_id: string }[]> {
  const { rows } = await sql<{ id: string; owner_id: string }>`
    with locked as materialized (select id from documents where id = any(${ids}::uuid[]) order by id for update)
    update documents set retain_until = ${until}, revision = revision + 1, updated_at = ${at}
    from locked where documents.id = locked.id and coalesce(retain_until, '-infinity') < ${until} returning documents.id, owner_id`.execute(
    db,
  )
  return rows
}
