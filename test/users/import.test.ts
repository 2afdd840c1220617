import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startApp } from '../support/app.ts'
import { tokenFor } from '../support/servers/server.ts'

interface Imported {
  created: number
  skipped: number
  failed: number
  results: { index: number; username: string; action: string; id?: string; error?: { code: string; details: object } }[]
}

const row = (at: number, more: object = {}) => ({ username: `person${at}`, email: `person${at}@example.org`, ...more })
const rows = (count: number) => Array.from({ length: count }, (_, at) => row(at))

async function start() {
  const started = await startApp()
  const { asAdmin, app } = started
  return {
    ...started,
    importUsers: (users: object[], query = '', on_conflict = 'skip') =>
      asAdmin.call<Imported>('POST', `/api/users/import${query}`, { users, on_conflict }),
    stored: () => app.db.selectFrom('users').selectAll().where('username', 'like', 'person%').orderBy('username').execute(),
  }
}

test('import: of 250 rows those with a name or address of another user are skipped or failed, all others are created', async () => {
  const { importUsers, asAdmin, stored } = await start()
  const ada = (await asAdmin.users.page({ q: 'ada' })).data[0]
  const users = rows(250).map((user, at) => {
    if (at === 120) return { ...user, email: 'ADA@example.org' }
    if (at === 130) return { ...user, disabled: true, role: 'admin', display_name: 'One Hundred Thirty' }
    return user
  })
  const first = await importUsers(users)
  expect(first).toMatchObject({ created: 249, skipped: 1, failed: 0 })
  expect(first.results.map(({ index, username }) => [index, username])).toEqual(users.map(({ username }, at) => [at, username]))
  expect(first.results[120]).toEqual({ index: 120, username: 'person120', action: 'skipped', id: ada?.id })
  const made = await stored()
  const idOf = new Map(made.map(({ username, id }) => [username, id]))
  for (const { username, id, action } of first.results) if (action === 'created') expect(id).toBe(idOf.get(username))
  expect(made.length).toBe(249)
  expect(made.filter(({ disabled }) => disabled)).toMatchObject([
    { username: 'person130', role: 'admin', display_name: 'One Hundred Thirty' },
  ])
  expect(made.every(({ email_verified_at, password_hash }) => email_verified_at !== null && password_hash === null)).toBe(true)

  const again = await importUsers(users, '', 'fail')
  expect(again).toMatchObject({ created: 0, failed: 250 })
  expect(again.results[7]?.error).toMatchObject({ code: 'DUPLICATE_RESOURCE', details: { field: 'username', id: idOf.get('person7') } })
  expect(again.results[120]?.error).toMatchObject({ details: { field: 'email', id: ada?.id } })
})

test('import: a dry run of 250 rows creates nobody; two equal imports at once create each user once and fail none', async () => {
  const { importUsers, stored } = await start()
  expect(await importUsers(rows(250), '?dry_run=true')).toMatchObject({ created: 250 })
  expect(await stored()).toEqual([])
  const both = await Promise.all([importUsers(rows(250)), importUsers(rows(250).reverse())])
  expect(both.map(({ created, skipped }) => created + skipped)).toEqual([250, 250])
  expect(both[0].created + both[1].created).toBe(250)
  expect((await stored()).length).toBe(250)
})

test('import: VALIDATION_ERROR for a password of asterisks only, which masks another', async () => {
  const { importUsers } = await start()
  const { results } = await importUsers([row(1, { password: '************' }), row(2, { password: '***********a' })])
  const problem = { code: 'VALIDATION_ERROR', details: { issues: [{ path: 'password', message: 'a mask of asterisks, not a password' }] } }
  expect(results).toMatchObject([{ action: 'failed', error: problem }, { action: 'created' }])
})

test('import: DUPLICATE_RESOURCE for one of two names of the same import that look alike', async () => {
  const { importUsers } = await start()
  for (const word of ['popco', 'apecs', 'peso', 'scope', 'space', 'coax', 'poesy', 'japes']) {
    const lookalike = Array.from(word, (letter) => 'асеорѕхуј'['aceopsxyj'.indexOf(letter)]).join('')
    const users = [word, lookalike].map((username) => ({ username, email: `${username === word}@${word}.example` }))
    const { results } = await importUsers(users)
    expect(results.map(({ action, error }) => error?.code ?? action).sort()).toEqual(['DUPLICATE_RESOURCE', 'created'])
  }
})

test('import: 200 with white space while passwords are hashed or the database waits, then the result', async () => {
  const { app, admin } = await startApp()
  const headers = { authorization: `Bearer ${await tokenFor(app, admin)}`, 'content-type': 'application/json' }
  const answer = await app.db.transaction().execute(async (trx) => {
    await sql`lock table users in share row exclusive mode`.execute(trx)
    // The transaction ends after the head of the answer.
    return buildServer(app).request('/api/users/import', { method: 'POST', headers, body: JSON.stringify([row(1)]) })
  })
  const text = await answer.text()
  expect([answer.status, text[0], JSON.parse(text)]).toMatchObject([200, ' ', { created: 1 }])
})

test('import: VALIDATION_ERROR for each row with a value that cannot be stored, and all other rows are created', async () => {
  const { asAdmin, stored } = await start()
  const rowWith = (at: number, member: string) => `{"username":"person${at}","email":"person${at}@example.org",${member}}`
  const bad = ['"\\u0000"', '"\\ud800"', '1e999', '12345678901234567890', '{"__proto__":1}']
  const problems = [/U\+0000/, /surrogate pair/, /too large/, /as a string/, /a text/]
  for (const fillerCount of [0, 6000]) {
    const list = bad.map((value, at) => rowWith(at, `"display_name":${value}`))
    list.push(rowWith(10, '"__proto__":{"role":"admin"},"unknown":["\\u0000",1e999]'), '"\\ud800"')
    list.push(...Array.from({ length: fillerCount }, () => `{"unknown":"${'x'.repeat(200)}"}`))
    const open = () => `{"on_conflict":"skip","users":[${list.join()}]}`
    const response = await asAdmin.raw('POST', '/api/users/import', { open, size: null }, { 'content-type': 'application/json' })
    const { failed, results } = (await response.json()) as Imported
    expect([response.status, failed]).toEqual([200, 6 + fillerCount])
    for (const [at, message] of problems.entries())
      expect(results[at]).toMatchObject({
        index: at,
        username: `person${at}`,
        action: 'failed',
        error: { code: 'VALIDATION_ERROR', details: { issues: [{ path: 'display_name', message: expect.stringMatching(message) }] } },
      })
    expect(results[6]).toMatchObject({
      action: 'failed',
      error: { details: { issues: [{ path: '', message: expect.stringContaining('surrogate') }] } },
    })
  }
  expect(await stored()).toMatchObject([{ username: 'person10', role: 'user' }])
})
