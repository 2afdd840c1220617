import type { Person, Rows, World } from '../support/route-table.ts'

const fields = (world: World, more: object = {}) => ({ name: world.word(), scopes: ['read'], ...more })
const made = (world: World, who: Person) => world.clientOf(who).tokens.create({ name: world.word(), scopes: ['read'] })
const own = async (world: World, who: Person) => ({ params: { id: (await made(world, who)).id } })

export const rows: Rows = {
  'GET /api/tokens': {
    good: () => ({}),
    errors: { USER_NOT_FOUND: () => ({ query: { user: 'nobody' } }) },
    withIds: [(_, who) => ({ query: { user: who.id } })],
  },
  'POST /api/tokens': {
    good: (world) => ({ json: fields(world) }),
    errors: {
      FORBIDDEN: (world) => ({ json: fields(world, { scopes: ['admin'] }) }),
      USER_NOT_FOUND: (world) => ({ json: fields(world, { user: world.bob.username }) }),
      DUPLICATE_RESOURCE: async (world, who) => ({ json: fields(world, { name: (await made(world, who)).name }) }),
      CONFLICT: async (world) => {
        const gone = await world.person()
        await world.app.db.updateTable('users').set({ disabled: true }).where('id', '=', gone.id).execute()
        return { as: world.admin.actor, json: fields(world, { user: gone.username }) }
      },
    },
    withIds: [(world, who) => ({ json: fields(world, { user: who.id }) })],
  },
  'GET /api/tokens/:id': { good: own },
  'DELETE /api/tokens/:id': { good: own },
}
