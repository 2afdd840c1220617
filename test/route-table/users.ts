import { password, type Rows, type World } from '../support/route-table.ts'

const account = (world: World, more: object = {}) => {
  const username = world.word()
  return { username, email: `${username}@example.org`, password, ...more }
}

const someone = async (world: World) => ({ params: { id: (await world.person()).id } })

export const rows: Rows = {
  'GET /api/users': { good: () => ({ query: { role: 'user' } }) },
  'POST /api/users': {
    good: (world) => ({ json: account(world, { role: 'admin' }) }),
    errors: { DUPLICATE_RESOURCE: (world) => ({ json: account(world, { email: world.ada.email.toUpperCase() }) }) },
  },
  'POST /api/users/import': { good: (world) => ({ query: { dry_run: 'false' }, json: { users: [account(world)] } }) },
  'GET /api/users/profile': { good: () => ({}), errors: { USER_NOT_FOUND: ({ operator }) => ({ as: operator }) } },
  'PUT /api/users/profile': {
    good: (world) => ({ json: { display_name: world.word() } }),
    errors: {
      USER_NOT_FOUND: ({ operator }) => ({ as: operator, json: {} }),
      DUPLICATE_RESOURCE: ({ bob }) => ({ json: { email: bob.email } }),
    },
  },
  'POST /api/users/change-password': {
    good: async (world) => ({ as: (await world.person()).actor, json: { current_password: password, new_password: `${password}2` } }),
    errors: {
      FORBIDDEN: async (world) => ({
        as: (await world.person()).actor,
        json: { current_password: 'wrong', new_password: `${password}2` },
      }),
      USER_NOT_FOUND: ({ operator }) => ({ as: operator, json: { current_password: password, new_password: `${password}2` } }),
      RATE_LIMITED: async (world) => {
        const ask = { as: (await world.person()).actor, json: { current_password: 'wrong', new_password: `${password}2` } }
        await world.repeat(10, 'POST /api/users/change-password', ask)
        return ask
      },
    },
  },
  'GET /api/users/:id': { good: someone },
  'PUT /api/users/:id': {
    good: async (world) => ({ ...(await someone(world)), json: { display_name: world.word() } }),
    errors: {
      DUPLICATE_RESOURCE: async (world) => ({ ...(await someone(world)), json: { email: world.bob.email } }),
      CONFLICT: async (world) => ({ params: { id: await world.onlyAdmin() }, json: { role: 'user' } }),
    },
  },
  'DELETE /api/users/:id': {
    good: someone,
    withIds: [async (world, who) => ({ ...(await someone(world)), query: { documents: 'transfer', to: who.id } })],
    errors: {
      CONFLICT: async (world) => {
        await world.document(world.bob)
        return { params: { id: world.bob.id } }
      },
      RETENTION: async (world) => {
        const owner = await world.person()
        await world.retained(owner)
        return { params: { id: owner.id }, query: { documents: 'delete' } }
      },
    },
  },
  'GET /api/users/:identifier/groups': {
    good: async (world) => ({ params: { identifier: (await world.person()).username } }),
    errors: { USER_NOT_FOUND: (world) => ({ params: { identifier: world.word() } }) },
  },
}
