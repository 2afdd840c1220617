/** Documents: changing and transferring them. trash/ deletes them. */
import { isDeepStrictEqual } from 'node:util'
import { sql, type Updateable } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Schema } from '../db/schema.ts'
import { invalid, validateTogether } from '../errors.ts'
import { publish } from '../events.ts'
import { lockJobs } from '../jobs/leases.ts'
import * as jobs from '../jobs/queue.ts'
import { requireDocument, requireDocumentName, requireMatch } from './access.ts'
import { ofUser } from './dates.ts'
import { resolveLabelIds, setLabels } from './document-labels.ts'
import { lengthenRetention, retainByLabels } from './retention.ts'
import { publishUpdates, writeRevision } from './revisions.ts'
import type { Document } from './view.ts'

export interface Changes {
  title?: string | undefined
  /** ids or names; replaces all labels */
  labels?: readonly string[] | undefined
  /** JSON merge patch (RFC 7396): null removes a key */
  metadata?: Record<string, unknown> | undefined
  /** YYYY-MM-DD; null: the document gets no date, even if its file or text has one */
  document_date?: string | null | undefined
  /** as read; a date that is also as read is no choice of the user */
  date_source?: Document['date_source'] | undefined
  /** can only be extended; null for a document without retention */
  retain_until?: Date | null | undefined
}

/**
 * Updates title, labels, metadata, date or retention. Ignores values that the document already has, because clients may send back what they read.
 * `ifMatch` is the If-Match header. Throws DOCUMENT_NOT_FOUND, PRECONDITION_FAILED, VALIDATION_ERROR, RETENTION.
 */
export async function update(app: App, actor: Actor, id: string, changes: Changes, ifMatch: string | null): Promise<Document> {
  const { labels, retain_until } = changes
  return app.db.transaction().execute(async (trx) => {
    if (labels) await requireDocumentName(trx, actor, id)
    // Every transaction locks labels before documents: this one and the deletion of a label cannot deadlock.
    const resolution = labels && resolveLabelIds(trx, labels)
    // A failure is thrown below, with the problems of other fields.
    await Promise.allSettled([resolution])
    await trx.selectFrom('documents').select('id').where('id', '=', id).forUpdate().execute()
    const document = await requireDocument(trx, actor, id)
    requireMatch(document, ifMatch)
    const [labelIds, columns, isLengthened] = await validateTogether([
      resolution,
      changedColumns(document, changes),
      retain_until !== undefined && lengthenRetention(trx, id, retain_until, document.retain_until),
    ])
    const isRelabelled = labelIds !== undefined && !isDeepStrictEqual(new Set(labelIds), new Set(document.label_ids))
    const changed = [
      ...(['title', 'metadata', 'document_date'] as const).filter((column) => column in columns),
      ...(isRelabelled ? ['labels'] : []),
      ...(isLengthened ? ['retain_until'] : []),
    ]
    if (changed.length === 0) return document
    if (isRelabelled) await setLabels(trx, id, labelIds)
    await writeRevision(app, trx, id, columns)
    await publish(trx, 'document_updated', document.owner_id, { document_id: id, changes: changed })
    return requireDocument(trx, actor, id)
  })
}

/** Returns the columns that change, with their new values. Throws VALIDATION_ERROR. Asynchronous for validateTogether(). */
async function changedColumns(
  document: Document,
  { title, metadata, document_date, date_source }: Changes,
): Promise<Updateable<Schema['documents']>> {
  const merged = metadata && mergeMetadata(document.metadata, metadata)
  const isDateAsRead =
    (document_date === document.document_date && (date_source === document.date_source || document.date_source === 'user')) ||
    // Read before the extraction found a date.
    (document_date === null && date_source === null)
  return {
    ...(title === undefined || title === document.title ? {} : { title }),
    ...(merged && !isDeepStrictEqual(merged, document.metadata) ? { metadata: JSON.stringify(merged) } : {}),
    ...(document_date === undefined || isDateAsRead ? {} : { document_date, ...ofUser }),
  }
}

/** Returns the number of documents that a user owns, and how many of them are in the trash. */
export async function countOwned(db: Db, userId: string): Promise<{ documents: number; trashed: number }> {
  const { rows } = await sql<{ documents: number; trashed: number }>`
    select count(*) as documents, count(deleted_at) as trashed from documents where owner_id = ${userId}`.execute(db)
  return rows[0] ?? { documents: 0, trashed: 0 }
}

interface DocumentLockOptions {
  /** the caller deletes the documents; their jobs are cancelled */
  isDeletion?: boolean
}

/** Returns the ids of all documents of a user, including the trash. */
export async function listOwned(db: Db, userId: string): Promise<string[]> {
  const rows = await db.selectFrom('documents').select('id').where('owner_id', '=', userId).orderBy('id').execute()
  return rows.map(({ id }) => id)
}

/**
 * Locks all documents of a user until the transaction ends, including the trash, or only those of `ids`. Returns their ids. With `isDeletion` new
 * comments and links wait, which lock documents before users.
 */
export async function lockOwned(
  trx: Trx,
  userId: string,
  { isDeletion = false, ids }: DocumentLockOptions & { ids?: readonly string[] } = {},
): Promise<string[]> {
  const all = trx.selectFrom('documents').select('id').where('owner_id', '=', userId).orderBy('id')
  const owned = ids ? all.where('id', 'in', ids) : all
  const rows = await (isDeletion ? owned.forUpdate() : owned.forNoKeyUpdate()).execute()
  return isDeletion ? cancelJobs(trx, rows) : lockJobsOf(trx, rows)
}

/** Locks the documents of a source that are not in the trash. Returns their ids. `isDeletion`: also if the caller moves them to the trash. */
export async function lockOfSource(trx: Trx, sourceId: string, { isDeletion = false }: DocumentLockOptions = {}): Promise<string[]> {
  const live = trx.selectFrom('live_documents').select('id').where('source_id', '=', sourceId)
  const rows = await live.orderBy('id').forNoKeyUpdate().execute()
  return isDeletion ? cancelJobs(trx, rows) : lockJobsOf(trx, rows)
}

/** Locks the jobs of documents, and returns the ids of the documents. Workers that leased one would wait for the end of the transaction. */
async function lockJobsOf(trx: Trx, documents: readonly { id: string }[]): Promise<string[]> {
  const ids = documents.map(({ id }) => id)
  await lockJobs(trx, ids)
  return ids
}

/** Cancels the jobs of documents, and returns the ids of the documents. */
async function cancelJobs(trx: Trx, documents: readonly { id: string }[]): Promise<string[]> {
  const ids = documents.map(({ id }) => id)
  await jobs.cancelByDocument(trx, ids)
  await jobs.deleteIndexJobs(trx, ids)
  return ids
}

/** Publishes the updates of documents that are not in the trash, and indexes these again. */
const publishOutsideTrash = (trx: Trx, changed: readonly { id: string; owner_id: string; deleted_at: Date | null }[], fields: string[]) =>
  publishUpdates(
    trx,
    changed.filter(({ deleted_at }) => deleted_at === null),
    fields,
  )

/** Removes the source of its documents, including the trash. Lock them first (lockOfSource). */
export async function detachFromSource(trx: Trx, sourceId: string): Promise<void> {
  const detached = await trx
    .updateTable('documents')
    .set((eb) => ({ source_id: null, revision: eb('revision', '+', 1) }))
    .where('source_id', '=', sourceId)
    .returning(['id', 'owner_id', 'deleted_at'])
    .execute()
  await publishOutsideTrash(trx, detached, ['source_id'])
}

/** Transfers all documents of a user to another user, including the trash. */
export async function transferAll(trx: Trx, from: string, to: string): Promise<void> {
  // A label of `from` retains no document of `to`, and its job may not have been run.
  await retainByLabels(trx, await lockOwned(trx, from))
  const moved = await trx
    .updateTable('documents')
    .set((eb) => ({ owner_id: to, revision: eb('revision', '+', 1) }))
    .where('owner_id', '=', from)
    .returning(['id', 'owner_id', 'deleted_at'])
    .execute()
  // A label of `to` retains them from now on.
  await retainByLabels(
    trx,
    moved.map(({ id }) => id),
  )
  await jobs.transferPending(trx, from, to)
  await publishOutsideTrash(trx, moved, ['owner'])
}

const maxMetadataBytes = 64 << 10
const maxMetadataDepth = 32

/**
 * Applies a JSON merge patch (RFC 7396). Throws VALIDATION_ERROR if the result exceeds 32 levels of nesting, or grows beyond 64 KiB: with the metadata
 * of the file, `current` may have more.
 */
export function mergeMetadata(current: Record<string, unknown>, patch: Record<string, unknown>): Record<string, unknown> {
  const merged = mergeValue(current, patch, 0) as Record<string, unknown>
  if (sizeOf(merged) > Math.max(maxMetadataBytes, sizeOf(current)))
    throw invalid('metadata', `must have at most ${maxMetadataBytes} bytes as JSON`)
  return merged
}

const sizeOf = (metadata: Record<string, unknown>): number => Buffer.byteLength(JSON.stringify(metadata))

function mergeValue(target: unknown, patch: unknown, depth: number): unknown {
  if (depth > maxMetadataDepth) throw invalid('metadata', `must have at most ${maxMetadataDepth} levels`)
  if (Array.isArray(patch)) for (const element of patch) mergeValue(null, element, depth + 1)
  if (!isObject(patch)) return patch
  // Collects entries instead of assigning keys: `__proto__` stays a plain key.
  const result = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key)
    else result.set(key, mergeValue(result.get(key), value, depth + 1))
  }
  return Object.fromEntries(result)
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value)
