import { createToken } from '../../src/users/email-verification.ts'
import { password, type RouteRequest, type Rows, type World } from '../support/route-table.ts'

const account = (world: World, more: object = {}) => {
  const username = world.word()
  return { username, email: `${username}@example.org`, password, ...more }
}

async function wrongPassword(world: World): Promise<RouteRequest> {
  return { json: { username: (await world.person()).username, password: 'wrong' } }
}

export const rows: Rows = {
  'POST /api/auth/login': {
    good: async (world) => ({ json: { username: (await world.person()).username, password } }),
    errors: {
      UNAUTHORIZED: wrongPassword,
      FORBIDDEN: async (world) => {
        const { config } = world.app
        return { ...(await wrongPassword(world)), app: world.but({ config: { ...config, auth: { ...config.auth, method: 'oidc' } } }) }
      },
      EMAIL_NOT_VERIFIED: async (world) => {
        const { config } = world.app
        const app = world.but({ config: { ...config, auth: { ...config.auth, require_email_verification: true } } })
        const { username } = await world.person()
        await app.db.updateTable('users').set({ email_verified_at: null }).where('username', '=', username).execute()
        return { json: { username, password }, app }
      },
      RATE_LIMITED: async (world) => {
        const ask = { ...(await wrongPassword(world)), ip: '203.0.113.1' }
        await world.repeat(10, 'POST /api/auth/login', ask)
        return ask
      },
    },
  },
  'POST /api/auth/register': {
    good: (world) => ({ json: account(world) }),
    errors: {
      FORBIDDEN: (world) => ({ json: account(world, { role: 'admin' }) }),
      DUPLICATE_RESOURCE: async (world) => ({ json: account(world, { username: (await world.person()).username.toUpperCase() }) }),
      RATE_LIMITED: async (world) => {
        const ask = { json: account(world), ip: '203.0.113.2' }
        await world.repeat(10, 'POST /api/auth/register', ask)
        return ask
      },
    },
  },
  'GET /api/auth/verify-email': {
    good: async (world) => {
      const { id, username } = await world.person()
      return { query: { token: (await createToken(world.app, { id, email_key: `${username}@example.org` })) ?? '' } }
    },
  },
  'POST /api/auth/verify-email/resend': { good: async (world) => ({ json: { email: `${(await world.person()).username}@example.org` } }) },
  'POST /api/auth/logout': { good: () => ({}) },
  'POST /api/auth/refresh': {
    good: async (world) => ({ headers: { authorization: `Bearer ${await world.token(await world.person())}` } }),
    errors: { UNAUTHORIZED: () => ({}) },
  },
  'GET /api/auth/me': { good: () => ({}), errors: { USER_NOT_FOUND: ({ operator }) => ({ as: operator }) } },
}
