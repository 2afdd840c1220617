/** One label on many documents: given, taken away, renamed. */
import type { Actor } from '../actor.ts'
import { isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { publishMany } from '../events.ts'
import { isId } from '../http/input.ts'
import { reindexAll } from './enqueue-index.ts'

/** Puts a label on documents, all or none; returns how many did not carry it. Throws DOCUMENT_NOT_FOUND. */
export async function addLabel(app: App, trx: Trx, actor: Actor, labelId: string, documentIds: readonly string[]): Promise<number> {
  const ids = await allVisible(trx, actor, documentIds)
  const added = await trx
    .insertInto('document_labels')
    .values(ids.map((document_id) => ({ document_id, label_id: labelId })))
    .onConflict((conflict) => conflict.doNothing())
    .returning('document_id')
    .execute()
  await changed(
    app,
    trx,
    added.map(({ document_id }) => document_id),
  )
  return added.length
}

/** Takes a label off documents, all or none; returns how many carried it. Throws DOCUMENT_NOT_FOUND. */
export async function removeLabel(app: App, trx: Trx, actor: Actor, labelId: string, documentIds: readonly string[]): Promise<number> {
  const ids = await allVisible(trx, actor, documentIds)
  const removed = await trx
    .deleteFrom('document_labels')
    .where('label_id', '=', labelId)
    .where('document_id', 'in', ids)
    .returning('document_id')
    .execute()
  await changed(
    app,
    trx,
    removed.map(({ document_id }) => document_id),
  )
  return removed.length
}

/** Has the index and the owners follow for every document that carries a label, before it is renamed or goes. */
export async function reindexCarriers(trx: Trx, labelId: string): Promise<void> {
  const carriers = await trx
    .selectFrom('documents')
    .innerJoin('document_labels', 'document_labels.document_id', 'documents.id')
    .select(['documents.id', 'owner_id'])
    .where('label_id', '=', labelId)
    .execute()
  await reindexAll(
    trx,
    carriers.map(({ id }) => id),
  )
  await tellOwners(trx, carriers)
}

async function allVisible(trx: Trx, actor: Actor, documentIds: readonly string[]): Promise<string[]> {
  const wanted = [...new Set(documentIds.map((id) => id.toLowerCase()))]
  if (!wanted.every(isId)) throw new AppError('DOCUMENT_NOT_FOUND')
  const seen = await trx
    .selectFrom('documents')
    .select('id')
    .where('id', 'in', wanted)
    .$if(!isAdmin(actor), (query) => query.where('owner_id', '=', actor.id))
    // In one order everywhere, so that two of these at once cannot wait for each other.
    .orderBy('id')
    .forUpdate()
    .execute()
  if (seen.length !== wanted.length) throw new AppError('DOCUMENT_NOT_FOUND')
  return seen.map(({ id }) => id)
}

/** What touch() does for one, for many at once. */
async function changed(app: App, trx: Trx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  const owners = await trx
    .updateTable('documents')
    .set((eb) => ({ version: eb('version', '+', 1), updated_at: app.now() }))
    .where('id', 'in', ids)
    .returning(['id', 'owner_id'])
    .execute()
  await reindexAll(trx, ids)
  await tellOwners(trx, owners)
}

const tellOwners = (trx: Trx, documents: readonly { id: string; owner_id: string }[]): Promise<void> =>
  publishMany(
    trx,
    'document_updated',
    documents.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes: ['labels'] } })),
  )
