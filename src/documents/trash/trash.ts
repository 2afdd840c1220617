/** The trash: documents that only their owner and admins can see, until they are restored or purged. */
import { type RawBuilder, sql } from 'kysely'
import { type Actor, isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import { clock } from '../../db/clock.ts'
import { keyset, type RowWithCursorKey } from '../../db/keyset.ts'
import type { Trx } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { publishMany } from '../../events.ts'
import { countRows, type FetchedPage, fetchPage, type PageRequest, type Slice } from '../../http/pages.ts'
import { parseUserIdentifier } from '../../http/user-identifier.ts'
import * as jobs from '../../jobs/queue.ts'
import { slicesOf } from '../../slices.ts'
import { requireDocument, requireDocumentName, requireMatch } from '../access.ts'
import { queueStranded } from '../extraction/stranded-documents.ts'
import { requestAfterReturn } from '../renditions/renditions.ts'
import { assertDestroyable } from '../retention.ts'
import { enqueueIndex } from '../revisions.ts'
import { type Document, excerptLength, selectAllDocuments } from '../view.ts'
import { destroyDocuments } from './destroy.ts'

/** Documents changed by one statement. */
const batchSize = 500

/**
 * Moves documents to the trash and cancels their jobs. Requested renditions stay requested. Skips ids that do not exist or are in the trash already.
 * Returns the ids of the moved documents.
 */
export async function moveToTrash(app: App, trx: Trx, actorId: string | null, ids: readonly string[]): Promise<string[]> {
  const moved: string[] = []
  for (const batch of slicesOf(ids.toSorted(), batchSize)) {
    const { rows } = await sql<{ id: string; owner_id: string }>`
      with locked as materialized (select id from live_documents where id = any(${batch}::uuid[]) order by id for no key update)
      update documents set deleted_at = ${clock}, deleted_by = ${actorId}, revision = revision + 1, updated_at = ${app.now()}
      from locked where documents.id = locked.id returning documents.id, owner_id`.execute(trx)
    const trashed = await finish(trx, 'document_trashed', rows)
    await jobs.cancelByDocument(trx, trashed)
    moved.push(...trashed)
  }
  return moved
}

/** Moves documents out of the trash and queues unfinished texts and missing renditions. Returns the ids of the moved documents. */
export async function undelete(app: App, trx: Trx, ids: readonly string[]): Promise<string[]> {
  const moved: string[] = []
  for (const batch of slicesOf(ids.toSorted(), batchSize)) {
    const { rows } = await sql<{ id: string; owner_id: string }>`
      with locked as materialized (select id from documents where id = any(${batch}::uuid[]) and deleted_at is not null order by id for update)
      update documents set deleted_at = null, deleted_by = null, revision = revision + 1, updated_at = ${app.now()}
      from locked where documents.id = locked.id returning documents.id, owner_id`.execute(trx)
    const restored = await finish(trx, 'document_restored', rows)
    await queueStranded(app, trx, restored)
    await requestAfterReturn(app, trx, restored)
    moved.push(...restored)
  }
  return moved
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

interface RemovalOptions {
  /** destroy the document instead of moving it to the trash; also finds documents in the trash */
  isPermanent: boolean
  /** the If-Match header */
  ifMatch?: string | null
}

/**
 * Deletes a document: moves it to the trash, or destroys it if `isPermanent` or without a trash. Throws DOCUMENT_NOT_FOUND, PRECONDITION_FAILED,
 * RETENTION.
 */
export async function remove(app: App, actor: Actor, id: string, { isPermanent, ifMatch = null }: RemovalOptions): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    // Serializes concurrent deletions: the second waits here and then finds no document.
    await trx.selectFrom('documents').select('id').where('id', '=', id).forUpdate().execute()
    requireMatch(await requireDocument(trx, actor, id, { inTrash: isPermanent }), ifMatch)
    if (isPermanent) await destroyDocuments(app, trx, actor, [id], 'permanent')
    else await discardDocuments(app, trx, actor, [id])
  })
}

/** Changes nothing: throws what remove() would throw, and returns whether it would destroy the document. */
export async function checkRemoval(
  app: App,
  actor: Actor,
  id: string,
  { isPermanent }: Pick<RemovalOptions, 'isPermanent'>,
): Promise<boolean> {
  const isFinal = isPermanent || !hasTrash(app)
  await app.db.transaction().execute(async (trx) => {
    await requireDocumentName(trx, actor, id, { inTrash: isPermanent })
    if (isFinal) await assertDestroyable(app, trx, id)
  })
  return isFinal
}

/** Returns whether deleted documents stay in the trash. */
export const hasTrash = ({ config }: App): boolean => config.documents.trash_days > 0

/** Moves documents to the trash; destroys them if there is no trash. Throws RETENTION if there is no trash. */
export async function discardDocuments(app: App, trx: Trx, actor: Actor, ids: readonly string[]): Promise<void> {
  if (!hasTrash(app)) await destroyDocuments(app, trx, actor, ids, 'permanent')
  else await moveToTrash(app, trx, actor.id, ids)
}

/** Moves a document out of the trash and returns it. Throws DOCUMENT_NOT_FOUND, CONFLICT if it is not in the trash. */
export async function restore(app: App, actor: Actor, id: string): Promise<Document> {
  return app.db.transaction().execute(async (trx) => {
    await requireDocumentName(trx, actor, id, { inTrash: true })
    if ((await undelete(app, trx, [id])).length === 0) throw new AppError('CONFLICT', {}, 'The document is not in the trash.')
    return requireDocument(trx, actor, id)
  })
}

const lastDeletedFirst = keyset(
  { by: 'documents.deleted_at', type: 'timestamp', order: 'desc' },
  { by: 'documents.id', type: 'id', order: 'desc' },
)

export interface TrashFilter {
  /** user name or id of the owner; only admins see documents of others */
  owner?: string | undefined
}

/** Returns one page of the documents in the trash that the actor can see, the last deleted first. Throws VALIDATION_ERROR for a cursor of another list. */
export function list(
  { db }: App,
  actor: Actor,
  { owner }: TrashFilter,
  page: PageRequest,
): Promise<FetchedPage<Document & RowWithCursorKey>> {
  const all = db.selectFrom('documents').where(isInTrash(actor, owner))
  const fetch = ({ limit, offset, after }: Slice) => {
    const rest = after ? all.where(lastDeletedFirst.isAfter(after)) : all
    const ids = lastDeletedFirst.orderBy(rest.select('documents.id')).limit(limit).offset(offset)
    const documents = selectAllDocuments(db, excerptLength).where('documents.id', 'in', ids)
    return lastDeletedFirst.orderBy(documents).select(lastDeletedFirst.key).$castTo<Document & RowWithCursorKey>().execute()
  }
  return fetchPage(page, lastDeletedFirst, ['trash', owner], fetch, () => countRows(all))
}

/** Returns the condition that a row of `documents` is in the trash and visible to the actor. */
export function isInTrash(actor: Actor, owner: string | undefined): RawBuilder<boolean> {
  const visible = isAdmin(actor) ? sql`true` : sql`owner_id = ${actor.id}`
  if (!owner) return sql`(deleted_at is not null and ${visible})`
  const { column, value } = parseUserIdentifier(owner)
  return sql`(deleted_at is not null and ${visible} and owner_id = (select id from users where ${sql.ref(column)} = ${value}))`
}
