import type { Person, Rows, World } from '../support/route-table.ts'

/** Every object of the user that a filter can name. */
const filters = async (world: World, who: Person) => ({
  owner: who.id,
  label_ids: [(await world.label(who)).id],
  source_id: await world.source(who),
})

export const rows: Rows = {
  'GET /api/search': {
    good: () => ({ query: { q: 'words' } }),
    withIds: [
      async (world, who) => ({ query: { q: 'bytes', filters: JSON.stringify(await filters(world, who)) } }),
      (_world, who) => ({ query: { q: 'bytes', filters: JSON.stringify({ owner: who.id }) } }),
      async (world, who) => ({ query: { q: 'bytes', filters: JSON.stringify({ label_ids: [(await world.label(who)).id] }) } }),
    ],
  },
  'POST /api/search/advanced': {
    good: () => ({ json: { query: { must: [{ field: 'title', value: 'words', type: 'match' }] } } }),
    withIds: [
      async (world, who) => ({ json: { filters: await filters(world, who) } }),
      (_world, who) => ({ json: { filters: { owner: who.id } } }),
      async (world, who) => ({ json: { filters: { label_ids: [(await world.label(who)).id] } } }),
    ],
  },
  'GET /api/search/suggest': {
    good: () => ({ query: { q: 'word' } }),
  },
  'POST /api/search/pending': {
    good: async (world, who) => ({ json: { ids: [await world.document(who)] } }),
    withIds: [async (world, who) => ({ json: { ids: [await world.document(who)] } })],
  },
  'GET /api/documents/:id/matches': {
    good: async (world, who) => ({ params: { id: await world.document(who) }, query: { q: 'bytes' } }),
  },
  'GET /api/documents/:id/similar': {
    good: async (world, who) => ({ params: { id: await world.document(who) } }),
  },
}
