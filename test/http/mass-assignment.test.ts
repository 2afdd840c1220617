/** Unknown fields of a request, sent to every route with a body, leave no trace in any answer or row. */
import { expect, test, vi } from 'vitest'
import type { Route } from '../../src/http/route.ts'
import { rowOf } from '../route-table/all.ts'
import { normal } from '../support/normal.ts'
import { fieldsOf, nameOf, password, type RouteRequest, startWorld, usualOf, type World } from '../support/route-table.ts'
import { rowsWritten } from '../support/rows-of.ts'

// Hundreds of requests: seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 })

const long = '2001-01-01T00:00:00.000Z'

/** Fields that an attacker would like to set, by their names as columns and in the API. */
const wishes = ({ bob }: World): Record<string, unknown> => ({
  id: '01890a5d-ac96-774b-bcce-b302099a8057',
  owner_id: bob.id,
  owner: bob.username,
  user_id: bob.id,
  user: bob.id,
  created_by: bob.id,
  username: 'mallory',
  email: 'mallory@example.org',
  display_name: 'Mallory',
  role: 'admin',
  roles: ['admin'],
  is_admin: true,
  admin: true,
  groups: ['admin'],
  scopes: ['admin'],
  disabled: true,
  email_verified: true,
  email_verified_at: long,
  password_hash: '$argon2id$v=19$m=19456,t=2,p=1$EY6fc0udciMVyqZIvJez8A$L5YEMsG5h2wbXWQvW7dXnQjOh2VPqlc2AL+6RQGG1Tk',
  token_version: 99,
  auth_method: 'oidc',
  oidc_subject: 'mallory',
  last_login_at: long,
  status: 'completed',
  state: 'completed',
  content: 'forged',
  filename: 'forged.exe',
  mime_type: 'text/html',
  size: 99,
  sha256: 'f'.repeat(64),
  ocr_confidence: 0.99,
  page_count: 99,
  version: 99,
  duplicate_of: '01890a5d-ac96-774b-bcce-b302099a8057',
  source_id: '01890a5d-ac96-774b-bcce-b302099a8057',
  source_path: '/forged',
  error: null,
  token: 'forged',
  url: 'https://forged.example.org',
  view_count: -100,
  is_revoked: false,
  revoked_at: long,
  is_edited: true,
  reply_count: 99,
  document_count: 99,
  attempts: 99,
  max_attempts: 99,
  progress: 99,
  read: true,
  read_at: long,
  last_sync: long,
  last_error: 'forged',
  credentials: 'forged',
  created_at: long,
  updated_at: long,
  processed_at: long,
  completed_at: long,
})

/** Returns those that are not fields of the route's body. */
function foreign({ shape: { body, form } }: Route, world: World): Record<string, unknown> {
  const own = fieldsOf(body ?? form?.fields)
  return Object.fromEntries(Object.entries(wishes(world)).filter(([name]) => !own.includes(name)))
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

function withFields(ask: RouteRequest, more: Record<string, unknown>): RouteRequest {
  if (!ask.form) return { ...ask, json: { ...(ask.json as object), ...more } }
  const texts = Object.fromEntries(Object.entries(more).map(([name, value]) => [name, textOf(value)]))
  return { ...ask, form: { ...ask.form, fields: { ...ask.form.fields, ...texts } } }
}

/** A form has at most 50 fields. */
function halves(more: Record<string, unknown>): Record<string, unknown>[] {
  const all = Object.entries(more)
  return [all.slice(0, 40), all.slice(40)].map((part) => Object.fromEntries(part))
}

/** Returns the answer of a request, and the rows that it created or changed. */
async function outcome(world: World, route: Route, more: Record<string, unknown>) {
  const { who, actor } = usualOf(route, world)
  const known = { ada: world.ada.id, bob: world.bob.id, root: world.admin.id, wish: String(wishes(world).id) }
  const ask = withFields(await rowOf(route).good(world, who), more)
  const { result, written } = await rowsWritten(world.app, async () => {
    const response = await world.send(route, ask, actor)
    return { status: response.status, text: normal(await response.text(), known) }
  })
  return { ...result, written: written.map((row) => normal(row, known)).sort() }
}

test('unknown fields of a body change nothing, on every route with a body', async () => {
  const world = await startWorld()
  const writing = world.routes.filter(({ shape }) => shape.body || shape.form)
  expect(writing.length).toBeGreaterThan(20)
  for (const route of writing) {
    const more = foreign(route, world)
    const { who, actor } = usualOf(route, world)
    // Once before, for what is another thing the first time.
    await world.send(route, await rowOf(route).good(world, who), actor)
    const plain = await outcome(world, route, {})
    for (const part of route.shape.form ? halves(more) : [more]) {
      const forged = await outcome(world, route, part)
      expect.soft({ name: nameOf(route), ...forged }).toEqual({ name: nameOf(route), ...plain })
    }
  }
})

/** Fields as JSON text, in which a key can occur twice. */
const roles = [
  '"role":"admin"',
  '"role":"ADMIN"',
  '"role":"admin "',
  '"role":["admin"]',
  '"role":{"$eq":"admin"}',
  '"role":"user","role":"admin"',
  '"role":"admin","role":"user"',
  '"Role":"admin"',
  '"is_admin":true,"admin":true',
  '"constructor":{"prototype":{"role":"admin"}}',
  '"email_verified":true,"id":"01890a5d-ac96-774b-bcce-b302099a8057"',
  '"role":"user","user":{"role":"admin"}',
]

test('no request makes its user or another one an admin without the right to', async () => {
  const world = await startWorld()
  const admins = () => world.app.db.selectFrom('users').select('id').where('role', '=', 'admin').execute()
  const before = await admins()
  for (const name of ['POST /api/auth/register', 'PUT /api/users/profile', 'POST /api/users', 'POST /api/users/import']) {
    const route = world.routes.find((one) => nameOf(one) === name) as Route
    for (const [at, role] of roles.entries()) {
      const fields = `{"username":"x${at}","email":"x${at}@example.org","password":"${password}",${role}}`
      const raw = name.endsWith('import') ? `{"users":[${fields}]}` : fields
      const { status } = await world.send(route, { raw, as: world.ada.actor }, null)
      expect([name, role, [200, 201, 400, 403, 409].includes(status), await admins()]).toEqual([name, role, true, before])
    }
  }
  expect((await world.asAda.auth.profile()).role).toBe('user')
  expect((await world.asAda.send('GET', '/api/users')).status).toBe(403)
})
