import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { type ClientError, createClient } from '../../src/client/client.ts'
import { localTransport } from '../../src/client/local.ts'
import { startApp, upload } from '../support/app.ts'
import { startLive } from '../support/processes/live.ts'

type Started = Awaited<ReturnType<typeof startApp>>

/** Creates a token of Ada with these scopes. Returns what it can do. */
async function tokenOf(
  started: Started,
  scopes: ('read' | 'write' | 'upload' | 'admin')[],
  more: { user?: string; expires_at?: string } = {},
) {
  const { asAda, asAdmin, asStranger } = started
  const made = await (more.user ? asAdmin : asAda).tokens.create({ name: `for ${scopes}`, scopes, ...more })
  const send = (method: string, path: string, json?: unknown) =>
    asStranger.send(method, path, json, { authorization: `Bearer ${made.token}` })
  const status = async (method: string, path: string, json?: unknown) => (await send(method, path, json)).status
  return { ...made, send, status }
}

test('404 for more concurrent revocations than the pool has connections', async () => {
  const { app, asAda } = await startApp({ 'database.pool_max': 4 })
  const revoke = () => asAda.send('DELETE', `/api/tokens/${randomUUID()}`)
  const answers = await Promise.all(Array.from({ length: 12 }, revoke))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404))
  expect(app.config.database.pool_max).toBe(4)
})

test('201 with the token, which is shown once and stored as a hash', async () => {
  const started = await startApp()
  const { app, ada, asAda, asBob, asAdmin } = started
  const { token, id, status } = await tokenOf(started, ['read'])
  expect(token).toMatch(/^dms_[\w-]{43}$/)
  expect(await asAda.tokens.list()).toEqual([
    {
      id,
      name: 'for read',
      user_id: ada.id,
      username: 'ada',
      scopes: ['read'],
      created_at: expect.any(String),
      expires_at: null,
      last_used_at: null,
    },
  ])
  expect(JSON.stringify(await app.db.selectFrom('api_tokens').selectAll().execute())).not.toContain(token.slice(4))
  expect(await asBob.tokens.list()).toEqual([])
  await expect(asBob.tokens.get(id)).rejects.toMatchObject({ status: 404, code: 'API_TOKEN_NOT_FOUND' })
  expect(await asAdmin.tokens.list({ user: 'ada' })).toHaveLength(1)
  expect(await asAdmin.tokens.list({ user: 'bob' })).toEqual([])
  expect(await status('GET', '/api/documents')).toBe(200)
  expect((await asAda.tokens.get(id)).last_used_at).toEqual(expect.any(String))
})

test('201 with each scope once', async () => {
  const { asAda } = await startApp()
  const created = await asAda.tokens.create({ name: 'twice', scopes: ['write', 'read', 'write', 'read'] })
  expect(created.scopes).toEqual(['write', 'read'])
})

test.each([
  [null, null],
  ['2099-12-31', '2099-12-31T23:59:59.999Z'],
  ['2099-12-31T12:00:00+01:00', '2099-12-31T11:00:00.000Z'],
])('201 with expires_at %s', async (expires_at, expected) => {
  const { asAda } = await startApp()
  expect(await asAda.tokens.create({ name: 'scan', scopes: ['upload'], expires_at })).toMatchObject({ expires_at: expected })
})

test('403 FORBIDDEN with the missing scope; each scope allows its own routes', async () => {
  const started = await startApp()
  const { id } = await upload(started.asAda, 'one.txt', 'one')
  const calls = {
    read: ['GET', '/api/documents'],
    write: ['PUT', `/api/documents/${id}`, { title: 'other' }],
    admin: ['GET', '/api/users'],
    session: ['POST', '/api/tokens', { name: 'more', scopes: ['read'] }],
  } as const
  const good = { read: ['read'], write: ['write'], upload: [], admin: [] } as const
  for (const scope of ['read', 'write', 'upload'] as const) {
    const { send } = await tokenOf(started, [scope])
    for (const [needed, [method, path, json]] of Object.entries(calls)) {
      const response = await send(method, path, json)
      const isGood = (good[scope] as readonly string[]).includes(needed)
      // Without read there is nothing to be shown of what was changed.
      expect([scope, needed, response.status]).toEqual([scope, needed, isGood ? (needed === 'write' ? 204 : 200) : 403])
      if (!isGood) expect((await response.json()).error).toMatchObject({ code: 'FORBIDDEN' })
    }
  }
})

test('uploads: 201 with the scope upload or write, 403 with read', async () => {
  const started = await startApp()
  for (const [scope, expected] of [
    ['upload', 201],
    ['write', 201],
    ['read', 403],
  ] as const) {
    const { token } = await tokenOf(started, [scope])
    const client = createClient(localTransport(started.app, null), { token: async () => token })
    const status = await upload(client, 'a.txt', 'words').then(
      () => 201,
      (error: ClientError) => error.status,
    )
    expect([scope, status]).toEqual([scope, expected])
  }
})

test('a token of an admin without the scope admin has the rights of a user; with it, all rights', async () => {
  const started = await startApp()
  const { asAda, asAdmin } = started
  const { id } = await upload(asAda, 'one.txt', 'one')
  const plain = await tokenOf(started, ['read', 'write'], { user: 'root' })
  expect(await plain.status('GET', `/api/documents/${id}`)).toBe(404)
  expect(await plain.status('GET', '/api/users')).toBe(403)
  const full = await asAdmin.tokens.create({ name: 'full', scopes: ['read', 'admin'] })
  const headers = { authorization: `Bearer ${full.token}` }
  expect((await started.asStranger.send('GET', `/api/documents/${id}`, undefined, headers)).status).toBe(200)
  expect((await started.asStranger.send('GET', '/api/users', undefined, headers)).status).toBe(200)
})

test('403 FORBIDDEN for the scope admin of a user who is no admin; 404 USER_NOT_FOUND for a token of another user', async () => {
  const { asAda, asAdmin } = await startApp()
  await expect(asAda.tokens.create({ name: 'x', scopes: ['admin'] })).rejects.toMatchObject({ status: 403, code: 'FORBIDDEN' })
  await expect(asAdmin.tokens.create({ name: 'x', scopes: ['admin'], user: 'ada' })).rejects.toMatchObject({ code: 'FORBIDDEN' })
  await expect(asAda.tokens.create({ name: 'x', scopes: ['read'], user: 'bob' })).rejects.toMatchObject({ code: 'USER_NOT_FOUND' })
})

test('409 DUPLICATE_RESOURCE for a second token with one name, 409 CONFLICT above 100; 400 for no scope, an unknown one, and a past date', async () => {
  const { app, ada, asAda } = await startApp()
  const make = (more: object) => asAda.send('POST', '/api/tokens', { name: 'one', scopes: ['read'], ...more })
  const code = async (more: object) => (await (await make(more)).json()).error?.code
  expect((await make({})).status).toBe(201)
  expect(await code({ name: 'ONE' })).toBe('DUPLICATE_RESOURCE')
  for (const bad of [
    { scopes: [] },
    { scopes: ['all'] },
    { expires_at: '2020-01-01T00:00:00Z' },
    { expires_at: 'soon' },
    { expires_at: '9999-12-31T23:00:00-12:00' },
    { name: '  ' },
  ])
    expect(await code({ name: 'two', ...bad })).toBe('VALIDATION_ERROR')
  const row = (at: number) => ({
    user_id: ada.id,
    name: `${at}`,
    name_key: `${at}`,
    token_hash: `${at}`,
    scopes: ['read' as const],
    token_version: 1,
    expires_at: null,
  })
  await app.db
    .insertInto('api_tokens')
    .values(Array.from({ length: 97 }, (_, at) => row(at)))
    .execute()
  const codes = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => code({ name })))
  expect(codes.filter((code) => code === 'CONFLICT')).toHaveLength(3)
})

test('401 UNAUTHORIZED after revocation, expiry, a disabled user or a new password', async () => {
  const started = await startApp()
  const { ada, asAda, asBob, asAdmin, later } = started
  const revoked = await tokenOf(started, ['read'])
  await expect(asBob.tokens.revoke(revoked.id)).rejects.toMatchObject({ code: 'API_TOKEN_NOT_FOUND' })
  await asAda.tokens.revoke(revoked.id)
  expect(await revoked.status('GET', '/api/documents')).toBe(401)
  await expect(asAda.tokens.revoke(revoked.id)).rejects.toMatchObject({ code: 'API_TOKEN_NOT_FOUND' })

  const expiring = await tokenOf(started, ['write'], { expires_at: new Date(started.app.now().getTime() + 3_600_000).toISOString() })
  expect(await expiring.status('POST', '/api/labels', { name: 'a', color: '#112233' })).toBe(201)
  await later(3_600_000)
  expect(await expiring.status('POST', '/api/labels', { name: 'b', color: '#112233' })).toBe(401)

  const lasting = await tokenOf(started, ['read', 'write'])
  expect(await lasting.status('GET', '/api/documents')).toBe(200)
  await asAdmin.users.update(ada.id, { disabled: true })
  expect(await lasting.status('GET', '/api/documents')).toBe(401)
  await asAdmin.users.update(ada.id, { disabled: false })
  expect(await lasting.status('GET', '/api/documents')).toBe(401)
})

test('401 UNAUTHORIZED for strings that look like a token', async () => {
  const { asStranger } = await startApp()
  for (const token of ['dms_', 'dms_x', `dms_${'a'.repeat(43)}`, `dms_${'a'.repeat(100_0)}`])
    expect((await asStranger.send('GET', '/api/documents', undefined, { authorization: `Bearer ${token}` })).status).toBe(401)
})

test('tokens manage no tokens: 403 for creating, revoking, signing out and changing the password; refreshing one is 401', async () => {
  const started = await startApp()
  const { id, status } = await tokenOf(started, ['read', 'write', 'upload'])
  expect(await status('POST', '/api/tokens', { name: 'x', scopes: ['read'] })).toBe(403)
  expect(await status('DELETE', `/api/tokens/${id}`)).toBe(403)
  expect(await status('POST', '/api/auth/logout')).toBe(403)
  expect(await status('POST', '/api/users/change-password', { current_password: 'x', new_password: 'correct horse' })).toBe(403)
  expect(await status('PUT', '/api/users/profile', { email: 'new@example.org' })).toBe(403)
  expect(await status('POST', '/api/auth/refresh')).toBe(401)
})

test('/ws: a token with scope read gets the events of a user, also one of an admin; 4401 when it is revoked', async () => {
  const dms = await startLive()
  const token = await dms.asAdmin.tokens.create({ name: 'events', scopes: ['read'] })
  const deaf = await dms.asAda.tokens.create({ name: 'deaf', scopes: ['upload'] })
  const [socket, refused] = [await dms.open(0), await dms.open(1)]
  expect(await socket.join(token.token, ['document_created'])).toMatchObject({ type: 'subscribed' })
  refused.say({ type: 'auth', token: deaf.token })
  expect(await refused.next('error')).toMatchObject({ code: 'FORBIDDEN' })
  expect((await refused.closed).code).toBe(4401)
  await upload(dms.asAda, 'hers.txt', 'hers')
  await dms.asAdmin.users.update(dms.admin.id, { display_name: 'Root' })
  const { id } = await upload(dms.asAdmin, 'own.txt', 'own')
  expect(await socket.next('document_created')).toMatchObject({ document_id: id })
  await dms.asAdmin.tokens.revoke(token.id)
  expect((await socket.closed).code).toBe(4401)
})
