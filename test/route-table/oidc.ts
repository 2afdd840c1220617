import { createHash } from 'node:crypto'
import { callbackUrl } from '../../src/auth/oidc.ts'
import { IdentityFailure, type IdentityProvider } from '../../src/ports/identity-provider.ts'
import { type Person, type RouteRequest, type Rows, someone, type World } from '../support/route-table.ts'

const verifier = 'v'.repeat(43)

/** Seconds: other rows set the clock forward before a request is sent. */
const long = 86_400

/** Creates an App with this provider. */
const saying = ({ app, but }: World, changes: Partial<IdentityProvider>) =>
  but({ identities: { ...(app.identities as IdentityProvider), ...changes } })

const failing = (kind: 'unavailable' | 'refused') => async () => {
  throw new IdentityFailure(kind, 'of the test')
}

/** The callback of the provider, with the cookie of this browser. */
async function back({ app, word }: World): Promise<RouteRequest> {
  const loginState = { verifier, state: word(), nonce: 'nonce' }
  const cookie = await app.encryptedTokens.encrypt('oidc', { loginState, shell: null }, long, app.now())
  return { query: { state: loginState.state, code: word() }, headers: { cookie: `dms_oidc=${cookie}` } }
}

const configured = ({ app, but }: World, oidc: object) => but({ config: { ...app.config, oidc: { ...app.config.oidc, ...oidc } } })

const handedOver = ({ app }: World, { id }: Person): Promise<string> =>
  app.encryptedTokens.encrypt(
    'oidc-shell',
    { user_id: id, challenge: createHash('sha256').update(verifier).digest('base64url') },
    long,
    app.now(),
  )

export const rows: Rows = {
  'GET /api/auth/oidc/login': {
    good: () => ({}),
    errors: {
      NOT_FOUND: ({ but }) => ({ app: but({ identities: null }) }),
      SERVICE_UNAVAILABLE: (world) => ({ app: saying(world, { startLogin: failing('unavailable') }) }),
    },
  },
  'GET /api/auth/oidc/callback': {
    good: back,
    also: { 302: async (world) => ({ ...(await back(world)), app: configured(world, { post_login_url: callbackUrl(world.app).href }) }) },
    errors: {
      NOT_FOUND: async (world) => ({ ...(await back(world)), app: world.but({ identities: null }) }),
      UNAUTHORIZED: async (world) => ({ ...(await back(world)), app: saying(world, { handleCallback: failing('refused') }) }),
      FORBIDDEN: async (world) => ({ ...(await back(world)), app: configured(world, { auto_create_users: false }) }),
      DUPLICATE_RESOURCE: async (world) => ({
        ...(await back(world)),
        app: saying(world, { handleCallback: async () => someone(world.word(), { email: world.ada.email }) }),
      }),
      SERVICE_UNAVAILABLE: async (world) => ({ ...(await back(world)), app: saying(world, { handleCallback: failing('unavailable') }) }),
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
