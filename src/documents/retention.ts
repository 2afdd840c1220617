/**
 * Retention and holds: documents that nobody can destroy. These functions refuse a deletion and say why; triggers (migrations/0019_retention.ts)
 * refuse it as well. A label with `retention_days` retains its documents even before a job has written their `retain_until`.
 */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../app.ts'
import { clock, databaseNow } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import { AppError, invalid } from '../errors.ts'
import { publishMany } from '../events.ts'
import { nilId } from '../id.ts'
import * as jobs from '../jobs/queue.ts'

/** Maximum retention, counted from now if set by hand, from `created_at` if set by a label. A limit, because nobody can shorten a retention. */
export const maxRetentionDays = 36_500

const daysAfter = (from: RawBuilder<unknown>, days: RawBuilder<unknown>) => sql<Date>`${from} + make_interval(secs => ${days} * 86400.0)`

/** The end of the retention by the labels of a document; null without a label with retention. */
const endByLabels: RawBuilder<Date | null> = sql`(
  select max(${daysAfter(sql`documents.created_at`, sql`labels.retention_days`)}) from document_labels join labels on labels.id = label_id
  where document_labels.document_id = documents.id and labels.retention_days is not null
    and (labels.retention_scope = 'all' or labels.created_by = documents.owner_id))`

/** The end of the retention of a row of `documents`, past or not. */
const retentionEnd: RawBuilder<Date | null> = sql`greatest(documents.retain_until, ${endByLabels})`

/** The unreleased holds of a row of `documents`. */
const unreleasedHolds = sql`
  hold_documents join holds on holds.id = hold_id where hold_documents.document_id = documents.id and holds.released_at is null`

/** The names of the unreleased holds of a row of `documents`; null if there are none. */
export const holdNames: RawBuilder<string[] | null> = sql`(select array_agg(holds.name order by holds.name_key) from ${unreleasedHolds})`

/** Whether a row of `documents` is under retention or hold. */
export const isRetained: RawBuilder<boolean> = sql`(
  coalesce(${retentionEnd} > ${clock}, false) or exists (select from ${unreleasedHolds}))`

/** Selects the ids of all documents under retention or hold by index. Leaves out documents whose label has not been applied yet. */
export const retainedIds = sql`
  select id from documents where retain_until > ${clock}
  union select document_id from hold_documents join holds on holds.id = hold_id where released_at is null`

/** Throws RETENTION in WORM mode, in which only maintenance destroys documents and versions. */
export function assertNotWorm({ config }: App): void {
  if (config.documents.worm)
    throw new AppError(
      'RETENTION',
      { worm: true },
      'documents.worm is set: only maintenance destroys documents, after their time in the trash.',
    )
}

/** Throws RETENTION if users may not destroy the document. Lock it first: another transaction may be retaining it. */
export async function assertDestroyable(app: App, trx: Trx, id: string): Promise<void> {
  assertNotWorm(app)
  await assertDeletable(trx, [id])
}

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
    select id, case when ${retentionEnd} > ${clock} then ${retentionEnd} end as retain_until, ${holdNames} as holds, count(*) over () as count
    from documents where id = any(${ids}::uuid[]) and ${isRetained} order by id limit ${maxNamed}`.execute(trx)
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
 * Extends the retention of documents to the end that their labels require. Call it before removing labels and after adding labels: removing a label
 * never shortens a retention.
 */
export async function retainByLabels(trx: Trx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await sql`
    update documents set retain_until = ${endByLabels}, revision = revision + 1
    where id = any(${ids}::uuid[]) and ${endByLabels} > coalesce(retain_until, '-infinity')`.execute(trx)
}

/** Extends the retention of new documents to that of a locked document. The new documents have no reader yet, and keep their `revision`. */
export async function inheritRetention(trx: Trx, from: string, ids: readonly string[]): Promise<void> {
  await sql`
    update documents set retain_until = original.retain_until from documents original
    where original.id = ${from} and documents.id = any(${ids}::uuid[])
      and original.retain_until > coalesce(documents.retain_until, '-infinity')`.execute(trx)
}

/**
 * Lengthens the retention of a locked document. `current`: its retention so far. Returns whether it differs. Throws VALIDATION_ERROR, and RETENTION for
 * null or an earlier moment. The caller raises `revision`.
 */
export async function lengthenRetention(trx: Trx, id: string, until: Date | null, current: Date | null): Promise<boolean> {
  if (until?.getTime() === current?.getTime()) return false
  const end = current?.toISOString()
  const message = `The retention can only be lengthened: retain_until must not be before ${end}.`
  if (until === null) throw new AppError('RETENTION', { retain_until: end }, message)
  const now = await databaseNow(trx)
  if (until <= now) throw invalid('retain_until', 'must be in the future')
  if (until.getTime() - now.getTime() > maxRetentionDays * 86_400_000)
    throw invalid('retain_until', `must be at most ${maxRetentionDays} days ahead, because nobody can shorten it`)
  if (current && until < current) throw new AppError('RETENTION', { retain_until: end }, message)
  await trx.updateTable('documents').set({ retain_until: until }).where('id', '=', id).execute()
  return true
}

export interface LabelPolicy {
  label_id: string
  days: number
  /** only documents of this owner; null: all */
  owner_id: string | null
}

/** Documents retained by one transaction. */
const batchSize = 1000

/**
 * Retains the documents of a label: the first thousand in the caller's transaction, the others by a job, because locks must be short. Leaves locked
 * documents to the job too and never waits for a lock.
 */
export async function retainLabelled(app: App, trx: Trx, policy: LabelPolicy): Promise<void> {
  await retainBatch(app, trx, policy, { after: nilId, isWaiting: false })
  const { rows } = await sql`select ${selectDue(policy, nilId)} limit 1`.execute(trx)
  if (rows.length > 0)
    await jobs.enqueue(trx, 'retain', policy, {
      dedupeKey: `retain:${policy.label_id}:${policy.days}:${policy.owner_id}`,
      priority: 'high',
    })
}

/** Retains all documents of a label in the caller's transaction, before the label is deleted or its retention shortened: its job would find none of them. */
export async function retainAllLabelled(app: App, trx: Trx, policy: LabelPolicy): Promise<void> {
  for (let after: string | null = nilId; after !== null; ) after = await retainBatch(app, trx, policy, { after, isWaiting: true })
}

/** Retains the documents of a label in batches. */
export const retainHandler: jobs.Handler<'retain'> = {
  async run(app, { payload }, signal) {
    for (let after: string | null = nilId; after !== null; ) {
      signal.throwIfAborted()
      const from: string = after
      after = await app.db.transaction().execute((trx) => retainBatch(app, trx, payload, { after: from, isWaiting: true }))
    }
    return undefined
  },
}

/**
 * Selects documents with ids above `after` whose retention ends earlier than the policy requires. Selects none if the label has another policy: a job
 * that is left from a longer one must not retain documents that got the label later.
 */
const selectDue = ({ label_id, days, owner_id }: LabelPolicy, after: string): RawBuilder<unknown> => sql`
  documents.id, ${daysAfter(sql`documents.created_at`, sql`${days}::int`)} as until
  from documents join document_labels on document_labels.document_id = documents.id join labels on labels.id = label_id
  where labels.retention_days = ${days} and labels.retention_scope = ${owner_id === null ? 'all' : 'creator'} and label_id = ${label_id} and documents.id > ${after} and (${owner_id}::uuid is null or owner_id = ${owner_id})
    and coalesce(retain_until, '-infinity') < ${daysAfter(sql`documents.created_at`, sql`${days}::int`)}
  order by documents.id`

/** Retains one batch. Returns its last id; null if there are no more documents. */
async function retainBatch(
  app: App,
  trx: Trx,
  policy: LabelPolicy,
  { after, isWaiting }: { after: string; isWaiting: boolean },
): Promise<string | null> {
  const { rows } = await sql<{ id: string; owner_id: string }>`
    with due as materialized (
      select ${selectDue(policy, after)} limit ${batchSize} for no key update of documents ${sql.raw(isWaiting ? '' : 'skip locked')}
    )
    update documents set retain_until = until, revision = revision + 1, updated_at = ${app.now()}
    from due where documents.id = due.id returning documents.id, owner_id`.execute(trx)
  const events = rows.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes: ['retain_until'] } }))
  await publishMany(trx, 'document_updated', events)
  return rows.length < batchSize ? null : rows.reduce((last, { id }) => (id > last ? id : last), after)
}
