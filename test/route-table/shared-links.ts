import { noId, type Person, type Rows, type World } from '../support/route-table.ts'

const below = (path: string): Rows => ({
  [`POST ${path}`]: {
    good: async (world, who) => {
      await world.later(200_000)
      return { json: { document_id: await world.document(who), max_views: 3, password: 'open' } }
    },
    errors: {
      DOCUMENT_NOT_FOUND: () => ({ json: { document_id: noId() } }),
      SHARED_LINK_RATE_LIMITED: async (world) => {
        const maker = await world.person()
        const ask = { as: maker.actor, json: { document_id: await world.document(maker) } }
        await world.repeat(20, `POST ${path}`, ask)
        return ask
      },
    },
  },
  [`GET ${path}`]: { good: () => ({ query: { per_page: '5' } }) },
  [`GET ${path}/document/:document_id`]: {
    good: async (world, who) => ({ params: { document_id: (await world.link(who)).document_id } }),
  },
  [`DELETE ${path}/:id`]: { good: async (world: World, who: Person) => ({ params: { id: (await world.link(who)).id } }) },
})

export const rows: Rows = { ...below('/api/shared-links'), ...below('/api/shared/links') }
