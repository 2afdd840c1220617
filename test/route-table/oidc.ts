import { createHash } from 'node:crypto'
import { callbackUrl, handOver } from '../../src/auth/oidc.ts'
import { type Identity, IdentityFailure, type IdentityProvider } from '../../src/ports.ts'
import type { Ask, Person, Rows, World } from '../support/route-table.ts'

const verifier = 'v'.repeat(43)
const memory = { verifier, state: 'state', nonce: 'nonce' }

/** An App whose provider says this; what providers really do is in oidc.test.ts. */
const saying = (world: World, changes: Partial<IdentityProvider>) =>
  world.but({
    identities: {
      issuer: 'https://id.example.org',
      begin: async () => ({ url: 'https://id.example.org/authorize', memory }),
      finish: async () => someone(world),
      check: async () => ({ discovery: 'ok' }),
      ...changes,
    },
  })

const someone = (world: World, more: Partial<Identity> = {}): Identity => {
  const name = world.word()
  const email = `${name}@example.com`
  return {
    issuer: 'https://id.example.org',
    subject: name,
    username: name,
    email,
    isEmailVerified: true,
    displayName: '',
    hostedDomain: null,
    groups: [],
    ...more,
  }
}

const failing = (kind: 'unavailable' | 'refused') => async () => {
  throw new IdentityFailure(kind, 'of the test')
}

/** Back from the provider, with the cookie that this browser got. */
async function back(world: World, changes: Partial<IdentityProvider> = {}): Promise<Ask> {
  const state = world.word()
  const cookie = await world.app.seals.seal('oidc', { memory: { ...memory, state }, shell: null }, 600, world.app.now())
  return { app: saying(world, changes), query: { state, code: 'code' }, headers: { cookie: `dms_oidc=${cookie}` } }
}

const configured = (ask: Ask, oidc: object): Ask => {
  const app = ask.app as World['app']
  return { ...ask, app: { ...app, config: { ...app.config, oidc: { ...app.config.oidc, ...oidc } } } }
}

const handedOver = async ({ app }: World, who: Person) => {
  const user = await app.db.selectFrom('users').selectAll().where('id', '=', who.id).executeTakeFirstOrThrow()
  return handOver(app, user, { port: 1, challenge: createHash('sha256').update(verifier).digest('base64url') })
}

export const rows: Rows = {
  'GET /api/auth/oidc/login': {
    good: (world) => ({ app: saying(world, {}) }),
    errors: {
      NOT_FOUND: () => ({}),
      SERVICE_UNAVAILABLE: (world) => ({ app: saying(world, { begin: failing('unavailable') }) }),
    },
  },
  'GET /api/auth/oidc/callback': {
    good: (world) => back(world),
    also: { 302: async (world) => configured(await back(world), { post_login_url: callbackUrl(world.app).href }) },
    errors: {
      NOT_FOUND: async (world) => ({ ...(await back(world)), app: world.app }),
      UNAUTHORIZED: (world) => back(world, { finish: failing('refused') }),
      FORBIDDEN: async (world) => configured(await back(world), { auto_create_users: false }),
      DUPLICATE_RESOURCE: (world) => back(world, { finish: async () => someone(world, { email: world.ada.email }) }),
      SERVICE_UNAVAILABLE: (world) => back(world, { finish: failing('unavailable') }),
    },
  },
  'POST /api/auth/oidc/exchange': {
    good: async (world) => ({ json: { code: await handedOver(world, await world.person()), verifier } }),
    errors: { UNAUTHORIZED: () => ({ json: { code: 'guess', verifier } }) },
  },
  'GET /api/health/auth/oidc': {
    good: () => ({}),
    errors: { SERVICE_UNAVAILABLE: (world) => ({ app: saying(world, { check: async () => ({ discovery: 'away' }) }) }) },
  },
}
