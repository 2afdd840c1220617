/** Forged tokens, and the end of real ones, on two `dms serve` processes with one database. More forgeries are in auth.test.ts. */
import { createHmac, createSign, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Killable, startKillable } from '../support/processes/killable.ts'
import { type Served, startServed } from '../support/servers/served.ts'

const secret = randomBytes(32).toString('hex')
const settings = { JWT_SECRET: secret, DMS_WORKER_EMBEDDED: 'false', DMS_STORAGE_MIN_FREE: '0' }
const password = 'correct horse battery'
let first: Served
let second: Killable

beforeAll(async () => {
  first = await startServed({ env: settings })
  second = await startKillable(first.dataDir, settings)
})

afterAll(async () => {
  await second?.stop()
  await first?.stop()
  await first?.remove()
})

type Headers = Record<string, string>

const ask = (base: string, method: string, path: string, token: string | null, json?: object, headers: Headers = {}): Promise<Response> =>
  fetch(new URL(path, base), {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(json ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(json ? { body: JSON.stringify(json) } : {}),
  })

const statusOf = async (...args: Parameters<typeof ask>): Promise<number> => {
  const response = await ask(...args)
  await response.arrayBuffer()
  return response.status
}

const me = (base: string, token: string) => statusOf(base, 'GET', '/api/auth/me', token)
const both = (token: string) => Promise.all([me(first.url, token), me(second.url, token)])

interface SignIn {
  token: string
  user: { id: string }
}

const signIn = async (username: string, secretWord = password, base = first.url): Promise<SignIn> =>
  (await ask(base, 'POST', '/api/auth/login', null, { username, password: secretWord })).json() as Promise<SignIn>

let made = 0

/** Creates a user and signs in. */
async function person(role: 'admin' | 'user' = 'user'): Promise<SignIn & { username: string }> {
  const username = `person${++made}`
  await first.client.users.create({ username, email: `${username}@example.org`, password, role })
  return { ...(await signIn(username)), username }
}

const encode = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const decode = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>

/** Signs any claims as the server does. */
function signed(claims: object, header: object = { alg: 'HS256', typ: 'JWT' }, key: string | Buffer = secret): string {
  const text = `${encode(header)}.${encode(claims)}`
  return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`
}

test('401 UNAUTHORIZED on both servers for another algorithm, key, issuer or purpose; no URL in a token header is requested', async () => {
  const { token } = await person()
  const claims = decode(token)
  expect(await both(signed({ ...claims, jti: randomUUID() }))).toEqual([200, 200])

  let hits = 0
  const listener = createServer((_, response) => {
    hits++
    response.end('{"keys":[]}')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void listener.close())
  await once(listener, 'listening')
  const address = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/keys`

  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const asymmetric = (header: object, key: typeof rsa.privateKey) => {
    const text = `${encode(header)}.${encode(claims)}`
    return `${text}.${createSign('sha256').update(text).sign({ key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`
  }
  const jwk = rsa.publicKey.export({ format: 'jwk' })
  const pem = rsa.publicKey.export({ format: 'pem', type: 'spki' }).toString()
  const head = { alg: 'HS256', typ: 'JWT' }
  const document = await first.client.documents.upload({ filename: 'a.txt', size: 1, open: () => [Buffer.from('a')] })
  const link = await first.client.sharedLinks.create({ document_id: document.id })
  const [h = '', p = '', s = ''] = token.split('.')
  const forged: Record<string, string> = {
    'RS256 with its key in the header': asymmetric({ alg: 'RS256', typ: 'JWT', jwk }, rsa.privateKey),
    'RS256 with jku': asymmetric({ alg: 'RS256', typ: 'JWT', jku: address, kid: '1' }, rsa.privateKey),
    'RS256 with x5u': asymmetric({ alg: 'RS256', typ: 'JWT', x5u: address }, rsa.privateKey),
    'ES256 with its key in the header': asymmetric(
      { alg: 'ES256', typ: 'JWT', jwk: ec.publicKey.export({ format: 'jwk' }) },
      ec.privateKey,
    ),
    'HS256 under a public key': signed(claims, head, pem),
    'HS256 under an empty key': signed(claims, head, ''),
    'HS256 under the secret in base64': signed(claims, head, Buffer.from(secret, 'hex')),
    'HS256 under the secret and a line break': signed(claims, head, `${secret}\n`),
    'HS256 under the key that its header holds': signed(claims, { ...head, jwk: { kty: 'oct', k: encode('k') } }, 'k'),
    'jku under our own key': signed(claims, { ...head, jku: address }),
    'alg nOnE': `${encode({ alg: 'nOnE', typ: 'JWT' })}.${p}.`,
    'alg none with our signature': `${encode({ alg: 'none', typ: 'JWT' })}.${p}.${s}`,
    'alg hs256': signed(claims, { alg: 'hs256', typ: 'JWT' }),
    'typ at+jwt': signed(claims, { alg: 'HS256', typ: 'at+jwt' }),
    'keys of the header in another order': signed(claims, { typ: 'JWT', alg: 'HS256' }),
    'an ID token of a provider': signed({ ...claims, iss: 'https://idp.example.org', aud: 'dms', nonce: 'n' }),
    'a token of another service': signed({ sub: claims.sub, iat: claims.iat, exp: claims.exp }),
    'ver as text': signed({ ...claims, ver: '1' }),
    'ver 0': signed({ ...claims, ver: 0 }),
    'exp of 1970': signed({ ...claims, exp: 1 }),
    'exp with a fraction': signed({ ...claims, exp: Number(claims.exp) + 0.5 }),
    'iat in two days': signed({ ...claims, iat: Number(claims.iat) + 172_800, exp: Number(claims.exp) + 172_800 }),
    'sub in capitals of nobody': signed({ ...claims, sub: randomUUID().toUpperCase() }),
    'sub of SQL': signed({ ...claims, sub: "' or true --" }),
    JWE: `${encode({ alg: 'dir', enc: 'A256GCM' })}..${encode('iv')}.${encode('text')}.${encode('tag')}`,
    'JSON serialisation': JSON.stringify({ payload: p, signatures: [{ protected: h, signature: s }] }),
    'the token of a shared link': link.token,
    'what an API token looks like': `dms_${randomBytes(32).toString('base64url')}`,
    'a token with a part more': `${token}.`,
    'a token in quotes': `"${token}"`,
    'our secret': secret,
  }
  for (const [name, bad] of Object.entries(forged)) expect.soft([name, ...(await both(bad))]).toEqual([name, 401, 401])
  expect(hits).toBe(0)
})

test('401 UNAUTHORIZED for a valid token anywhere but in a single Authorization header', async () => {
  const { token } = await person()
  const places: [string, string, Headers, object?][] = [
    ['GET', `/api/auth/me?token=${token}&access_token=${token}&authorization=Bearer%20${token}`, {}],
    ['GET', '/api/auth/me', { cookie: `token=${token}; access_token=${token}; session=${token}` }],
    ['GET', '/api/auth/me', { 'x-auth-token': token, 'x-access-token': token, 'proxy-authorization': `Bearer ${token}` }],
    ['POST', '/api/auth/refresh', {}, { token, refresh_token: token }],
    ['GET', '/api/auth/me', { authorization: `Basic ${Buffer.from(`person:${token}`).toString('base64')}` }],
    ['GET', '/api/auth/me', { authorization: token }],
  ]
  for (const [method, path, headers, json] of places)
    expect.soft([method, path, headers, await statusOf(first.url, method, path, null, json, headers)]).toEqual([method, path, headers, 401])
})

test('a token that ends on one server ends on the other: logout, new password, refresh, disabling, deletion', async () => {
  const ends: Record<string, (who: SignIn & { username: string }) => Promise<unknown>> = {
    logout: ({ token }) => ask(first.url, 'POST', '/api/auth/logout', token),
    'new password': ({ token }) =>
      ask(first.url, 'POST', '/api/users/change-password', token, { current_password: password, new_password: `${password}!` }),
    refresh: ({ token }) => ask(first.url, 'POST', '/api/auth/refresh', token),
    'password of an admin': ({ user }) => first.client.call('PUT', `/api/users/${user.id}`, { password: `${password}?` }),
    disabling: ({ user }) => first.client.call('PUT', `/api/users/${user.id}`, { disabled: true }),
    deletion: ({ user }) => first.client.call('DELETE', `/api/users/${user.id}`),
  }
  for (const [name, end] of Object.entries(ends)) {
    const who = await person()
    expect([name, ...(await both(who.token))]).toEqual([name, 200, 200])
    await end(who)
    expect([name, await me(first.url, who.token)]).toEqual([name, 401])
    // The other one hears of it within a second; it remembers who signed in.
    await expect.poll(() => me(second.url, who.token), { message: name }).toBe(401)
    expect([name, await statusOf(second.url, 'POST', '/api/auth/refresh', who.token)]).toEqual([name, 401])
  }
})

test('a demoted admin has no admin rights on any server', async () => {
  const was = await person('admin')
  const lists = (base: string) => statusOf(base, 'GET', '/api/users', was.token)
  expect([await lists(first.url), await lists(second.url)]).toEqual([200, 200])
  await first.client.call('PUT', `/api/users/${was.user.id}`, { role: 'user' })
  for (const base of [first.url, second.url]) await expect.poll(() => lists(base)).not.toBe(200)
})

test('refresh: one succeeds on two servers at once; a token that expired more than 24 hours ago cannot be refreshed', async () => {
  const { token } = await person()
  const answers = await Promise.all(
    [first.url, second.url, first.url, second.url].map((url) => statusOf(url, 'POST', '/api/auth/refresh', token)),
  )
  expect(answers.sort()).toEqual([200, 401, 401, 401])

  const other = await person()
  const claims = decode(other.token)
  const now = Math.floor(Date.now() / 1000)
  const aged = (seconds: number) => signed({ ...claims, jti: randomUUID(), iat: now - seconds - 86_400, exp: now - seconds })
  for (const [seconds, refreshed] of [
    [1, 200],
    [3600, 200],
    [25 * 3600, 401],
    [30 * 86_400, 401],
  ] as const) {
    const old = aged(seconds)
    expect([seconds, ...(await both(old))]).toEqual([seconds, 401, 401])
    expect([seconds, await statusOf(second.url, 'POST', '/api/auth/refresh', old)]).toEqual([seconds, refreshed])
  }
})
