import type { z } from 'zod'
import type { AllReadAnswer, ListAnswer, listQuery, NotificationAnswer } from '../notifications/routes.ts'
import { type EntryStream, type OpenConnection, pathOf, type QueryOf, withQuery } from './http/connection.ts'

export type Notification = z.infer<typeof NotificationAnswer>
type NotificationQuery = QueryOf<ReturnType<typeof listQuery>>

/** Notifications of the user. */
export const notifications = ({ call, list }: OpenConnection) => ({
  list: (query: NotificationQuery = {}): EntryStream<Notification> => list(pathOf('notifications'), query, 'notifications'),
  /** Returns one page with the number of unread notifications. */
  page: (query: NotificationQuery = {}): Promise<z.infer<typeof ListAnswer>> => call('GET', withQuery(pathOf('notifications'), query)),
  read: (id: string): Promise<Notification> => call('PUT', pathOf('notifications', id, 'read')),
  readAll: (): Promise<z.infer<typeof AllReadAnswer>> => call('PUT', pathOf('notifications', 'read-all')),
  delete: (id: string): Promise<void> => call('DELETE', pathOf('notifications', id)),
})
