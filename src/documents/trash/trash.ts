/** The trash: documents that only their owner and admins can see, until they are restored or purged. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { clock } from '../../db/clock.ts'
import type { Trx } from '../../db/pool.ts'
import { publishMany } from '../../events.ts'
import * as jobs from '../../jobs/queue.ts'
import { queueStranded } from '../extraction/stranded-documents.ts'
import { enqueueIndex } from '../revisions.ts'

/** Documents changed by one statement. */
const batchSize = 500

/** Moves documents to the trash and cancels their jobs. Returns the ids of the moved ones; others do not exist or are in the trash already. */
export async function moveToTrash(app: App, trx: Trx, actorId: string | null, ids: readonly string[]): Promise<string[]> {
  const moved: string[] = []
  for (const batch of batchesOf(ids)) {
    const { rows } = await sql<{ id: string; owner_id: string }>`
      with locked as materialized (select id from live_documents where id = any(${batch}::uuid[]) order by id for update)
      update documents set deleted_at = ${clock}, deleted_by = ${actorId}, revision = revision + 1, updated_at = ${app.now()}
      from locked where documents.id = locked.id returning documents.id, owner_id`.execute(trx)
    moved.push(...(await finish(trx, 'document_trashed', rows)))
    await jobs.cancelByDocument(trx, ...rows.map(({ id }) => id))
  }
  return moved
}

/** Moves documents out of the trash, and queues those whose text was not finished. Returns the ids of the moved ones. */
export async function undelete(app: App, trx: Trx, ids: readonly string[]): Promise<string[]> {
  const moved: string[] = []
  for (const batch of batchesOf(ids)) {
    const { rows } = await sql<{ id: string; owner_id: string }>`
      with locked as materialized (select id from documents where id = any(${batch}::uuid[]) and deleted_at is not null order by id for update)
      update documents set deleted_at = null, deleted_by = null, revision = revision + 1, updated_at = ${app.now()}
      from locked where documents.id = locked.id returning documents.id, owner_id`.execute(trx)
    moved.push(...(await finish(trx, 'document_restored', rows)))
    await queueStranded(
      app,
      trx,
      rows.map(({ id }) => id),
    )
  }
  return moved
}

/** Sorted, because every transaction locks documents in the order of their ids. */
function* batchesOf(ids: readonly string[]): Generator<string[]> {
  const sorted = ids.toSorted()
  for (let from = 0; from < sorted.length; from += batchSize) yield sorted.slice(from, from + batchSize)
}

async function finish(
  trx: Trx,
  type: 'document_trashed' | 'document_restored',
  documents: readonly { id: string; owner_id: string }[],
): Promise<string[]> {
  const ids = documents.map(({ id }) => id)
  await enqueueIndex(trx, ids)
  const events = documents.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id } }))
  await publishMany(trx, type, events)
  return ids
}
