/** Holds: an admin keeps documents from being destroyed until the hold is released. A released hold stays as a record. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { clock } from '../db/clock.ts'
import { byCreation, type RowWithCursorKey } from '../db/keyset.ts'
import { type Db, rejectDuplicateName, type Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { requireAll } from '../documents/access.ts'
import { labelKey } from '../documents/document-labels.ts'
import { AppError } from '../errors.ts'
import { publishMany } from '../events.ts'
import { type FetchedPage, fetchSlice, fetchWhole, type WholeInput } from '../http/pages.ts'
import { isId } from '../id.ts'
import { slicesOf } from '../slices.ts'

export interface Hold extends Omit<Row<'holds'>, 'name_key'> {
  document_count: number
  /** user name; null: the operator, or a user who was deleted */
  created_by: string | null
}

export interface Fields {
  name: string
  reason: string
}

const newestFirst = byCreation('holds', 'desc')

/** Returns all holds or one page of them, newest first. `released`: only released holds, or only holds in force. */
export const list = (app: App, released: boolean | undefined, page: WholeInput): Promise<FetchedPage<Hold & RowWithCursorKey>> => {
  const holds = selectHolds(app.db).$if(released !== undefined, (query) =>
    query.where('holds.released_at', released ? 'is not' : 'is', null),
  )
  return fetchWhole(page, newestFirst, ['holds', released], (slice) => fetchSlice(holds, newestFirst, slice))
}

/** Returns a hold. Throws HOLD_NOT_FOUND. */
export const get = (db: Db, id: string): Promise<Hold> =>
  selectHolds(db)
    .where('holds.id', '=', id)
    .executeTakeFirstOrThrow(() => new AppError('HOLD_NOT_FOUND'))

const duplicateMessage = 'A hold with this name is in force already.'

/** Creates a hold without documents. Throws DUPLICATE_RESOURCE if a hold in force has the name, ignoring case. */
export async function create(app: App, actor: Actor, fields: Fields): Promise<Hold> {
  const values = { ...fields, name_key: labelKey(fields.name), created_by: actor.id, created_at: app.now() }
  const { id } = await rejectDuplicateName(
    () => app.db.insertInto('holds').values(values).returning('id').executeTakeFirstOrThrow(),
    duplicateMessage,
  )
  return get(app.db, id)
}

/** Changes name or reason. Throws HOLD_NOT_FOUND, DUPLICATE_RESOURCE, CONFLICT for a released hold. */
export async function update(app: App, id: string, changes: Partial<Fields>): Promise<Hold> {
  return app.db.transaction().execute(async (trx) => {
    const before = await lock(trx, id)
    const { name = before.name, reason = before.reason } = changes
    // A client may send a released hold as it read it.
    if (name !== before.name || reason !== before.reason) assertInForce(before)
    const values = { name, name_key: labelKey(name), reason }
    await rejectDuplicateName(() => trx.updateTable('holds').set(values).where('id', '=', id).execute(), duplicateMessage)
    return get(trx, id)
  })
}

/** Deletes a hold that was released or has no documents. Throws HOLD_NOT_FOUND, RETENTION. */
export async function remove(app: App, id: string): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await lock(trx, id)
    const { document_count, released_at } = await get(trx, id)
    if (released_at === null && document_count > 0)
      throw new AppError('RETENTION', { documents: document_count }, `The hold keeps documents (${document_count}): release it first.`)
    await trx.deleteFrom('holds').where('id', '=', id).execute()
  })
}

/** Releases a hold. Does nothing if it was released before. Throws HOLD_NOT_FOUND. */
export async function release(app: App, id: string): Promise<Hold> {
  return app.db.transaction().execute(async (trx) => {
    const { released_at } = await lock(trx, id)
    if (released_at === null) {
      await sql`update holds set released_at = ${clock} where id = ${id}`.execute(trx)
      const { rows } = await sql<Owned>`
        select documents.id, owner_id from hold_documents join documents on documents.id = document_id where hold_id = ${id}`.execute(trx)
      await publishChanges(trx, rows)
    }
    return get(trx, id)
  })
}

/**
 * Puts all of the documents under a hold or none. Accepts documents in the trash. Returns the number of additions. Throws HOLD_NOT_FOUND,
 * DOCUMENT_NOT_FOUND, CONFLICT.
 */
export async function addDocuments(app: App, actor: Actor, id: string, documentIds: readonly string[]): Promise<number> {
  return app.db.transaction().execute(async (trx) => {
    const ids = await lockDocuments(trx, documentIds)
    await lockInForce(trx, id)
    const { rows } = await sql<Owned>`
      with added as (
        insert into hold_documents (hold_id, document_id, added_at, added_by) select ${id}, unnest(${ids}::uuid[]), ${app.now()}, ${actor.id}
        on conflict do nothing returning document_id)
      select documents.id, owner_id from added join documents on documents.id = document_id`.execute(trx)
    await publishChanges(trx, rows)
    return rows.length
  })
}

/** Puts new documents under the holds of a locked document. */
export async function inherit(app: App, trx: Trx, from: string, ids: readonly string[]): Promise<void> {
  await sql`
    with inherited as (
      select hold_id, hold_documents.added_by from hold_documents join holds on holds.id = hold_id
      where document_id = ${from} and released_at is null for share of holds
    )
    insert into hold_documents (hold_id, document_id, added_at, added_by)
    select hold_id, id, ${app.now()}, added_by from inherited cross join unnest(${ids}::uuid[]) as part (id)`.execute(trx)
}

/** Removes documents from a hold, all or none. Returns the number of removals. Throws HOLD_NOT_FOUND, DOCUMENT_NOT_FOUND, CONFLICT. */
export async function removeDocuments(app: App, id: string, documentIds: readonly string[]): Promise<number> {
  return app.db.transaction().execute(async (trx) => {
    const ids = await lockDocuments(trx, documentIds)
    await lockInForce(trx, id)
    const { rows } = await sql<Owned>`
      with removed as (delete from hold_documents where hold_id = ${id} and document_id = any(${ids}::uuid[]) returning document_id)
      select documents.id, owner_id from removed join documents on documents.id = document_id`.execute(trx)
    await publishChanges(trx, rows)
    return rows.length
  })
}

const selectHolds = (db: Db) =>
  db
    .selectFrom('holds')
    .leftJoin('users', 'users.id', 'holds.created_by')
    .select(['holds.id', 'holds.name', 'holds.reason', 'holds.created_at', 'holds.released_at', 'users.username as created_by'])
    .select(sql<number>`(select count(*) from hold_documents where hold_id = holds.id)`.as('document_count'))
    .$castTo<Hold>()

async function lock(trx: Trx, id: string): Promise<Pick<Hold, 'name' | 'reason' | 'released_at'>> {
  const hold = await trx.selectFrom('holds').select(['name', 'reason', 'released_at']).where('id', '=', id).forUpdate().executeTakeFirst()
  if (!hold) throw new AppError('HOLD_NOT_FOUND')
  return hold
}

const lockInForce = async (trx: Trx, id: string): Promise<void> => assertInForce(await lock(trx, id))

function assertInForce({ released_at }: Pick<Hold, 'released_at'>): void {
  if (released_at !== null) throw new AppError('CONFLICT', { released_at: released_at.toISOString() }, 'The hold was released.')
}

type Owned = { id: string; owner_id: string }

/** Locks documents and their versions against deletion until the transaction ends. Returns the ids in lower case. Throws DOCUMENT_NOT_FOUND. */
async function lockDocuments(trx: Trx, documentIds: readonly string[]): Promise<string[]> {
  const ids = [...new Set(documentIds.map((id) => id.toLowerCase()))]
  requireAll(ids, ids.filter(isId))
  const { rows } = await sql<{ id: string }>`select id from documents where id = any(${ids}::uuid[]) order by id for share`.execute(trx)
  requireAll(
    ids,
    rows.map(({ id }) => id),
  )
  return ids
}

/** Events published by one statement. */
const batchSize = 1000

async function publishChanges(trx: Trx, documents: readonly Owned[]): Promise<void> {
  for (const batch of slicesOf(documents, batchSize)) {
    const events = batch.map(({ id, owner_id }) => ({ userId: owner_id, data: { document_id: id, changes: ['holds'] } }))
    await publishMany(trx, 'document_updated', events)
  }
}
