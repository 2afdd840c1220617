/** Identity providers: a real one, and one that misbehaves as scripted; and a browser without a screen. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose'
import Provider from 'oidc-provider'
import { onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'

export type Person = Record<string, unknown> & { sub: string }

const client = { client_id: 'dms', client_secret: 'a secret that only the two know' }

/** Settings for a provider. */
const settingsFor = (issuer: string) => ({
  'auth.method': 'oidc',
  'oidc.issuer': issuer,
  'oidc.client_id': client.client_id,
  'oidc.client_secret': client.client_secret,
})

/** Public URL of the servers under test; nobody listens there, and the browser below requests the server directly. */
export const publicUrl = 'http://127.0.0.1:9'

/** Starts oidc-provider. The users in `people` (by `sub`) can sign in; `as` selects the one at the browser. */
export async function startProvider(people: Person[], metadata: Record<string, unknown> = {}) {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const accounts = { as: people[0]?.sub ?? '', people: new Map(people.map((person) => [person.sub, person])) }
  const provider = new Provider(issuer, {
    clients: [
      {
        ...client,
        redirect_uris: [`${publicUrl}/api/auth/oidc/callback`],
        response_types: ['code'],
        grant_types: ['authorization_code'],
        token_endpoint_auth_method: 'client_secret_post',
        ...metadata,
      },
    ],
    claims: {
      openid: ['sub', 'hd'],
      profile: ['name', 'preferred_username', 'groups', 'realm_access'],
      email: ['email', 'email_verified'],
    },
    findAccount: async (_context: unknown, id: string) => {
      const person = accounts.people.get(id)
      return person && { accountId: id, claims: async () => person }
    },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    cookies: { keys: ['of the test'] },
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
  } as never)
  provider.use(async (context, next) => {
    if (!context.path.startsWith('/interaction/')) return next()
    const interaction = await provider.interactionDetails(context.req, context.res)
    const { prompt, params, session } = interaction
    const grant = new provider.Grant({ accountId: session?.accountId ?? accounts.as, clientId: String(params.client_id) })
    grant.addOIDCScope('openid profile email')
    const result = prompt.name === 'login' ? { login: { accountId: accounts.as } } : { consent: { grantId: await grant.save() } }
    await provider.interactionFinished(context.req, context.res, result, { mergeWithLastSubmission: true })
    context.respond = false
  })
  const server = provider.listen(port, '127.0.0.1')
  onTestFinished(() => closed(server))
  return { issuer, accounts, settings: { ...settingsFor(issuer), 'server.public_url': publicUrl } }
}

/** Changes that a misbehaving provider makes to an ID token and its surroundings. */
export interface Lie {
  /** changes the claims of a valid token */
  claims?: (claims: JWTPayload) => JWTPayload
  header?: Record<string, unknown>
  /** signs the token otherwise than with the published key */
  sign?: 'none' | 'other key' | 'secret'
  /** further fields in the answer of the token endpoint */
  token?: Record<string, unknown>
  /** further or changed fields of the discovery document */
  metadata?: Record<string, unknown>
}

/** Starts a provider that is correct except for these changes. */
export async function startLiar(lie: Lie, person: Person) {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const other = await generateKeyPair('RS256')
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', use: 'sig', alg: 'RS256' }
  const nonces = new Map<string, string>()
  const asked: string[] = []
  let issuer = ''
  const idToken = async (nonce: string) => {
    const now = Math.floor(Date.now() / 1000)
    const good = { iss: issuer, aud: client.client_id, iat: now, exp: now + 300, nonce, email_verified: true, ...person }
    const claims = lie.claims?.(good) ?? good
    if (lie.sign === 'none') return new UnsecuredJWT(claims).encode()
    const header = { alg: 'RS256', kid: 'one', ...lie.header }
    if (lie.sign === 'secret')
      return new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(client.client_secret))
    return new SignJWT(claims).setProtectedHeader(header).sign(lie.sign === 'other key' ? other.privateKey : privateKey)
  }
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', issuer)
    asked.push(url.pathname)
    const answer = (body: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
    if (url.pathname === '/.well-known/openid-configuration')
      return answer({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: false,
        ...lie.metadata,
      })
    if (url.pathname === '/jwks') return answer({ keys: [jwk] })
    if (url.pathname === '/authorize') {
      const code = `code${nonces.size}`
      nonces.set(code, url.searchParams.get('nonce') ?? '')
      const back = new URL(url.searchParams.get('redirect_uri') ?? '')
      back.search = String(new URLSearchParams({ code, state: url.searchParams.get('state') ?? '' }))
      return response.writeHead(302, { location: back.href }).end()
    }
    const form = new URLSearchParams(await bodyOf(request))
    // Codes are good for ever here: whether one is used twice is up to the client.
    const id_token = await idToken(nonces.get(form.get('code') ?? '') ?? '')
    return answer({ access_token: 'x', token_type: 'Bearer', expires_in: 300, id_token, ...lie.token })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  onTestFinished(() => closed(server))
  return { issuer, asked, settings: { ...settingsFor(issuer), 'server.public_url': publicUrl } }
}

/** A browser: keeps cookies and follows redirects; URLs below publicUrl are sent to the server under test. */
export function openBrowser(send: (request: Request) => Promise<Response>) {
  const cookies = new Map<string, Map<string, string>>()
  const one = async (url: URL): Promise<Response> => {
    const jar = cookies.get(url.host) ?? new Map<string, string>()
    cookies.set(url.host, jar)
    const headers = { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') }
    const isOurs = url.origin === publicUrl
    const response = await (isOurs ? send(new Request(url, { headers })) : fetch(url, { headers, redirect: 'manual' }))
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (/max-age=0/i.test(line) || value === '') jar.delete(name)
      else jar.set(name, value)
    }
    return response
  }
  return {
    cookies,
    /** Requests a URL of the server and follows redirects up to `stop` or the last one. */
    async go(path: string, stop: (url: URL) => boolean = () => false): Promise<{ url: URL; response: Response | null }> {
      let url = new URL(path, publicUrl)
      for (let hops = 0; hops < 20; hops++) {
        if (stop(url)) return { url, response: null }
        const response = await one(url)
        const location = response.headers.get('location')
        if (response.status < 300 || response.status >= 400 || location === null) return { url, response }
        url = new URL(location, url)
      }
      throw new Error(`redirected for ever: ${url}`)
    },
  }
}

/** Does not wait for idle connections of clients. */
const closed = (server: Server) =>
  new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
