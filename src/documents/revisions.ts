/** Revisions of documents: a change raises `revision`, which is part of the ETag, and queues a job that updates the search index. */
import type { Updateable } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import type { Schema } from '../db/schema.ts'
import { publishMany } from '../events.ts'
import * as jobs from '../jobs/queue.ts'
import { slicesOf } from '../slices.ts'

/** Jobs inserted by one statement. */
const batchSize = 500

/** Writes columns of a document as its next revision and queues its indexing, after a delay if one is given. */
export async function writeRevision(
  app: App,
  trx: Trx,
  id: string,
  columns: Updateable<Schema['documents']>,
  indexDelayMs = 0,
): Promise<void> {
  await trx
    .updateTable('documents')
    .set((eb) => ({ ...columns, revision: eb('revision', '+', 1), updated_at: app.now() }))
    .where('id', '=', id)
    .execute()
  await jobs.enqueueAll(trx, [{ ...indexJob(id), delayMs: indexDelayMs }])
}

/** Returns the job that indexes a document. */
export const indexJob = (id: string) => ({ kind: 'index', payload: { document_id: id }, dedupeKey: `index:${id}` }) as const

/** Queues the indexing of documents. Sorts by id, because two transactions that lock the same jobs in different orders would deadlock. */
export async function enqueueIndex(trx: Trx, ids: readonly string[]): Promise<void> {
  for (const batch of slicesOf(ids.toSorted(), batchSize)) await jobs.enqueueAll(trx, batch.map(indexJob))
}

/** Queues the indexing of changed documents and publishes the changes to their owners. */
export async function publishUpdates(trx: Trx, documents: readonly { id: string; owner_id: string }[], changes: string[]): Promise<void> {
  const ids = documents.map(({ id }) => id)
  await enqueueIndex(trx, ids)
  const events = documents.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes } }))
  await publishMany(trx, 'document_updated', events)
}
