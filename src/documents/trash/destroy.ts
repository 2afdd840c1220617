/** Destruction of documents. Only the audit log remembers them. */
import { hash } from 'node:crypto'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import { appendWith, type NewEntry } from '../../audit/audit.ts'
import type { Trx } from '../../db/pool.ts'
import { publishMany } from '../../events.ts'
import * as jobs from '../../jobs/queue.ts'
import { slicesOf } from '../../slices.ts'
import { enqueuePurge, renditionSums } from '../purge.ts'
import { assertDeletable, assertNotWorm } from '../retention.ts'
import { enqueueIndex } from '../revisions.ts'

export type Reason = 'permanent' | 'trash_emptied' | 'trash_expired' | 'user_deleted' | 'version_limit' | 'version_deleted'

interface DestroyedVersion {
  number: number
  sha256: string
  size: number
}

/** Documents deleted by one statement. */
const batchSize = 500

/**
 * Destroys documents with all versions, in the trash or not. Returns the ids of the destroyed documents. Throws RETENTION. Jobs remove stored bytes
 * that no other version uses. Writes an audit entry for each document: call it after all statements that lock rows.
 */
export async function destroyDocuments(app: App, trx: Trx, actor: Actor, ids: readonly string[], reason: Reason): Promise<string[]> {
  const { destroyed, entries } = await deleteDocuments(app, trx, actor, ids, reason)
  await appendWith(trx, entries)
  return destroyed
}

/** Destroys documents like destroyDocuments(), but returns the audit entries. The caller appends them at the end of its transaction. */
export async function deleteDocuments(
  app: App,
  trx: Trx,
  actor: Actor,
  ids: readonly string[],
  reason: Reason,
): Promise<{ destroyed: string[]; entries: NewEntry[] }> {
  if (ids.length > 0 && reason !== 'trash_expired' && reason !== 'version_limit') assertNotWorm(app)
  const entries: NewEntry[] = []
  const sums: string[] = []
  for (const batch of slicesOf(ids.toSorted(), batchSize)) {
    const deleted = await deleteBatch(app, trx, actor, batch, reason)
    entries.push(...deleted.entries)
    sums.push(...deleted.sums)
  }
  const destroyed = entries.map(({ target }) => target.slice('id='.length))
  // After the last batch: the foreign key of jobs looks for jobs of each document, and a table that was small a moment ago has a plan without its index.
  await enqueueIndex(trx, destroyed)
  await enqueuePurge(trx, sums)
  return { destroyed, entries }
}

/** Deletes the rows of documents. Returns the audit entries, and the checksums of the stored bytes. */
async function deleteBatch(
  app: App,
  trx: Trx,
  actor: Actor,
  ids: readonly string[],
  reason: Reason,
): Promise<{ entries: NewEntry[]; sums: string[] }> {
  const documents = await trx
    .selectFrom('documents')
    .select(['id', 'owner_id', 'title'])
    .where('id', 'in', ids)
    .orderBy('id')
    .forUpdate()
    .execute()
  if (documents.length === 0) return { entries: [], sums: [] }
  const found = documents.map(({ id }) => id)
  await assertDeletable(trx, found)
  const rows = await trx
    .selectFrom('document_versions')
    .select(['document_id', 'number', 'sha256', 'size'])
    .where('document_id', 'in', found)
    .orderBy('document_id')
    .orderBy('number')
    .execute()
  const sums = [...rows.map(({ sha256 }) => sha256), ...(await renditionSums(trx, rows))]
  await jobs.cancelByDocument(trx, found)
  await trx.deleteFrom('documents').where('id', 'in', found).execute()
  // The deletion of a user deletes the events of this user too: only admins hear of it.
  const userIdOf = (ownerId: string) => (reason === 'user_deleted' ? null : ownerId)
  const events = documents.map(({ id, owner_id }) => ({ userId: userIdOf(owner_id), data: { document_id: id } }))
  await publishMany(trx, 'document_purged', events)
  const versions = Map.groupBy(rows, ({ document_id }) => document_id)
  const entries = documents.map((document) => destructionEntry(app, actor, document, versions.get(document.id) ?? [], reason))
  return { entries, sums }
}

/** Returns the audit entry for destroyed versions of a document. The title is hashed, because the log must not keep destroyed content. */
export const destructionEntry = (
  app: App,
  actor: Actor,
  { id, title }: { id: string; title: string },
  versions: readonly DestroyedVersion[],
  reason: Reason,
): NewEntry => ({
  at: app.now(),
  actor_id: actor.id,
  actor: actor.username,
  via: actor.via ?? 'api',
  ip: '',
  action: reason === 'version_limit' || reason === 'version_deleted' ? 'purge versions' : 'purge document',
  target: `id=${id}`,
  outcome: 'ok',
  code: null,
  details: {
    reason,
    title_sha256: hash('sha256', title),
    versions: versions.map(({ number, sha256, size }) => ({ number, sha256, size })),
  },
  request_id: '',
})
