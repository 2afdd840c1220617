/** Documents: changing, transferring and deleting them. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError, invalid } from '../errors.ts'
import { publish } from '../events.ts'
import { matchesEtag } from '../http/files.ts'
import { countRows } from '../http/pages.ts'
import * as jobs from '../jobs/queue.ts'
import { requireDocument } from './access.ts'
import { ofUser } from './dates.ts'
import { resolveLabelIds, setLabels } from './document-labels.ts'
import { assertDeletable, lengthenRetention } from './retention.ts'
import { enqueueIndex, publishUpdates, writeRevision } from './revisions.ts'
import { type Document, etag } from './view.ts'

export interface Changes {
  title?: string | undefined
  /** ids or names; replaces all labels */
  labels?: readonly string[] | undefined
  /** JSON merge patch (RFC 7396): null removes a key */
  metadata?: Record<string, unknown> | undefined
  /** YYYY-MM-DD; null: the document has no date, also if its file or text has one */
  document_date?: string | null | undefined
  /** only later than before */
  retain_until?: Date | undefined
}

/**
 * Updates title, labels, metadata, date or retention. `ifMatch` is the If-Match header. Throws DOCUMENT_NOT_FOUND, PRECONDITION_FAILED,
 * VALIDATION_ERROR, RETENTION.
 */
export async function update(app: App, actor: Actor, id: string, changes: Changes, ifMatch: string | null): Promise<Document> {
  return app.db.transaction().execute(async (trx) => {
    await trx.selectFrom('documents').select('id').where('id', '=', id).forUpdate().execute()
    const document = await requireDocument(trx, actor, id)
    if (ifMatch !== null && !matchesEtag(ifMatch, etag(document))) throw new AppError('PRECONDITION_FAILED')
    const { title, labels, metadata, document_date, retain_until } = changes
    if (retain_until) await lengthenRetention(trx, id, retain_until, document.retain_until)
    if (labels) await setLabels(trx, id, await resolveLabelIds(trx, labels))
    await writeRevision(app, trx, id, {
      ...(title === undefined ? {} : { title }),
      ...(document_date === undefined ? {} : { document_date, ...ofUser }),
      ...(metadata ? { metadata: JSON.stringify(mergeMetadata(document.metadata, metadata)) } : {}),
    })
    await publish(trx, 'document_updated', document.owner_id, {
      document_id: id,
      changes: Object.keys(changes).filter((key) => changes[key as keyof Changes] !== undefined),
    })
    return requireDocument(trx, actor, id)
  })
}

/** Deletes a document. A job removes the stored bytes when no other document has them. Throws DOCUMENT_NOT_FOUND. */
export async function remove(app: App, actor: Actor, id: string): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    // Serializes concurrent deletions: the second waits here and then finds no document.
    await trx.selectFrom('documents').select('id').where('id', '=', id).forUpdate().execute()
    const { sha256 } = await requireDocument(trx, actor, id)
    await deleteDocuments(trx, [{ id, sha256 }])
  })
}

/** Returns the number of documents that a user owns. */
export async function countOwned(db: Db, userId: string): Promise<number> {
  return countRows(db.selectFrom('documents').where('owner_id', '=', userId))
}

/** Locks all documents of a user until the transaction ends. Returns their ids and checksums. */
export const lockOwned = (trx: Trx, userId: string): Promise<{ id: string; sha256: string }[]> =>
  trx.selectFrom('documents').select(['id', 'sha256']).where('owner_id', '=', userId).orderBy('id').forUpdate().execute()

/** Transfers all documents of a user to another user. */
export async function transferAll(trx: Trx, from: string, to: string): Promise<void> {
  const moved = await trx
    .updateTable('documents')
    .set((eb) => ({ owner_id: to, revision: eb('revision', '+', 1) }))
    .where('owner_id', '=', from)
    .returning(['id', 'owner_id'])
    .execute()
  await jobs.transferPending(trx, from, to)
  await publishUpdates(trx, moved, ['owner'])
}

/** Deletes all documents of a user. */
export async function removeAll(trx: Trx, userId: string): Promise<void> {
  await deleteDocuments(trx, await lockOwned(trx, userId))
}

/** Deletes all documents of a source. */
export async function removeOfSource(trx: Trx, sourceId: string): Promise<void> {
  const documents = trx.selectFrom('documents').select(['id', 'sha256']).where('source_id', '=', sourceId)
  await deleteDocuments(trx, await documents.orderBy('id').forUpdate().execute())
}

/** Documents deleted by one statement. */
const batchSize = 500

async function deleteDocuments(trx: Trx, documents: readonly { id: string; sha256: string }[]): Promise<void> {
  for (let from = 0; from < documents.length; from += batchSize) {
    const batch = documents.slice(from, from + batchSize)
    const ids = batch.map(({ id }) => id)
    await assertDeletable(trx, ids)
    await jobs.cancelByDocument(trx, ...ids)
    await trx.deleteFrom('documents').where('id', 'in', ids).execute()
    await enqueueIndex(trx, ids)
    const sums = new Set(batch.map(({ sha256 }) => sha256))
    await jobs.enqueueMany(
      trx,
      'purge',
      Array.from(sums, (sha256) => ({ payload: { sha256 }, dedupeKey: `purge:${sha256}` })),
    )
  }
}

const maxMetadataBytes = 64 << 10
const maxMetadataDepth = 32

/** Applies a JSON merge patch (RFC 7396). Throws VALIDATION_ERROR if the result exceeds 64 KiB or 32 levels of nesting. */
export function mergeMetadata(current: Record<string, unknown>, patch: Record<string, unknown>): Record<string, unknown> {
  const merged = mergeValue(current, patch, 0) as Record<string, unknown>
  if (Buffer.byteLength(JSON.stringify(merged)) > maxMetadataBytes)
    throw invalid('metadata', `must have at most ${maxMetadataBytes} bytes as JSON`)
  return merged
}

function mergeValue(target: unknown, patch: unknown, depth: number): unknown {
  if (depth > maxMetadataDepth) throw invalid('metadata', `must have at most ${maxMetadataDepth} levels`)
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
