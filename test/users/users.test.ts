import { randomUUID } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hash } from '@node-rs/argon2'
import { expect, test } from 'vitest'
import { operator } from '../../src/actor.ts'
import { localClient } from '../../src/client/local.ts'
import { ConfigError } from '../../src/errors.ts'
import { ensureFirstAdmin } from '../../src/users/first-admin.ts'
import { generatePassword } from '../../src/users/passwords.ts'
import type { UserView } from '../../src/users/view.ts'
import { startApp, upload } from '../support/app.ts'
import { connectAll } from '../support/connect-all.ts'

const password = 'correct horse battery'

interface Page {
  data: UserView[]
  pagination: { total: number; has_next: boolean }
}

interface Imported {
  created: number
  updated: number
  skipped: number
  failed: number
  results: {
    index: number
    username: string | null
    action: string
    id?: string
    error?: { code: string; message: string; details: Record<string, unknown> }
  }[]
}

/** Starts an app, with functions that most tests use. */
async function start(settings?: Parameters<typeof startApp>[0]) {
  const started = await startApp(settings)
  const { asAdmin, asStranger } = started
  const add = (username: string, more: object = {}) =>
    asAdmin.call<UserView>('POST', '/api/users', { username, email: `${username}@example.org`, password, ...more })
  const login = (username: string, secret = password) => asStranger.send('POST', '/api/auth/login', { username, password: secret })
  const signIn = async (username: string) => ((await (await login(username)).json()) as { token: string }).token
  const as = (token: string) => (method: string, path: string, json?: object) =>
    asStranger.send(method, path, json, { authorization: `Bearer ${token}` })
  const importUsers = (body: unknown, query = '') => asAdmin.call<Imported>('POST', `/api/users/import${query}`, body)
  return { ...started, add, login, signIn, as, importUsers }
}

const code = async (response: Response) => [response.status, (await response.json()).error.code]

test('GET /api/users: newest first, in pages, by role, state and part of the name', async () => {
  const { add, asAdmin } = await start()
  await add('zoe', { display_name: 'Zoë 100%_' })
  const list = (query: string) => asAdmin.call<Page>('GET', `/api/users?${query}`)
  const names = async (query: string) => (await list(query)).data.map(({ username }) => username)
  expect(await names('')).toEqual(['zoe', 'root', 'bob', 'ada'])
  expect(await list('per_page=3')).toMatchObject({ pagination: { total: 4, has_next: true } })
  expect(await names('per_page=3&page=2')).toEqual(['ada'])
  expect(await list('page=9')).toMatchObject({ data: [], pagination: { total: 4, has_next: false } })
  expect(await names('role=admin')).toEqual(['root'])
  expect(await names('q=ZOË')).toEqual(['zoe'])
  expect(await names('q=ob@exam')).toEqual(['bob'])
  expect(await names('q=%25_')).toEqual(['zoe'])
  const [{ id }] = (await list('q=bob')).data as [UserView]
  await asAdmin.call('PUT', `/api/users/${id}`, { disabled: true })
  expect(await names('disabled=true')).toEqual(['bob'])
  expect(await names('disabled=false&role=user')).toEqual(['zoe', 'ada'])
  for (const bad of ['per_page=101', 'page=0', 'role=editor', 'disabled=maybe']) {
    expect(await code(await asAdmin.send('GET', `/api/users?${bad}`))).toEqual([400, 'VALIDATION_ERROR'])
  }
})

test('403 FORBIDDEN for users, 401 UNAUTHORIZED without a token, on every route for admins', async () => {
  const { asAda, asStranger, bob } = await start()
  for (const [method, path, body] of [
    ['GET', '/api/users'],
    ['POST', '/api/users', { username: 'x', email: 'x@example.org', password, role: 'admin' }],
    ['POST', '/api/users/import', []],
    ['GET', `/api/users/${bob.id}`],
    ['PUT', `/api/users/${bob.id}`, { role: 'admin' }],
    ['DELETE', `/api/users/${bob.id}`],
    ['GET', '/api/users/bob/groups'],
  ] as const) {
    expect([path, ...(await code(await asAda.send(method, path, body)))]).toEqual([path, 403, 'FORBIDDEN'])
    expect([path, ...(await code(await asStranger.send(method, path, body)))]).toEqual([path, 401, 'UNAUTHORIZED'])
  }
})

test('POST /api/users: 201 with the user, who can sign in; never a hash', async () => {
  const { add, login, app } = await start()
  const made = await add('Zoe', {
    role: 'admin',
    display_name: ' Zoë ',
    token_version: 7,
    id: randomUUID(),
    last_login_at: '2001-01-01T00:00:00Z',
  })
  expect(made).toEqual({
    id: expect.any(String),
    username: 'Zoe',
    email: 'Zoe@example.org',
    role: 'admin',
    display_name: 'Zoë',
    disabled: false,
    auth_method: 'local',
    created_at: expect.stringMatching(/\.\d{3}Z$/),
    last_login_at: null,
  })
  expect((await login('zoe')).status).toBe(200)
  const row = await app.db.selectFrom('users').selectAll().where('id', '=', made.id).executeTakeFirstOrThrow()
  expect(row.token_version).toBe(1)
  expect(row.password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
})

test('POST /api/users: 409 DUPLICATE_RESOURCE with the field, 400 VALIDATION_ERROR with the issues', async () => {
  const { asAdmin } = await start()
  const send = (fields: object) => asAdmin.send('POST', '/api/users', { username: 'new', email: 'new@example.org', password, ...fields })
  const duplicate = await send({ username: 'ADA' })
  expect([duplicate.status, (await duplicate.json()).error.details]).toEqual([409, { field: 'username' }])
  expect(await code(await send({ email: 'ADA@example.org' }))).toEqual([409, 'DUPLICATE_RESOURCE'])
  const bad = await send({ username: 'a b', email: 'nowhere', password: 'short', role: 'editor' })
  const paths = (await bad.json()).error.details.issues.map(({ path }: { path: string }) => path)
  expect([bad.status, ...paths]).toEqual([400, 'username', 'email', 'password', 'role'])
})

test('400 VALIDATION_ERROR for a username that no path of a URL can contain', async () => {
  const { asAdmin } = await start()
  for (const username of ['.', '..', '\u2025'])
    expect(await code(await asAdmin.send('POST', '/api/users', { username, email: 'new@example.org', password }))).toEqual([
      400,
      'VALIDATION_ERROR',
    ])
})

test('404 USER_NOT_FOUND for unknown and malformed ids', async () => {
  const { asAdmin } = await start()
  for (const id of [randomUUID(), 'nobody', "'--", '00000000-0000-0000-0000-00000000000g']) {
    const path = `/api/users/${encodeURIComponent(id)}`
    expect(await code(await asAdmin.send('GET', path))).toEqual([404, 'USER_NOT_FOUND'])
    expect(await code(await asAdmin.send('PUT', path, { display_name: 'x' }))).toEqual([404, 'USER_NOT_FOUND'])
    expect(await code(await asAdmin.send('DELETE', path))).toEqual([404, 'USER_NOT_FOUND'])
  }
})

test('PUT /api/users/{id}: changes the given fields only; a new password ends all sessions', async () => {
  const { add, asAdmin, signIn, as, login } = await start()
  const zoe = await add('zoe')
  const path = `/api/users/${zoe.id}`
  const send = as(await signIn('zoe'))
  const renamed = await asAdmin.call<UserView>('PUT', path, {
    display_name: 'Zoë',
    email: 'z@example.org',
    username: 'other',
    created_at: 'x',
  })
  expect(renamed).toEqual({ ...zoe, display_name: 'Zoë', email: 'z@example.org', last_login_at: expect.any(String) })
  expect(await asAdmin.call('GET', path)).toEqual(renamed)
  expect(await asAdmin.call('PUT', path, {})).toEqual(renamed)
  expect((await send('GET', '/api/users/profile')).status).toBe(200)
  await asAdmin.call('PUT', path, { password: 'another password' })
  expect((await send('GET', '/api/users/profile')).status).toBe(401)
  expect([(await login('zoe')).status, (await login('zoe', 'another password')).status]).toEqual([401, 200])
  expect(await code(await asAdmin.send('PUT', path, { email: 'ada@example.org' }))).toEqual([409, 'DUPLICATE_RESOURCE'])
  expect(await code(await asAdmin.send('PUT', path, { password: 'short' }))).toEqual([400, 'VALIDATION_ERROR'])
  expect(await code(await asAdmin.send('PUT', path, { disabled: 'yes' }))).toEqual([400, 'VALIDATION_ERROR'])
})

test('409 CONFLICT for demoting, disabling or deleting the last active admin', async () => {
  const { asAdmin, admin, add } = await start()
  const path = `/api/users/${admin.id}`
  const second = await add('second', { role: 'admin' })
  await asAdmin.call('PUT', `/api/users/${second.id}`, { disabled: true })
  expect(await code(await asAdmin.send('PUT', path, { role: 'user' }))).toEqual([409, 'CONFLICT'])
  expect(await code(await asAdmin.send('PUT', path, { disabled: true }))).toEqual([409, 'CONFLICT'])
  expect(await code(await asAdmin.send('DELETE', path))).toEqual([409, 'CONFLICT'])
  const inCapitals = `/api/users/${admin.id.toUpperCase()}`
  expect(await code(await asAdmin.send('PUT', inCapitals, { role: 'user' }))).toEqual([409, 'CONFLICT'])
  expect(await code(await asAdmin.send('DELETE', inCapitals))).toEqual([409, 'CONFLICT'])
  await asAdmin.call('PUT', `/api/users/${second.id}`, { disabled: false })
  expect(await asAdmin.call('PUT', path, { role: 'user' })).toMatchObject({ role: 'user' })
})

test('of many admins demoted, disabled and deleted at once one stays', async () => {
  const { asAdmin, admin, add, app } = await start()
  const ids = [admin.id]
  for (const name of ['a', 'b', 'c', 'd', 'e']) ids.push((await add(name, { role: 'admin' })).id)
  await connectAll(app)
  const acts = [{ role: 'user' }, { disabled: true }, null]
  const all = await Promise.all(
    ids.map((id, at) => {
      const act = acts[at % 3]
      return act ? asAdmin.send('PUT', `/api/users/${id}`, act) : asAdmin.send('DELETE', `/api/users/${id}`)
    }),
  )
  expect(all.filter(({ status }) => status === 409)).toHaveLength(1)
  expect(all.filter(({ ok }) => ok)).toHaveLength(5)
  const left = await app.db.selectFrom('users').select('id').where('role', '=', 'admin').where('disabled', '=', false).execute()
  expect(left).toHaveLength(1)
})

test('DELETE /api/users/{id}: 409 CONFLICT while the user owns documents, unless the request says what becomes of them', async () => {
  const { asAdmin, asAda, asBob, ada, bob } = await start()
  const { id } = await upload(asAda, 'a.txt', 'words of ada')
  const path = `/api/users/${ada.id}`
  expect(await code(await asAdmin.send('DELETE', path))).toEqual([409, 'CONFLICT'])
  expect(await (await asAdmin.send('DELETE', path)).text()).toContain('The user owns 1 document. ')
  for (const bad of [
    'documents=keep',
    'documents=transfer',
    'documents=transfer&to=nobody',
    'documents=transfer&to=ada',
    `documents=transfer&to=${randomUUID()}`,
    'documents=delete&to=bob',
    'to=bob',
  ]) {
    expect([bad, ...(await code(await asAdmin.send('DELETE', `${path}?${bad}`)))]).toEqual([bad, 400, 'VALIDATION_ERROR'])
  }
  expect((await asAdmin.send('DELETE', `${path}?documents=transfer&to=bob@example.org`)).status).toBe(204)
  expect(await asBob.call('GET', `/api/documents/${id}`)).toMatchObject({ owner_id: bob.id })
  expect(await code(await asAdmin.send('DELETE', path))).toEqual([404, 'USER_NOT_FOUND'])
  expect((await asAdmin.send('DELETE', `/api/users/${bob.id}?documents=delete`)).status).toBe(204)
  expect(await code(await asAdmin.send('GET', `/api/documents/${id}`))).toEqual([404, 'DOCUMENT_NOT_FOUND'])
})

test('profile: equal on both paths; e-mail address and display name can be changed, nothing else', async () => {
  const { asAda, ada } = await start()
  const before = await asAda.call<UserView>('GET', '/api/users/profile')
  expect(before).toMatchObject({ id: ada.id, username: 'ada', role: 'user' })
  expect(await asAda.call('GET', '/api/auth/me')).toEqual(before)
  const wish = {
    email: 'lovelace@example.org',
    display_name: 'Ada L.',
    role: 'admin',
    disabled: true,
    username: 'root',
    token_version: 0,
    id: randomUUID(),
  }
  expect(await asAda.call('PUT', '/api/users/profile', wish)).toEqual({ ...before, email: wish.email, display_name: wish.display_name })
  expect(await code(await asAda.send('PUT', '/api/users/profile', { email: 'BOB@example.org' }))).toEqual([409, 'DUPLICATE_RESOURCE'])
  expect(await code(await asAda.send('PUT', '/api/users/profile', { display_name: 'a\nb' }))).toEqual([400, 'VALIDATION_ERROR'])
})

test('404 USER_NOT_FOUND for the profile of the operator', async () => {
  const { app } = await start()
  const shell = localClient(app, operator)
  expect(await code(await shell.send('GET', '/api/users/profile'))).toEqual([404, 'USER_NOT_FOUND'])
  expect((await shell.send('GET', '/api/users')).status).toBe(200)
})

test('change-password: 200 with a token; all others end', async () => {
  const { add, signIn, as, login } = await start()
  await add('zoe')
  const [mine, other] = [as(await signIn('zoe')), as(await signIn('zoe'))]
  const response = await mine('POST', '/api/users/change-password', { current_password: password, new_password: 'my new password' })
  expect(response.status).toBe(200)
  const { token, expires_at, message } = await response.json()
  expect([message, Date.parse(expires_at)]).toEqual(['Password changed.', expect.any(Number)])
  const statusOf = async (send: ReturnType<typeof as>) => (await send('GET', '/api/users/profile')).status
  expect(await Promise.all([as(token), mine, other].map(statusOf))).toEqual([200, 401, 401])
  expect([(await login('zoe')).status, (await login('zoe', 'my new password')).status]).toEqual([401, 200])
})

test('change-password: 403 for a wrong current one, 400 for an equal or weak new one, 429 after 10 wrong ones', async () => {
  const { add, signIn, as } = await start()
  await add('zoe')
  const send = as(await signIn('zoe'))
  const change = async (current_password: string, new_password: string) =>
    code(await send('POST', '/api/users/change-password', { current_password, new_password }))
  expect(await change(password, password)).toEqual([400, 'VALIDATION_ERROR'])
  expect(await change(password, 'short')).toEqual([400, 'VALIDATION_ERROR'])
  expect(await change(password, 'x'.repeat(1025))).toEqual([400, 'VALIDATION_ERROR'])
  for (let tries = 0; tries < 10; tries++) expect(await change('wrong', 'my new password')).toEqual([403, 'FORBIDDEN'])
  expect(await change(password, 'my new password')).toEqual([429, 'RATE_LIMITED'])
})

test('change-password: of two at once one succeeds', async () => {
  const { add, signIn, as } = await start()
  await add('zoe')
  const send = as(await signIn('zoe'))
  const both = await Promise.all(
    ['first new one', 'second new one'].map((new_password) =>
      send('POST', '/api/users/change-password', { current_password: password, new_password }),
    ),
  )
  expect(both.map(({ status }) => status).sort()).toEqual([200, 403])
})

test('groups: by name and by e-mail address; 404 for unknown users', async () => {
  const { asAdmin, app, ada } = await start()
  expect(await asAdmin.call('GET', '/api/users/ADA/groups')).toEqual({ username: 'ada', groups: [], synced_at: null })
  await app.db
    .updateTable('users')
    .set({ groups: ['staff'], groups_synced_at: new Date(0) })
    .where('id', '=', ada.id)
    .execute()
  expect(await asAdmin.call('GET', `/api/users/${encodeURIComponent('Ada@example.org')}/groups`)).toEqual({
    username: 'ada',
    groups: ['staff'],
    synced_at: '1970-01-01T00:00:00.000Z',
  })
  expect(await code(await asAdmin.send('GET', '/api/users/nobody/groups'))).toEqual([404, 'USER_NOT_FOUND'])
})

test('import: each row has its own result, and a bad one stops no other', async () => {
  const { importUsers, login } = await start()
  const answer = await importUsers([
    { username: 'one', email: 'one@example.org', password },
    { username: 'two', email: 'not an address', password: 'short' },
    { username: 'ONE', email: 'other@example.org' },
    { username: 'three', email: 'One@example.org' },
    'rubbish',
    null,
    { username: 'ada', email: 'ada@example.org', password },
    { username: 'four', email: 'four@example.org', role: 'editor' },
    { username: 'five', email: 'five@example.org', password, password_hash: 'x' },
    { username: 'six', email: 'six@example.org', display_name: 'Six', role: 'admin', id: 1 },
  ])
  expect(answer).toMatchObject({ created: 2, updated: 0, skipped: 1, failed: 7 })
  expect(answer.results.map(({ index, action, error }) => [index, action, error?.code])).toEqual([
    [0, 'created', undefined],
    [1, 'failed', 'VALIDATION_ERROR'],
    [2, 'failed', 'DUPLICATE_RESOURCE'],
    [3, 'failed', 'DUPLICATE_RESOURCE'],
    [4, 'failed', 'VALIDATION_ERROR'],
    [5, 'failed', 'VALIDATION_ERROR'],
    [6, 'skipped', undefined],
    [7, 'failed', 'VALIDATION_ERROR'],
    [8, 'failed', 'VALIDATION_ERROR'],
    [9, 'created', undefined],
  ])
  expect(answer.results[2]?.error?.details).toEqual({ field: 'username', first_index: 0 })
  expect(answer.results.map(({ username }) => username).slice(2, 6)).toEqual(['ONE', 'three', null, null])
  expect(JSON.stringify(answer)).not.toContain(password)
  expect((await login('one')).status).toBe(200)
  expect((await login('ada')).status).toBe(401)
})

test('import: Argon2 hashes of other programs work; other and expensive ones are refused', async () => {
  const { importUsers, login } = await start()
  const good = await hash('from elsewhere', { memoryCost: 4096, timeCost: 3, parallelism: 2 })
  const rows = [good, '$2b$10$abcdefghijklmnopqrstuv', good.replace('m=4096', 'm=4000000'), good.replace('t=3', 't=1000'), 'plain'].map(
    (password_hash, at) => ({
      username: `u${at}`,
      email: `u${at}@example.org`,
      password_hash,
    }),
  )
  const { results } = await importUsers({ users: rows })
  expect(results.map(({ action }) => action)).toEqual(['created', 'failed', 'failed', 'failed', 'failed'])
  expect((await login('u0', 'from elsewhere')).status).toBe(200)
})

test('import: on_conflict fail and update; update changes differing fields only', async () => {
  const { importUsers, add, signIn, as, login, asAdmin } = await start()
  const zoe = await add('zoe')
  const send = as(await signIn('zoe'))
  const statusOf = async () => (await send('GET', '/api/users/profile')).status
  const row = { username: 'Zoe', email: 'zoe@example.org', password }
  expect((await importUsers({ users: [row], on_conflict: 'fail' })).results[0]).toMatchObject({
    action: 'failed',
    error: { code: 'DUPLICATE_RESOURCE', details: { field: 'username' } },
  })
  expect((await importUsers({ users: [row], on_conflict: 'update' })).results[0]).toEqual({
    index: 0,
    username: 'Zoe',
    action: 'skipped',
    id: zoe.id,
  })
  const renamed = { ...row, email: 'z@example.org', display_name: 'Zoë' }
  expect((await importUsers({ users: [renamed], on_conflict: 'update' })).results[0]).toMatchObject({ action: 'updated', id: zoe.id })
  expect(await asAdmin.call('GET', `/api/users/${zoe.id}`)).toMatchObject({
    username: 'zoe',
    email: 'z@example.org',
    display_name: 'Zoë',
    role: 'user',
  })
  expect(await statusOf()).toBe(200)
  expect((await importUsers({ users: [{ ...renamed, password: 'another password' }], on_conflict: 'update' })).updated).toBe(1)
  expect([await statusOf(), (await login('zoe', 'another password')).status]).toEqual([401, 200])
  const byEmail = { username: 'unknown', email: 'Z@example.org', display_name: 'by address' }
  expect((await importUsers({ users: [byEmail], on_conflict: 'update' })).results[0]).toMatchObject({ action: 'updated', id: zoe.id })
  const taken = { username: 'zoe', email: 'ada@example.org' }
  expect((await importUsers({ users: [taken], on_conflict: 'update' })).results[0]?.error).toMatchObject({
    code: 'DUPLICATE_RESOURCE',
    details: { field: 'email' },
  })
})

test('import: an update cannot remove the last admin', async () => {
  const { importUsers } = await start()
  const { results } = await importUsers({ users: [{ username: 'root', email: 'root@example.org', role: 'user' }], on_conflict: 'update' })
  expect(results[0]?.error?.code).toBe('CONFLICT')
})

test('import: a dry run has equal results and writes nothing', async () => {
  const { importUsers, app } = await start()
  const snapshot = () => app.db.selectFrom('users').selectAll().orderBy('id').execute()
  const before = await snapshot()
  const users = [
    { username: 'new', email: 'new@example.org', password },
    { username: 'ada', email: 'ada@example.org', role: 'admin' },
    { username: 'bob', email: 'root@example.org' },
    { username: 'root', email: 'nobody' },
  ]
  const answer = await importUsers({ users, on_conflict: 'update' }, '?dry_run=true')
  expect(answer.results.map(({ action }) => action)).toEqual(['created', 'updated', 'failed', 'failed'])
  expect(answer.results[0]).not.toHaveProperty('id')
  expect(await snapshot()).toEqual(before)
})

test('import: 400 VALIDATION_ERROR for 10,001 rows and for anything but a list; 10,000 are accepted', async () => {
  const { asAdmin, importUsers } = await start()
  const rows = Array.from({ length: 10_001 }, (_, at) => ({ username: `user ${at}` }))
  for (const body of [rows, { users: rows }, {}, { users: 'x' }, { users: [], on_conflict: 'merge' }, 'x']) {
    expect(await code(await asAdmin.send('POST', '/api/users/import', body))).toEqual([400, 'VALIDATION_ERROR'])
  }
  expect(await importUsers(rows.slice(1))).toMatchObject({ created: 0, failed: 10_000 })
})

/** Starts an app without users, as at the first start. */
async function startEmpty(settings?: Parameters<typeof startApp>[0]) {
  const started = await start(settings)
  await started.app.db.deleteFrom('users').execute()
  return { ...started, file: join(started.dataDir, 'initial-admin-password') }
}

test('first admin: a password is generated, written to a file that only its owner can read, and the file is removed when it is changed', async () => {
  const { app, file, login, as } = await startEmpty({ 'auth.password_require_special': true, 'auth.password_require_numbers': true })
  const made = await ensureFirstAdmin(app)
  expect(await readFile(file, 'utf8')).toBe(`${made?.password}\n`)
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect(await ensureFirstAdmin(app)).toBeNull()
  const { token, user } = await (await login('admin', made?.password)).json()
  expect(user).toMatchObject({ username: 'admin', email: 'admin@localhost', role: 'admin' })
  const profile = await as(token)('PUT', '/api/users/profile', { email: 'admin@localhost', display_name: 'The admin' })
  expect(profile.status).toBe(200)
  const change = await as(token)('POST', '/api/users/change-password', { current_password: made?.password, new_password: 'n3w password!' })
  expect(change.status).toBe(200)
  await expect(stat(file)).rejects.toMatchObject({ code: 'ENOENT' })
})

test('first admin: the file stays while others change theirs, and is removed when an admin sets a new one', async () => {
  const { app, file, asStranger } = await startEmpty()
  await ensureFirstAdmin(app)
  const shell = localClient(app, operator)
  const other = await shell.call<UserView>('POST', '/api/users', { username: 'other', email: 'other@example.org', password })
  await shell.call('PUT', `/api/users/${other.id}`, { password: 'another password' })
  expect((await stat(file)).isFile()).toBe(true)
  const { data } = await shell.call<Page>('GET', '/api/users?role=admin')
  await shell.call('PUT', `/api/users/${data[0]?.id}`, { password: 'another password' })
  await expect(stat(file)).rejects.toMatchObject({ code: 'ENOENT' })
  expect((await asStranger.send('POST', '/api/auth/login', { username: 'admin', password: 'another password' })).status).toBe(200)
})

test('first admin: one, and one password, if two servers start at once', async () => {
  const { app, file, login } = await startEmpty()
  const made = (await Promise.all([ensureFirstAdmin(app), ensureFirstAdmin(app)])).filter((result) => result !== null)
  expect(made).toHaveLength(1)
  expect(await readFile(file, 'utf8')).toBe(`${made[0]?.password}\n`)
  expect((await login('admin', made[0]?.password)).status).toBe(200)
})

test('first admin: as configured, without a file', async () => {
  const { app, file, login } = await startEmpty({
    'auth.admin_username': 'Chief',
    'auth.admin_email': 'chief@example.org',
    'auth.admin_password': password,
  })
  expect(await ensureFirstAdmin(app)).toBeNull()
  expect((await login('chief@example.org')).status).toBe(200)
  await expect(stat(file)).rejects.toMatchObject({ code: 'ENOENT' })
})

test('first admin: an invalid name, address or password is a configuration error', async () => {
  const { app } = await startEmpty({ 'auth.admin_password': 'short' })
  await expect(ensureFirstAdmin(app)).rejects.toThrow(new ConfigError(['auth.admin_password: at least 8 characters']))
  const spaced = { ...app, config: { ...app.config, auth: { ...app.config.auth, admin_username: 'the admin' } } }
  await expect(ensureFirstAdmin(spaced)).rejects.toThrow(/auth.admin_username/)
  // No account can have this address afterwards: its profile could not be sent back as read.
  const umlaut = { ...app, config: { ...app.config, auth: { ...app.config.auth, admin_email: 'chef@müller.example' } } }
  await expect(ensureFirstAdmin(umlaut)).rejects.toThrow(new ConfigError(['auth.admin_email: an e-mail address']))
})

test('first admin: no user is created if the password cannot be written', async () => {
  const { app, dataDir } = await startEmpty()
  const blocked = join(dataDir, 'a-file')
  await writeFile(blocked, '')
  await expect(ensureFirstAdmin({ ...app, config: { ...app.config, data_dir: blocked } })).rejects.toMatchObject({ code: 'EEXIST' })
  expect(await app.db.selectFrom('users').select('id').execute()).toEqual([])
})

test('POST /api/users with password null: a user who cannot sign in with one; 400 without the field', async () => {
  const { asAdmin, login } = await start()
  const fields = { username: 'sso', email: 'sso@example.org' }
  expect((await asAdmin.send('POST', '/api/users', fields)).status).toBe(400)
  expect((await asAdmin.send('POST', '/api/users', { ...fields, password: null })).status).toBe(201)
  expect((await login('sso', '')).status).toBe(400)
  expect((await login('sso')).status).toBe(401)
})

test('import ?atomic=true: all rows or none; a row may set disabled', async () => {
  const { importUsers, login, asAdmin } = await start()
  const row = (username: string, more: object = {}) => ({ username, email: `${username}@example.org`, password, ...more })
  const bad = await importUsers([row('one'), row('two', { email: 'nowhere' })], '?atomic=true')
  expect(bad).toMatchObject({ created: 0, skipped: 1, failed: 1, results: [{ action: 'skipped' }, { action: 'failed' }] })
  expect((await asAdmin.users.page({ q: 'one' })).data).toEqual([])
  const good = await importUsers([row('one'), row('two', { disabled: 'true' })], '?atomic=true')
  expect(good).toMatchObject({ created: 2, failed: 0 })
  expect([(await login('one')).status, (await login('two')).status]).toEqual([200, 401])
  const again = await importUsers({ users: [row('one', { disabled: true }), row('two')], on_conflict: 'update' }, '?atomic=true')
  expect(again).toMatchObject({ updated: 1, skipped: 1 })
})

test('a generated password never begins with a hyphen, which CSV escapes as a formula', () => {
  const passwords = Array.from({ length: 1000 }, () => generatePassword())
  expect(passwords.filter((password) => !/^[\w.][\w.-]{23}$/.test(password))).toEqual([])
})
