/** Labels of documents: resolving names, replacing the labels of one document, assigning one label to many documents. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { isId, nilId } from '../id.ts'
import { requireAll } from './access.ts'
import { retainByLabels } from './retention.ts'
import { publishUpdates } from './revisions.ts'

/** Maximum number of labels of a document. */
export const maxLabels = 1000

/** Returns the key that makes label names unique: without case, in Unicode NFC. */
export const labelKey = (name: string): string => name.normalize('NFC').toLowerCase()

/** Resolves label ids or names (case-insensitive) to distinct ids in the same order. Throws VALIDATION_ERROR on `field` for each unknown label. */
export async function resolveLabelIds(db: Db, labels: readonly string[], field = 'labels'): Promise<string[]> {
  if (labels.length === 0) return []
  const keys = labels.map(labelKey)
  // Inside a transaction the lock keeps the labels from being deleted before the commit.
  const matches = await db
    .selectFrom('labels')
    .select(['id', 'name_key'])
    .forKeyShare()
    // The nil id keeps the list from being empty.
    .where((eb) => eb.or([eb('id', 'in', [...labels.filter(isId), nilId]), eb('name_key', 'in', keys)]))
    .execute()
  const byId = new Set(matches.map(({ id }) => id))
  const byName = new Map(matches.map(({ id, name_key }) => [name_key, id]))
  // A text of the form of an id is never a name.
  const ids = keys.map((key) => (isId(key) ? (byId.has(key) ? key : undefined) : byName.get(key)))
  const issues = labels.filter((_, index) => !ids[index]).map((label) => ({ path: field, message: `no label ${JSON.stringify(label)}` }))
  if (issues.length > 0) throw new AppError('VALIDATION_ERROR', { issues })
  return [...new Set(ids as string[])]
}

/** Replaces the labels of a document. */
export async function setLabels(trx: Trx, documentId: string, labelIds: readonly string[]): Promise<void> {
  await retainByLabels(trx, [documentId])
  await trx.deleteFrom('document_labels').where('document_id', '=', documentId).execute()
  await addLabels(
    trx,
    labelIds.map((label_id) => ({ document_id: documentId, label_id })),
  )
}

/** Adds labels to documents that do not have them. Lengthens the retention of the documents if a label has a longer one. */
export async function addLabels(trx: Trx, rows: readonly { document_id: string; label_id: string }[]): Promise<void> {
  if (rows.length === 0) return
  await trx.insertInto('document_labels').values(rows).execute()
  const ids = new Set(rows.map(({ document_id }) => document_id))
  await retainByLabels(trx, [...ids])
}

/**
 * Assigns a label to all of the documents or to none. Returns the number of documents that did not have it. Throws DOCUMENT_NOT_FOUND, CONFLICT if a
 * document has `maxLabels` already.
 */
export async function assignLabel(app: App, trx: Trx, actor: Actor, labelId: string, documentIds: readonly string[]): Promise<number> {
  const ids = await lockVisible(trx, actor, documentIds)
  const { rows } = await sql<{ document_id: string }>`
    insert into document_labels (document_id, label_id) select unnest(${ids}::uuid[]), ${labelId}
    on conflict do nothing returning document_id`.execute(trx)
  await assertFewLabels(
    trx,
    rows.map(({ document_id }) => document_id),
  )
  await retainByLabels(trx, ids)
  return writeLabelRevisions(app, trx, rows)
}

async function assertFewLabels(trx: Trx, documentIds: readonly string[]): Promise<void> {
  const { rows } = await sql<{ document_id: string }>`
    select document_id from document_labels where document_id = any(${documentIds}::uuid[])
    group by document_id having count(*) > ${maxLabels} order by document_id limit 1`.execute(trx)
  const [full] = rows
  if (full)
    throw new AppError('CONFLICT', { ...full }, `A document can have at most ${maxLabels} labels: ${full.document_id} has them already.`)
}

/** Removes a label from all of the documents or from none. Returns the number of documents that had it. Throws DOCUMENT_NOT_FOUND. */
export async function unassignLabel(app: App, trx: Trx, actor: Actor, labelId: string, documentIds: readonly string[]): Promise<number> {
  const ids = await lockVisible(trx, actor, documentIds)
  await retainByLabels(trx, ids)
  const { rows } = await sql<{ document_id: string }>`
    delete from document_labels where label_id = ${labelId} and document_id = any(${ids}::uuid[]) returning document_id`.execute(trx)
  return writeLabelRevisions(app, trx, rows)
}

interface LabelledDocument {
  id: string
  owner_id: string
}

/** Lists all documents that have a label. Waits for deletions of the documents, which lock them before their index jobs and owners. */
export async function listLabelled(trx: Trx, labelId: string): Promise<LabelledDocument[]> {
  const { rows } = await sql<LabelledDocument>`
    select id, owner_id from live_documents documents join document_labels on document_id = id where label_id = ${labelId}
    order by id for key share of documents`.execute(trx)
  return rows
}

/** Queues the indexing of documents whose label was renamed or deleted and notifies their owners. */
export const reindexLabelled = (trx: Trx, documents: readonly LabelledDocument[]): Promise<void> =>
  publishUpdates(trx, documents, ['labels'])

async function lockVisible(trx: Trx, actor: Actor, documentIds: readonly string[]): Promise<string[]> {
  const ids = [...new Set(documentIds.map((id) => id.toLowerCase()))]
  requireAll(ids, ids.filter(isId))
  const rows = await trx
    .selectFrom('live_documents')
    .select('id')
    .where('id', 'in', ids)
    .$if(!isAdmin(actor), (query) => query.where('owner_id', '=', actor.id))
    // Every transaction locks documents in this order: two of them cannot deadlock. Uploads of the same bytes refer to a document meanwhile.
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
  const visible = rows.map(({ id }) => id)
  requireAll(ids, visible)
  return visible
}

async function writeLabelRevisions(app: App, trx: Trx, changed: readonly { document_id: string }[]): Promise<number> {
  if (changed.length === 0) return 0
  const ids = changed.map(({ document_id }) => document_id)
  const documents = await trx
    .updateTable('documents')
    .set((eb) => ({ revision: eb('revision', '+', 1), updated_at: app.now() }))
    .where('id', 'in', ids)
    .returning(['id', 'owner_id'])
    .execute()
  await publishUpdates(trx, documents, ['labels'])
  return ids.length
}
