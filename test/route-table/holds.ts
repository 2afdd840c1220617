import { sql } from 'kysely'
import type { Person, Rows, World } from '../support/route-table.ts'

const newHold = async (world: World) => (await world.asAdmin.holds.create({ name: world.word() })).id
const own = async (world: World) => ({ params: { id: await newHold(world) } })
const released = async (world: World) => {
  const ask = await own(world)
  await world.asAdmin.holds.release(ask.params.id)
  return ask
}
const withDocument = async (world: World, who: Person) => {
  const ask = await own(world)
  await world.asAdmin.holds.add(ask.params.id, [await world.document(who)])
  return ask
}
const taken = async (world: World) => {
  const { name } = await world.asAdmin.holds.get(await newHold(world))
  return { name: name.toUpperCase() }
}

const onDocuments = {
  good: async (world: World, who: Person) => ({ ...(await own(world)), json: { document_ids: [await world.document(who)] } }),
  errors: {
    DOCUMENT_NOT_FOUND: async (world: World) => {
      const id = await world.document(world.ada)
      await sql`delete from documents where id = ${id}`.execute(world.app.db)
      return { ...(await own(world)), json: { document_ids: [id] } }
    },
    CONFLICT: async (world: World, who: Person) => ({ ...(await released(world)), json: { document_ids: [await world.document(who)] } }),
  },
} as const

export const rows: Rows = {
  'GET /api/holds': { good: () => ({ query: { released: 'false' } }) },
  'POST /api/holds': {
    good: (world) => ({ json: { name: world.word(), reason: 'a claim' } }),
    errors: { DUPLICATE_RESOURCE: async (world) => ({ json: await taken(world) }) },
  },
  'GET /api/holds/:id': { good: own },
  'PUT /api/holds/:id': {
    good: async (world) => ({ ...(await own(world)), json: { reason: 'another' } }),
    errors: {
      DUPLICATE_RESOURCE: async (world) => ({ ...(await own(world)), json: await taken(world) }),
      CONFLICT: async (world) => ({ ...(await released(world)), json: { reason: 'too late' } }),
    },
  },
  'DELETE /api/holds/:id': { good: released, errors: { RETENTION: withDocument } },
  'POST /api/holds/:id/release': { good: withDocument },
  'POST /api/holds/:id/documents': onDocuments,
  'POST /api/holds/:id/documents/remove': onDocuments,
  'DELETE /api/holds/:id/documents/:document_id': {
    good: async (world, who) => ({ params: { ...(await own(world)).params, document_id: await world.document(who) } }),
    errors: {
      CONFLICT: async (world, who) => ({ params: { ...(await released(world)).params, document_id: await world.document(who) } }),
    },
  },
  'GET /api/retention/report': { good: () => ({}) },
}
