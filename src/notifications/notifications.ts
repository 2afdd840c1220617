/** Notifications: what happened to a user's things while nobody looked. Each belongs to one user, admins included. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Trx } from '../db/db.ts'
import type { Row } from '../db/schema.ts'
import { AppError } from '../errors.ts'
import { publish } from '../events.ts'
import type { PageOf } from '../http/pages.ts'

export const types = ['ocr_completed', 'ocr_failed', 'sync_completed', 'sync_failed', 'comment_added', 'shared_link_exhausted'] as const
export type Type = (typeof types)[number]

export type Notification = Row<'notifications'>

export interface News {
  title: string
  message: string
  /** ids of what it is about, such as `document_id` */
  data: Record<string, string>
}

/** Tells a user something, now and by an event, if your transaction commits; nothing at all to users who want no notifications, or are gone. */
export async function notify(app: App, trx: Trx, userId: string, type: Type, { title, message, data }: News): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    insert into notifications (user_id, type, title, message, data, created_at)
    select id, ${type}, ${title}, ${message}, ${JSON.stringify(data)}, ${app.now()} from users
    where id = ${userId}
      and not exists (select from user_settings where user_id = ${userId} and not notifications_enabled)
    returning id`.execute(trx)
  const [row] = rows
  if (row) await publish(trx, 'notification', userId, { id: row.id, type, title, message, data })
}

export interface Listed {
  notifications: Notification[]
  /** of those that the list is about */
  total: number
  /** of all that the user has */
  unread: number
}

/** One page of the user's notifications, newest first. */
export async function list(app: App, actor: Actor, { unread_only, page, per_page }: PageOf & { unread_only: boolean }): Promise<Listed> {
  const own = app.db.selectFrom('notifications').where('user_id', '=', actor.id)
  const unread = own.where('read_at', 'is', null)
  const count = sql<number>`count(*)`.as('total')
  const [notifications, counted, left] = await Promise.all([
    (unread_only ? unread : own)
      .selectAll()
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(per_page)
      .offset((page - 1) * per_page)
      .execute(),
    own.select(count).executeTakeFirstOrThrow(),
    unread.select(count).executeTakeFirstOrThrow(),
  ])
  return { notifications, total: unread_only ? left.total : counted.total, unread: left.total }
}

/** Marks one as read; once read it stays as it is. Throws NOTIFICATION_NOT_FOUND. */
export async function read(app: App, actor: Actor, id: string): Promise<Notification> {
  const notification = await app.db
    .updateTable('notifications')
    .set((eb) => ({ read_at: eb.fn.coalesce('read_at', eb.val(app.now())) }))
    .where('id', '=', id)
    .where('user_id', '=', actor.id)
    .returningAll()
    .executeTakeFirst()
  if (!notification) throw new AppError('NOTIFICATION_NOT_FOUND')
  return notification
}

/** Marks all of the user's as read; how many were not. */
export async function readAll(app: App, actor: Actor): Promise<number> {
  const { numUpdatedRows } = await app.db
    .updateTable('notifications')
    .set({ read_at: app.now() })
    .where('user_id', '=', actor.id)
    .where('read_at', 'is', null)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** Removes one. Throws NOTIFICATION_NOT_FOUND. */
export async function remove(app: App, actor: Actor, id: string): Promise<void> {
  const { numDeletedRows } = await app.db
    .deleteFrom('notifications')
    .where('id', '=', id)
    .where('user_id', '=', actor.id)
    .executeTakeFirst()
  if (numDeletedRows === 0n) throw new AppError('NOTIFICATION_NOT_FOUND')
}
