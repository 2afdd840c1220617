import type { Person, Rows, World } from '../support/route-table.ts'

const own = async (world: World, who: Person) => ({ params: { id: await world.document(who) } })

/** A document with a rendition in this state. */
export const withRendition = (state: 'pending' | 'completed' | 'refused') => async (world: World, who: Person) => {
  const { params } = await own(world, who)
  const { sha256, size } = await world.app.db
    .selectFrom('documents')
    .select(['sha256', 'size'])
    .where('id', '=', params.id)
    .executeTakeFirstOrThrow()
  const file = state === 'completed' ? { sha256, size } : {}
  const values = { document_id: params.id, number: 1, kind: 'pdfa' as const, state, ...file }
  await world.app.db.insertInto('renditions').values(values).execute()
  return { params, query: { rendition: 'pdfa' } }
}

const body = { json: { kind: 'pdfa' } }

export const rows: Rows = {
  'GET /api/documents/:id/renditions': { good: own },
  'POST /api/documents/:id/renditions': {
    good: async (world, who) => ({ ...(await own(world, who)), ...body }),
    also: { 200: async (world, who) => ({ params: (await withRendition('completed')(world, who)).params, ...body }) },
  },
  'GET /api/renditions/status': { good: () => ({}) },
  'POST /api/renditions': { good: () => body },
}
