import type { Person, Row, Rows, World } from '../support/route-table.ts'

const own: Row = { good: async (world: World, who: Person) => ({ params: { id: await world.notification(who) } }) }
const all: Row = { good: () => ({}) }

export const rows: Rows = {
  'GET /api/notifications': { good: () => ({ query: { unread_only: 'true' } }) },
  'PUT /api/notifications/read-all': all,
  'PUT /api/notifications/read/all': all,
  'POST /api/notifications/read/all': all,
  'PUT /api/notifications/:id/read': own,
  'POST /api/notifications/:id/read': own,
  'DELETE /api/notifications/:id': own,
}
