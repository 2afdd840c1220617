import { z } from 'zod'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { booleanText } from '../http/input.ts'
import { Pagination, pageQuery, pagination } from '../http/pages.ts'
import { type Route, user } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import { resolvePage } from '../settings/settings.ts'
import * as notifications from './notifications.ts'

export const listQuery = ({ config }: App) => z.object({ ...pageQuery(config), unread_only: booleanText.default(false) })

export const NotificationAnswer = z.object({
  id: z.uuid(),
  type: z.enum(notifications.types),
  title: z.string(),
  message: z.string(),
  read: z.boolean(),
  data: z.record(z.string(), z.unknown()),
  created_at: z.iso.datetime(),
})
export const ListAnswer = z.object({ notifications: z.array(NotificationAnswer), unread_count: z.int(), pagination: Pagination })
export const AllReadAnswer = z.object({ updated: z.int() })

const ids = { id: 'NOTIFICATION_NOT_FOUND' } as const

export const routes = (app: App): Route[] => {
  const one = { summary: 'Mark a notification as read', ids, answer: NotificationAnswer } as const
  const read = async (actor: Actor, id: string) => view(await notifications.markRead(app, actor, id))
  const all = { summary: 'Mark all your notifications as read', answer: AllReadAnswer } as const
  const readAll = async (actor: Actor) => ({ updated: await notifications.markAllRead(app, actor) })

  return [
    user(
      'GET /api/notifications',
      { summary: 'List your notifications, newest first', query: listQuery(app), answer: ListAnswer, isLarge: true },
      async ({ actor, query }) => {
        const page = await resolvePage(app, actor, query)
        const { unread_only } = query
        const fetched = await notifications.list(app, actor, { unread_only, ...page })
        return { notifications: fetched.rows.map(view), unread_count: fetched.unread, pagination: pagination(page, fetched) }
      },
    ),
    user('PUT /api/notifications/read-all', all, ({ actor }) => readAll(actor)),
    user('PUT /api/notifications/read/all', all, ({ actor }) => readAll(actor)),
    user('POST /api/notifications/read/all', all, ({ actor }) => readAll(actor)),
    user('PUT /api/notifications/:id/read', one, ({ actor, param }) => read(actor, param('id'))),
    user('POST /api/notifications/:id/read', one, ({ actor, param }) => read(actor, param('id'))),
    user('DELETE /api/notifications/:id', { summary: 'Delete a notification', ids }, ({ actor, param }) =>
      notifications.remove(app, actor, param('id')),
    ),
  ]
}

const view = (row: notifications.Notification) =>
  viewOf(NotificationAnswer, { ...row, type: row.type as notifications.Type, read: row.read_at !== null })
