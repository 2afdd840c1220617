import { createHmac, randomUUID } from 'node:crypto'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import { toNodeHandler } from 'h3'
import { expect, onTestFinished, test, vi } from 'vitest'
import * as auth from '../../src/auth/auth.ts'
import { openTokens } from '../../src/auth/jwt.ts'
import { localClient } from '../../src/client/local.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startApp } from '../support/app.ts'
import { connectAll } from '../support/connect-all.ts'
import { filePart, hearOut, multipartBody, multipartType, startServer, tokenFor } from '../support/servers/server.ts'

const password = 'correct horse battery'
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

interface SignIn {
  token: string
  expires_at: string
  user: { id: string; username: string; role: string; last_login_at: string | null }
}

/** Starts an app with a user `eve` whose password is known. */
async function start(overrides?: Parameters<typeof startApp>[0]) {
  const started = await startApp(overrides)
  const { asAdmin, asStranger } = started
  const eve = await asAdmin.call<{ id: string }>('POST', '/api/users', { username: 'eve', email: 'eve@example.org', password })
  const send = (path: string, json: object, headers?: Record<string, string>) => asStranger.send('POST', path, json, headers)
  const login = (username = 'eve', secret = password) => asStranger.call<SignIn>('POST', '/api/auth/login', { username, password: secret })
  const me = async (token: string) => (await asStranger.send('GET', '/api/auth/me', undefined, bearer(token))).status
  const refresh = (token: string) => send('/api/auth/refresh', {}, bearer(token))
  const logout = (token: string) => send('/api/auth/logout', {}, bearer(token))
  return { ...started, eve, send, login, me, refresh, logout }
}

test('200 with token, expires_at and user, for the name in any case and the e-mail address', async () => {
  const { login, me, app } = await start()
  for (const name of ['eve', 'EVE', ' ｅｖｅ ', 'Eve@Example.org']) {
    const { token, expires_at, user } = await login(name)
    expect(await me(token)).toBe(200)
    expect(user).toMatchObject({ username: 'eve', role: 'user', last_login_at: expect.any(String) })
    expect(user).not.toHaveProperty('password_hash')
    expect(Math.abs(Date.parse(expires_at) - app.now().getTime() - 24 * 3_600_000)).toBeLessThan(60_000)
  }
})

test('a token has sub, jti, iat, exp and ver only, signed with HS256', async () => {
  const { login, eve } = await start()
  const [header, payload] = (await login()).token
    .split('.')
    .slice(0, 2)
    .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()))
  expect(header).toEqual({ alg: 'HS256', typ: 'JWT' })
  expect(payload).toEqual({ sub: eve.id, jti: expect.any(String), iat: expect.any(Number), exp: payload.iat + 86_400, ver: 1 })
})

test('503 SERVICE_UNAVAILABLE with Retry-After for sign-ins beyond the queue of passwords, without audit entry or line in the log', async () => {
  const { app, send, login, asAdmin } = await start()
  const logs = (['info', 'error'] as const).map((level) => vi.spyOn(app.log, level))
  const full = Promise.withResolvers<void>()
  const attempt = (username: string) =>
    auth.login(app, '192.0.2.1', { username, password: 'wrong' }).catch((error) => {
      if (error.code === 'SERVICE_UNAVAILABLE') full.resolve()
      return error.code
    })
  let [sent, isOver] = [0, false]
  /** Keeps the queue full. */
  const attack = async () => {
    const codes: string[] = []
    do codes.push(await attempt(`nobody${sent++}`))
    while (!isOver)
    return codes
  }
  const flood = Promise.all(Array.from({ length: 64 * availableParallelism() + 40 }, attack))
  await full.promise
  // A place may become free at that moment.
  const refused = await vi.waitFor(
    async () => {
      const answer = await send('/api/auth/login', { username: 'eve', password })
      expect(answer.status).toBe(503)
      return answer
    },
    { timeout: 30_000 },
  )
  isOver = true
  expect(refused.headers.get('retry-after')).toBe('5')
  expect(await refused.json()).toMatchObject({ error: { code: 'SERVICE_UNAVAILABLE' }, retry_after_secs: 5 })
  for (const log of logs) expect(log).not.toHaveBeenCalledWith(expect.anything(), 'request failed')
  expect(await app.db.selectFrom('audit_entries').select('code').where('code', '=', 'SERVICE_UNAVAILABLE').execute()).toEqual([])
  // Passwords of admins and of the server itself wait.
  await asAdmin.call('POST', '/api/users', { username: 'carol', email: 'carol@example.org', password })
  const outcomes = (await flood).flat()
  expect(new Set(outcomes)).toEqual(new Set(['UNAUTHORIZED', 'SERVICE_UNAVAILABLE']))
  expect((await login()).token).toBeTruthy()
})

test('401 UNAUTHORIZED with an equal body for a wrong name, a wrong password, a disabled user and a user without password', async () => {
  const { asAdmin, eve, send } = await start()
  await asAdmin.call('POST', '/api/users/import', [{ username: 'nopass', email: 'nopass@example.org' }])
  const wrong = await send('/api/auth/login', { username: 'eve', password: 'wrong' })
  const nobody = await send('/api/auth/login', { username: 'nobody', password })
  const nopass = await send('/api/auth/login', { username: 'nopass', password })
  await asAdmin.call('PUT', `/api/users/${eve.id}`, { disabled: true })
  const disabled = await send('/api/auth/login', { username: 'eve', password })
  for (const response of [wrong, nobody, nopass, disabled]) {
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
    expect((await response.json()).error).toMatchObject({ code: 'UNAUTHORIZED', message: 'Wrong username or password.', details: {} })
  }
})

test('400 VALIDATION_ERROR for a sign-in without name or password, or with an invalid one', async () => {
  const { asStranger } = await startApp()
  for (const body of [
    {},
    { username: 'eve' },
    { username: 'eve', password: '' },
    { username: 'eve', password: 'x'.repeat(1025) },
    { username: ['eve'], password },
  ]) {
    const response = await asStranger.send('POST', '/api/auth/login', body)
    expect([body, response.status]).toEqual([body, 400])
    expect((await response.json()).error.code).toBe('VALIDATION_ERROR')
  }
})

test('429 RATE_LIMITED after 10 failures for a name and address, also with the right password, until the window ends', async () => {
  const { send, login, later } = await start()
  const fails = () => send('/api/auth/login', { username: 'Eve', password: 'wrong' })
  const statuses = (await Promise.all(Array.from({ length: 14 }, fails))).map(({ status }) => status)
  expect(statuses.filter((status) => status === 401)).toHaveLength(10)
  expect(statuses.filter((status) => status === 429)).toHaveLength(4)
  const refused = await send('/api/auth/login', { username: 'eve', password })
  expect(refused.status).toBe(429)
  const body = await refused.json()
  expect(body.retry_after_secs).toBeGreaterThan(890)
  expect(body.retry_after_secs).toBeLessThanOrEqual(900)
  expect(body.error.details.retry_after_secs).toBe(body.retry_after_secs)
  expect(refused.headers.get('retry-after')).toBe(String(body.retry_after_secs))
  expect((await send('/api/auth/login', { username: 'somebody-else', password })).status).toBe(401)
  await later(body.retry_after_secs * 1000)
  expect((await login()).user.username).toBe('eve')
})

test('429 for a right password that is being checked when the limit is reached', async () => {
  const { app, send } = await start()
  const { promise: until, resolve: goOn } = Promise.withResolvers<void>()
  const verify: typeof app.passwords.verify = async (phc, given) => until.then(() => app.passwords.verify(phc, given))
  const slow = { ...app, passwords: { ...app.passwords, verify } }
  const guess = auth.login(slow, '127.0.0.1', { username: 'eve', password }).catch((error) => error)
  await Promise.all(Array.from({ length: 10 }, () => send('/api/auth/login', { username: 'eve', password: 'wrong' })))
  goOn()
  expect(await guess).toMatchObject({ code: 'RATE_LIMITED' })
})

test('401 for the old password of a sign-in during which the password changes, or its user is disabled', async () => {
  for (const change of [{ password: 'another good password' }, { disabled: true }]) {
    const { app, asAdmin, eve } = await start()
    const verify: typeof app.passwords.verify = async (phc, given) => {
      const isRight = await app.passwords.verify(phc, given)
      await asAdmin.call('PUT', `/api/users/${eve.id}`, change)
      return isRight
    }
    const slow = { ...app, passwords: { ...app.passwords, verify } }
    await expect(auth.login(slow, '127.0.0.1', { username: 'eve', password })).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  }
})

test('right passwords never count, however many are sent at once', async () => {
  const { login, me } = await start()
  const all = await Promise.all(Array.from({ length: 14 }, () => login()))
  expect(await me(all[13]!.token)).toBe(200)
})

test('201 for a registration; the user can sign in', async () => {
  const { send, login } = await start()
  const response = await send('/api/auth/register', { username: ' Ünal ', email: 'unal@example.org', password })
  expect(response.status).toBe(201)
  expect(await response.json()).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
    username: 'Ünal',
    email: 'unal@example.org',
    role: 'user',
    display_name: '',
    disabled: false,
    auth_method: 'local',
    created_at: expect.stringMatching(/\.\d{3}Z$/),
    last_login_at: null,
  })
  await login('ÜNAL')
})

test('409 DUPLICATE_RESOURCE with the field, for any case and Unicode form', async () => {
  const { send } = await start()
  for (const [username, email, field] of [
    ['EVE', 'other@example.org', 'username'],
    ['ｅｖｅ', 'other@example.org', 'username'],
    ['other', 'EVE@example.ORG', 'email'],
  ]) {
    const response = await send('/api/auth/register', { username, email, password })
    expect(response.status).toBe(409)
    expect((await response.json()).error).toMatchObject({ code: 'DUPLICATE_RESOURCE', details: { field } })
  }
})

test('concurrent registrations of one name: one 201, all others 409', async () => {
  const { send } = await start()
  const all = await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      send('/api/auth/register', { username: at % 2 ? 'Twin' : 'twin', email: `twin${at}@example.org`, password }),
    ),
  )
  expect(all.map(({ status }) => status).sort()).toEqual([201, ...Array(7).fill(409)])
})

test('429 RATE_LIMITED for the third registration per hour of an address or /64 and the fifth of all; admins are not counted', async () => {
  const { app, asAdmin, later } = await start({ 'limits.registrations_per_hour': 2, 'limits.registrations_per_hour_total': 4 })
  const server = buildServer(app)
  let number = 0
  const register = async (ip: string) => {
    const person = { username: `new${++number}`, email: `new${number}@example.org`, password }
    const request = new Request('http://dms/api/auth/register', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(person),
    })
    return server.request(request, undefined, { ip })
  }
  const statuses = []
  for (const ip of ['192.0.2.1', '192.0.2.1', '192.0.2.1', '2001:db8::1', '2001:db8::2:3', '2001:db8::4', '192.0.2.9'])
    statuses.push((await register(ip)).status)
  expect(statuses).toEqual([201, 201, 429, 201, 201, 429, 429])
  const refused = await register('192.0.2.9')
  const { retry_after_secs } = (await refused.json()) as { retry_after_secs: number }
  expect([refused.status, retry_after_secs > 3500, Number(refused.headers.get('retry-after'))]).toEqual([429, true, retry_after_secs])
  for (let at = 0; at < 5; at++)
    expect((await asAdmin.send('POST', '/api/auth/register', { username: `by${at}`, email: `by${at}@example.org`, password })).status).toBe(
      201,
    )
  await later(3_600_000)
  expect((await register('192.0.2.1')).status).toBe(201)
})

test('400 VALIDATION_ERROR with the field for an invalid user', async () => {
  const { asStranger } = await startApp()
  for (const bad of [
    { username: 'a b' },
    { username: 'a\u200bb' },
    { username: 'a\u3164b' },
    { username: 'a@b' },
    { username: '   ' },
    { username: 'x'.repeat(65) },
    { email: 'ana@' },
    { email: 'a@b.c\r\nBcc: all@x' },
    { email: `${'x'.repeat(250)}@example.org` },
    { password: 'short' },
    { password: 'x'.repeat(1025) },
    { role: 'ADMIN' },
    { role: ['admin'] },
    { role: { $eq: 'admin' } },
  ]) {
    const response = await asStranger.send('POST', '/api/auth/register', { username: 'fine', email: 'fine@example.org', password, ...bad })
    const { error } = await response.json()
    expect([bad, response.status, error.code, error.details.issues?.[0].path]).toEqual([bad, 400, 'VALIDATION_ERROR', Object.keys(bad)[0]])
  }
})

test('400 with every rule that a new password breaks', async () => {
  const { asStranger } = await startApp({
    'auth.password_min_length': 12,
    'auth.password_require_numbers': true,
    'auth.password_require_special': true,
  })
  const response = await asStranger.send('POST', '/api/auth/register', { username: 'fine', email: 'fine@example.org', password: 'short' })
  const messages = (await response.json()).error.details.issues.map(({ message }: { message: string }) => message)
  expect(messages).toEqual(['at least 12 characters', 'at least one digit', 'at least one special character'])
})

test('403 FORBIDDEN for role admin without the token of an admin, and no user; 201 with one', async () => {
  const { send, login, asAdmin, app } = await start()
  const wish = { username: 'boss', email: 'boss@example.org', password, role: 'admin' }
  expect((await send('/api/auth/register', wish)).status).toBe(403)
  expect((await send('/api/auth/register', wish, bearer((await login()).token))).status).toBe(403)
  expect(await app.db.selectFrom('users').select('id').where('username', '=', 'boss').execute()).toEqual([])
  expect((await asAdmin.send('POST', '/api/auth/register', wish)).status).toBe(201)
})

test('a registration ignores id, is_admin, disabled, created_at and token_version', async () => {
  const { send } = await start()
  const forged = {
    id: randomUUID(),
    is_admin: true,
    disabled: true,
    created_at: '2001-01-01T00:00:00Z',
    auth_method: 'oidc',
    token_version: 9,
    email_verified_at: '2001-01-01',
  }
  const made = await (await send('/api/auth/register', { username: 'x', email: 'x@example.org', password, ...forged })).json()
  expect(made).toMatchObject({ role: 'user', disabled: false, auth_method: 'local' })
  expect(made.id).not.toBe(forged.id)
  expect(made.created_at).not.toMatch(/^2001/)
})

test('403 FORBIDDEN for a registration if it is switched off, except by admins', async () => {
  const { send, asAdmin } = await start({ 'auth.enable_registration': false })
  const wish = { username: 'new', email: 'new@example.org', password }
  expect((await send('/api/auth/register', wish)).status).toBe(403)
  expect((await asAdmin.send('POST', '/api/auth/register', wish)).status).toBe(201)
})

test('401 for a token after its logout, also on a server that has cached it; other tokens stay valid', async () => {
  const secret = randomUUID() + randomUUID()
  const { login, logout, me, refresh, app } = await start({ 'auth.jwt_secret': secret })
  const elsewhere = localClient({ ...app, tokens: openTokens(Buffer.from(secret)) }, null)
  const there = async (token: string) => (await elsewhere.send('GET', '/api/auth/me', undefined, bearer(token))).status
  const [gone, kept] = await Promise.all([login(), login()])
  expect([await me(gone.token), await there(gone.token), await there(kept.token)]).toEqual([200, 200, 200])
  const { message } = await (await logout(gone.token)).json()
  expect(message).toBe('Signed out.')
  expect([await me(gone.token), await there(gone.token)]).toEqual([401, 401])
  expect((await refresh(gone.token)).status).toBe(401)
  expect((await logout(gone.token)).status).toBe(401)
  expect([await me(kept.token), await there(kept.token)]).toEqual([200, 200])
})

test('refresh: 200 with a new token; the old one becomes invalid', async () => {
  const { login, refresh, me } = await start()
  const old = await login()
  const response = await refresh(old.token)
  expect(response.status).toBe(200)
  const fresh = (await response.json()) as SignIn
  expect(fresh.user.username).toBe('eve')
  expect(await me(fresh.token)).toBe(200)
  expect(await me(old.token)).toBe(401)
  expect((await refresh(old.token)).status).toBe(401)
})

test('refresh: of concurrent requests with one token one succeeds', async () => {
  const { login, refresh, app } = await start()
  await connectAll(app)
  const { token } = await login()
  const all = await Promise.all(Array.from({ length: 6 }, () => refresh(token)))
  expect(all.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401, 401, 401])
})

test('an expired token: 401, but a refresh works within the grace period only', async () => {
  const { login, refresh, me, later } = await start()
  const [first, second] = await Promise.all([login(), login()])
  await later(24 * 3_600_000 + 1000)
  expect(await me(first.token)).toBe(401)
  expect(await me(((await (await refresh(first.token)).json()) as SignIn).token)).toBe(200)
  await later(24 * 3_600_000)
  expect((await refresh(second.token)).status).toBe(401)
})

test('refresh: a session ends on its last day however often it is refreshed; a new sign-in begins another', async () => {
  const { login, refresh, me, later } = await start({ 'auth.refresh_max_days': 3 })
  const hours = (count: number) => later(count * 3_600_000)
  const renewed = async (token: string) => (await (await refresh(token)).json()) as SignIn
  let session = await login()
  const end = Date.parse(session.expires_at) + 2 * 86_400_000
  for (let day = 0; day < 2; day++) {
    await hours(23)
    session = await renewed(session.token)
  }
  await hours(16)
  session = await renewed(session.token)
  expect(Math.abs(Date.parse(session.expires_at) - end)).toBeLessThan(60_000)
  await hours(9)
  expect(await me(session.token)).toBe(200)
  await hours(1)
  expect(await me(session.token)).toBe(401)
  // In the grace of a token, but not of its sign-in.
  expect((await refresh(session.token)).status).toBe(401)
  expect((await refresh((await login()).token)).status).toBe(200)
})

test('refresh: 401 for an expired token without a grace period', async () => {
  const { login, refresh, later } = await start({ 'auth.refresh_grace_hours': 0 })
  const { token } = await login()
  await later(24 * 3_600_000)
  expect((await refresh(token)).status).toBe(401)
})

test('a client that sends an expired token can sign in, also with a slash after the path', async () => {
  const { login, send, later } = await start()
  const { token } = await login()
  await later(72 * 3_600_000)
  for (const path of ['/api/auth/login', '/api/auth/login/', '/api/v1/auth/login/'])
    expect([path, (await send(path, { username: 'eve', password }, bearer(token))).status]).toEqual([path, 200])
  expect((await send('/api/auth/register', { username: 'new', email: 'new@example.org', password }, bearer(token))).status).toBe(401)
})

test('401 for the refresh of a token after its logout, also if auth.refresh_grace_hours is raised later', async () => {
  const { login, logout, refresh, later, app } = await start()
  const [ended, expired] = await Promise.all([login(), login()])
  await logout(ended.token)
  await later(49 * 3_600_000)
  await logout((await login()).token)
  Object.assign(app.config.auth, { refresh_grace_hours: 72 })
  expect((await refresh(ended.token)).status).toBe(401)
  expect((await refresh(expired.token)).status).toBe(200)
})

test('revoked tokens are deleted once no setting allows to refresh them', async () => {
  const { login, logout, later, app } = await start()
  await logout((await login()).token)
  await later((24 + 8760) * 3_600_000)
  await logout((await login()).token)
  expect(await app.db.selectFrom('revoked_tokens').select('jti').execute()).toHaveLength(1)
})

test('401 for slow requests of a user who is demoted or disabled, or whose token is revoked, before the body ends; 200 after a logout', async () => {
  const { dial, app, ada, asAdmin, asStranger } = await startServer()
  await asAdmin.users.update(ada.id, { role: 'admin' })
  /** Sends a request whose body ends more than a second after `meanwhile`. Returns the status. */
  const sendSlowly = async (token: string, line: string, type: string, body: Buffer | string, meanwhile: () => Promise<unknown>) => {
    const socket = await dial()
    const length = Buffer.byteLength(body)
    socket.write(
      `${line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer ${token}\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n\r\n`,
    )
    socket.write(body.slice(0, 5))
    await new Promise((resolve) => setTimeout(resolve, 300))
    await meanwhile()
    await new Promise((resolve) => setTimeout(resolve, 1000))
    socket.write(body.slice(5))
    return Number((await hearOut(socket)).slice(9, 12))
  }
  const session = await tokenFor(app, ada)
  const change = (token: string, meanwhile: () => Promise<unknown>) =>
    sendSlowly(token, `PUT /api/users/${ada.id}`, 'application/json', '{"role":"admin"}', meanwhile)
  expect(await change(session, () => asAdmin.users.update(ada.id, { role: 'user' }))).toBe(401)
  expect(await asAdmin.call('GET', `/api/users/${ada.id}`)).toMatchObject({ role: 'user' })
  await asAdmin.users.update(ada.id, { role: 'admin' })
  expect(await change(session, () => asStranger.send('POST', '/api/auth/logout', undefined, bearer(session)))).toBe(200)

  const { id, token } = await asAdmin.call<{ id: string; token: string }>('POST', '/api/tokens', {
    name: 'scanner',
    user: 'ada',
    scopes: ['upload'],
  })
  const upload = (token: string, meanwhile: () => Promise<unknown>) =>
    sendSlowly(token, 'POST /api/documents/upload', multipartType, multipartBody([filePart('hello')]), meanwhile)
  expect(await upload(token, () => asAdmin.send('DELETE', `/api/tokens/${id}`))).toBe(401)
  expect(await upload(await tokenFor(app, ada), () => asAdmin.users.update(ada.id, { disabled: true }))).toBe(401)
  expect(await asAdmin.call('GET', '/api/documents')).toMatchObject({ data: [] })
})

test('disabling, deleting and demoting a user take effect with the next request', async () => {
  const { login, me, refresh, asAdmin, asStranger, eve } = await start()
  const { token } = await login()
  const users = async () => (await asStranger.send('GET', '/api/users', undefined, bearer(token))).status
  expect(await users()).toBe(403)
  await asAdmin.call('PUT', `/api/users/${eve.id}`, { role: 'admin' })
  expect(await users()).toBe(200)
  await asAdmin.call('PUT', `/api/users/${eve.id}`, { role: 'user' })
  expect(await users()).toBe(403)
  await asAdmin.call('PUT', `/api/users/${eve.id}`, { disabled: true })
  expect([await me(token), (await refresh(token)).status]).toEqual([401, 401])
  await asAdmin.call('PUT', `/api/users/${eve.id}`, { disabled: false })
  expect(await me(token)).toBe(401)
  const again = await login()
  await asAdmin.call('DELETE', `/api/users/${eve.id}`)
  expect([await me(again.token), (await refresh(again.token)).status]).toEqual([401, 401])
})

test('401 for every malformed or foreign token', async () => {
  const secret = randomUUID() + randomUUID()
  const { app, asStranger, eve } = await start({ 'auth.jwt_secret': secret })
  const now = Math.floor(app.now().getTime() / 1000)
  const claims = { sub: eve.id, jti: randomUUID(), iat: now, exp: now + 3600, ver: 1 }
  const encode = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
  const signed = (header: unknown, payload: unknown, key = secret, algorithm = 'sha256') => {
    const head = `${encode(header)}.${encode(payload)}`
    return `${head}.${createHmac(algorithm, key).update(head).digest('base64url')}`
  }
  const header = { alg: 'HS256', typ: 'JWT' }
  const good = signed(header, claims)
  const [h = '', p = '', s = ''] = good.split('.')
  const send = async (authorization: string) => (await asStranger.send('GET', '/api/auth/me', undefined, { authorization })).status
  expect(await send(`Bearer ${good}`)).toBe(200)
  expect(await send(`bearer ${good}`)).toBe(200)

  const { exp, ...endless } = claims
  const bad: Record<string, string> = {
    'alg none': `${encode({ alg: 'none', typ: 'JWT' })}.${p}.`,
    'alg None with our signature': signed({ alg: 'None', typ: 'JWT' }, claims),
    'alg empty': signed({ alg: '', typ: 'JWT' }, claims),
    HS384: signed({ alg: 'HS384', typ: 'JWT' }, claims, secret, 'sha384'),
    HS512: signed({ alg: 'HS512', typ: 'JWT' }, claims, secret, 'sha512'),
    'RS256 with a key in the header': signed({ alg: 'RS256', typ: 'JWT', jwk: { kty: 'oct', k: encode('k') } }, claims),
    jku: signed({ ...header, jku: 'http://127.0.0.1:9/keys' }, claims),
    x5u: signed({ ...header, x5u: 'http://127.0.0.1:9/keys' }, claims),
    'kid with a path': signed({ ...header, kid: '../../dev/null' }, claims),
    'kid with SQL': signed({ ...header, kid: "' OR 1=1--" }, claims),
    'b64 false': signed({ ...header, crit: ['b64'], b64: false }, claims),
    'alg twice': signed('{"alg":"none","alg":"HS256","typ":"JWT"}', claims),
    'no typ': signed({ alg: 'HS256' }, claims),
    'no exp': signed(header, endless),
    'exp negative': signed(header, { ...claims, exp: -1 }),
    'exp as text': signed(header, { ...claims, exp: String(exp) }),
    'exp infinite': signed(header, JSON.stringify(claims).replace(/"exp":\d+/, '"exp":1e400')),
    'nbf in the future': signed(header, { ...claims, nbf: now + 1000 }),
    'iat far ahead': signed(header, { ...claims, iat: now + 100_000, exp: now + 200_000 }),
    'sub of nobody': signed(header, { ...claims, sub: randomUUID() }),
    'sub no id': signed(header, { ...claims, sub: 'eve' }),
    'sub an array': signed(header, { ...claims, sub: [eve.id] }),
    'sub of a megabyte': signed(header, { ...claims, sub: 'x'.repeat(1_000_000) }),
    'old version': signed(header, { ...claims, ver: 2 }),
    'one more claim': signed(header, { ...claims, role: 'admin' }),
    'payload no object': signed(header, '"eve"'),
    'payload no JSON': signed(header, '{'),
    'no signature': `${h}.${p}.`,
    'two parts': `${h}.${p}`,
    'signature cut': good.slice(0, -1),
    'signature padded': `${good}=`,
    'signature changed': `${h}.${p}.${s.startsWith('A') ? 'B' : 'A'}${s.slice(1)}`,
    'last character spelled otherwise': `${h}.${p}.${s.slice(0, -1)}${String.fromCharCode(s.charCodeAt(42) + 1)}`,
    'base64 instead of base64url': signed(header, claims).replace(/[^.]+$/, () => `+/${s.slice(2)}`),
    'five parts': `${h}..${p}.${s}.${s}`,
    'another secret': signed(header, claims, `${secret}\n`),
    'two tokens': `${good}, Bearer ${good}`,
    'a space inside': `${h}. ${p}.${s}`,
    empty: '',
  }
  for (const [name, token] of Object.entries(bad)) expect([name, await send(`Bearer ${token}`)]).toEqual([name, 401])
  for (const scheme of ['Basic', 'Bearer ', 'Token', '']) expect([scheme, await send(`${scheme} ${good}`)]).toEqual([scheme, 401])
  expect((await asStranger.send('GET', `/api/auth/me?token=${good}&access_token=${good}`)).status).toBe(401)
  expect((await asStranger.send('GET', '/api/auth/me', undefined, { cookie: `token=${good}` })).status).toBe(401)
})

test('a token is valid with its own secret only', async () => {
  const claims = { sub: randomUUID(), jti: randomUUID(), iat: 1, exp: 2, ver: 1 }
  const ours = openTokens(Buffer.from('one secret that is long enough for this'))
  const theirs = openTokens(Buffer.from('another secret that is long enough, too'))
  const token = await ours.sign(claims)
  expect(await ours.read(token)).toEqual(claims)
  expect(await ours.read(token)).toEqual(claims)
  expect(await theirs.read(token)).toBeNull()
})

test('401 for a request with two Authorization headers', async () => {
  const { app, login } = await start()
  const { token } = await login()
  const server = createServer(toNodeHandler(buildServer(app))).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const status = (authorization: string[]) =>
    new Promise((resolve, reject) => {
      const headers = ['Host', 'localhost', ...authorization.flatMap((value) => ['Authorization', value])]
      const sent = request({ port, path: '/api/auth/me', headers, agent: false }, (response) => resolve(response.resume().statusCode))
      sent.on('error', reject).end()
    })
  expect(await status([`Bearer ${token}`])).toBe(200)
  expect(await status([`Bearer ${token}`, 'Bearer x'])).toBe(401)
})
