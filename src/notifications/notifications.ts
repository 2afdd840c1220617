/** Notifications of users. Each belongs to one user; admins see only their own. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { keyset } from '../db/keyset.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { type DeletionOptions, deleteInBatches } from '../db/statements.ts'
import { AppError } from '../errors.ts'
import { publish } from '../events.ts'
import { countRows, type FetchedPage, fetchPage, fetchSlice, type PageRequest, type Slice } from '../http/pages.ts'

export const types = [
  'ocr_completed',
  'ocr_failed',
  'sync_completed',
  'sync_failed',
  'comment_added',
  'shared_link_exhausted',
  'shared_link_locked',
  'account_linked',
] as const
export type Type = (typeof types)[number]

export type Notification = Row<'notifications'>

/** Period in which events of one batch share a notification, until it is read. */
const batchMs = 3_600_000

export interface Content {
  title: string
  message: string
  /** Message for `count` events. If it is set, events of this type share one notification. */
  batchMessage?: (count: number) => string
  /** number of events in this notification; default 1 */
  count?: number
  /** ids of related objects, such as `document_id` */
  data: Record<string, string>
}

/**
 * Creates a notification and its event, or counts the event in the notification of the batch. Does nothing if the user was deleted or has
 * switched notifications off.
 */
export async function notify(app: App, trx: Trx, userId: string, type: Type, content: Content): Promise<void> {
  const { title, batchMessage, count = 1 } = content
  if (await addToBatch(app, trx, userId, type, content)) return
  const message = (count > 1 && batchMessage?.(count)) || content.message
  const data = count > 1 ? { ...content.data, count } : content.data
  const { rows } = await sql<{ id: string }>`
    insert into notifications (user_id, type, title, message, data, created_at)
    select id, ${type}, ${title}, ${message}, ${JSON.stringify(data)}, ${app.now()} from users
    where id = ${userId}
      and not exists (select from user_settings where user_id = ${userId} and not notifications_enabled)
    returning id`.execute(trx)
  const [row] = rows
  if (row) await publish(trx, 'notification', userId, { id: row.id, type, title, message, data })
}

/** Counts events in the unread notification of their batch. Returns whether there is one. */
async function addToBatch(
  app: App,
  trx: Trx,
  userId: string,
  type: Type,
  { batchMessage, data, count: added = 1 }: Content,
): Promise<boolean> {
  if (!batchMessage) return false
  // If the first two events are concurrent, the second waits for the notification of the first.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`notification:${type}:${userId}`}, 0))`.execute(trx)
  const batch = await trx
    .selectFrom('notifications')
    .select(['id', 'data'])
    .where('user_id', '=', userId)
    .where('type', '=', type)
    .where('read_at', 'is', null)
    .where('created_at', '>', new Date(app.now().getTime() - batchMs))
    .where(sql<boolean>`not exists (select from user_settings where user_id = ${userId} and not notifications_enabled)`)
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (!batch) return false
  const count = Number((batch.data as { count?: number | string }).count ?? 1) + added
  const changes = { message: batchMessage(count), data: JSON.stringify({ ...data, count }) }
  // The user may have read or deleted it meanwhile.
  const { numUpdatedRows } = await trx
    .updateTable('notifications')
    .set(changes)
    .where('id', '=', batch.id)
    .where('read_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

export interface NotificationPage extends FetchedPage<Notification> {
  /** number of all unread notifications of the user */
  unread: number
}

const newestFirst = keyset({ by: 'created_at', type: 'timestamp', order: 'desc' }, { by: 'id', type: 'id', order: 'desc' })

/** Returns one page of the user's notifications, newest first. Throws VALIDATION_ERROR for a cursor of another list. */
export async function list(
  app: App,
  actor: Actor,
  { unread_only, ...page }: PageRequest & { unread_only: boolean },
): Promise<NotificationPage> {
  const own = app.db.selectFrom('notifications').where('user_id', '=', actor.id)
  const unread = own.where('read_at', 'is', null)
  const listed = unread_only ? unread : own
  const fetch = (slice: Slice) => fetchSlice(listed.selectAll(), newestFirst, slice)
  const [fetched, unreadCount] = await Promise.all([
    fetchPage(page, newestFirst, ['notifications', unread_only], fetch, () => countRows(listed)),
    countRows(unread),
  ])
  return { ...fetched, unread: unreadCount }
}

/** Marks a notification as read. Keeps the time of the first call. Throws NOTIFICATION_NOT_FOUND. */
export const markRead = (app: App, actor: Actor, id: string): Promise<Notification> =>
  app.db
    .updateTable('notifications')
    .set((eb) => ({ read_at: eb.fn.coalesce('read_at', eb.val(app.now())) }))
    .where('id', '=', id)
    .where('user_id', '=', actor.id)
    .returningAll()
    .executeTakeFirstOrThrow(() => new AppError('NOTIFICATION_NOT_FOUND'))

/** Marks all notifications of the user as read. Returns the number of unread ones. */
export async function markAllRead(app: App, actor: Actor): Promise<number> {
  const { numUpdatedRows } = await app.db
    .updateTable('notifications')
    .set({ read_at: app.now() })
    .where('user_id', '=', actor.id)
    .where('read_at', 'is', null)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** Deletes a notification. Throws NOTIFICATION_NOT_FOUND. */
export async function remove(app: App, actor: Actor, id: string): Promise<void> {
  const { numDeletedRows } = await app.db
    .deleteFrom('notifications')
    .where('id', '=', id)
    .where('user_id', '=', actor.id)
    .executeTakeFirst()
  if (numDeletedRows === 0n) throw new AppError('NOTIFICATION_NOT_FOUND')
}

/** Deletes notifications that were read more than `ageMs` ago. Returns their number. */
export const deleteRead = (db: Db, ageMs: number, options?: DeletionOptions): Promise<number> =>
  deleteInBatches(db, 'notifications', sql`select id from notifications where read_at < now() - ${ageMs} * interval '1 ms'`, options)
