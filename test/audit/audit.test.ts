import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { operator } from '../../src/actor.ts'
import { appendWith, openAuditLog } from '../../src/audit/audit.ts'
import { localTransport } from '../../src/client/local.ts'
import { enqueuePurge } from '../../src/documents/purge.ts'
import { destructionEntry } from '../../src/documents/trash/destroy.ts'
import { openLog } from '../../src/log/log.ts'
import { allRoutes, buildServer } from '../../src/server/http/assemble.ts'
import { isAudited } from '../../src/server/http/audit-requests.ts'
import { startApp, upload } from '../support/app.ts'
import { tokenFor } from '../support/servers/server.ts'

const password = 'correct horse battery'

type Started = Awaited<ReturnType<typeof startApp>>

/** Returns the newest entries as text. */
const newest = async ({ asAdmin }: Started, limit = 1) =>
  (await asAdmin.audit.list({ limit })).map(({ actor, action, target, outcome, code }) => ({ actor, action, target, outcome, code }))

test('each change has one entry with actor, action, address and time, and without values of secret fields', async () => {
  const started = await startApp()
  const { ada, asAda, asAdmin } = started
  const { id } = await upload(asAda, 'one.txt', 'one')
  await asAda.documents.update(id, { title: 'a private title' })
  await asAdmin.users.create({ username: 'eve', email: 'eve@example.org', password, role: 'admin' })
  const [made, changed, uploaded, ...rest] = await asAdmin.audit.list()
  expect(rest).toEqual([])
  expect(made).toMatchObject({
    seq: 3,
    actor: 'root',
    action: 'POST /api/users',
    details: { fields: { username: 'eve', role: 'admin', password: '…' } },
  })
  expect(changed).toEqual({
    seq: 2,
    at: expect.any(String),
    actor_id: ada.id,
    actor: 'ada',
    via: 'api',
    ip: '127.0.0.1',
    action: 'PUT /api/documents/:id',
    target: `id=${id}`,
    outcome: 'ok',
    code: null,
    details: { fields: { title: '…' } },
    request_id: expect.any(String),
    hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
  expect(uploaded).toMatchObject({ action: 'POST /api/documents/upload', target: `document_id=${id}`, outcome: 'ok' })
})

test('reads, searches and invalid requests have no entry', async () => {
  const { asAda, asAdmin } = await startApp()
  await asAda.documents.list().next()
  await asAda.search.advanced({ query: { must: [{ field: 'title', value: 'x', type: 'match' }] } })
  expect((await asAda.send('POST', '/api/labels', { name: 5 })).status).toBe(400)
  expect((await asAda.send('DELETE', '/api/labels/01890a5d-ac96-774b-bcce-b302099a8057')).status).toBe(404)
  expect(await asAdmin.audit.list()).toEqual([])
})

test('sign-ins are recorded with the user; unknown names are not stored', async () => {
  const started = await startApp()
  await started.asAdmin.users.create({ username: 'eve', email: 'eve@example.org', password })
  const login = (username: string, secret: string) => started.asStranger.send('POST', '/api/auth/login', { username, password: secret })
  await login('eve', password)
  await login('EVE@example.org', 'wrong')
  await login('my-password-by-mistake', 'x')
  const action = 'POST /api/auth/login'
  expect(await newest(started, 3)).toEqual([
    { actor: 'anonymous', action, target: '', outcome: 'refused', code: 'UNAUTHORIZED' },
    { actor: 'eve', action, target: '', outcome: 'refused', code: 'UNAUTHORIZED' },
    { actor: 'eve', action, target: '', outcome: 'ok', code: null },
  ])
  const all = JSON.stringify(await started.app.db.selectFrom('audit_entries').selectAll().execute())
  for (const secret of [password, 'my-password-by-mistake']) expect(all).not.toContain(secret)
})

test('a registration is recorded with the new user; a refused one is of nobody, not of the user who has the name', async () => {
  const started = await startApp()
  const register = (fields: object) =>
    started.asStranger.send('POST', '/api/auth/register', { username: 'ada', email: 'eve@example.org', password, ...fields })
  const statuses = [await register({}), await register({ role: 'admin' }), await register({ username: 'eve' })].map(({ status }) => status)
  expect(statuses).toEqual([409, 403, 201])
  const action = 'POST /api/auth/register'
  expect(await newest(started, 3)).toEqual([
    { actor: 'eve', action, target: '', outcome: 'ok', code: null },
    { actor: 'anonymous', action, target: '', outcome: 'refused', code: 'FORBIDDEN' },
    { actor: 'anonymous', action, target: '', outcome: 'refused', code: 'DUPLICATE_RESOURCE' },
  ])
})

test('refused requests and views of shared links are recorded, without the tokens of the links', async () => {
  const started = await startApp()
  const { asAda, asBob, asStranger } = started
  const { id } = await upload(asAda, 'one.txt', 'one')
  const label = await asAda.labels.create({ name: 'a', color: '#112233' })
  await asBob.labels.delete(label.id).catch(() => {})
  expect(await newest(started)).toEqual([
    { actor: 'bob', action: 'DELETE /api/labels/:id', target: `id=${label.id}`, outcome: 'refused', code: 'FORBIDDEN' },
  ])
  const { token } = await asAda.sharedLinks.create({ document_id: id, password: 'sesame' })
  const download = (secret: string) => asStranger.send('POST', `/api/public/shared/${token}/download`, { password: secret })
  await download('wrong')
  await download('sesame')
  const action = 'POST /api/public/shared/:token/download'
  const target = `token=${token.slice(0, 6)}… document_id=${id}`
  expect(await newest(started, 2)).toEqual([
    { actor: 'anonymous', action, target, outcome: 'ok', code: null },
    { actor: 'anonymous', action, target, outcome: 'refused', code: 'SHARED_LINK_INVALID_PASSWORD' },
  ])
  const all = JSON.stringify(await started.app.db.selectFrom('audit_entries').selectAll().execute())
  for (const secret of [token, 'sesame', 'wrong']) expect(all).not.toContain(secret)
})

test('every route that changes data has an audit action', async () => {
  const { app } = await startApp()
  const names = (isWanted: boolean) =>
    allRoutes(app)
      .filter((route) => isAudited(route) === isWanted)
      .map(({ method, path }) => `${method} ${path}`)
  expect(names(false).filter((name) => !name.startsWith('GET '))).toEqual([
    'POST /api/documents/known',
    'POST /api/search/advanced',
    'POST /api/search/pending',
  ])
})

test('200 with filters by actor, action, outcome, address and time, and with pages', async () => {
  const { app, ada, asAda, asBob, asAdmin, later } = await startApp()
  await asAda.labels.create({ name: 'a', color: '#112233' })
  await later(60_000)
  const noon = app.now().toISOString()
  await asBob.labels.create({ name: 'b', color: '#112233' })
  await asBob.labels.create({ name: 'B', color: '#112233' }).catch(() => {})
  const seqs = async (filter: Parameters<typeof asAdmin.audit.list>[0]) => (await asAdmin.audit.list(filter)).map(({ seq }) => seq)
  expect(await seqs({})).toEqual([3, 2, 1])
  expect(await seqs({ order: 'asc', after: 1, limit: 1 })).toEqual([2])
  expect(await seqs({ before: 3, limit: 1 })).toEqual([2])
  expect(await seqs({ actor: 'bob' })).toEqual([3, 2])
  expect(await seqs({ actor: 'BOB' })).toEqual([3, 2])
  expect(await seqs({ actor: ada.id })).toEqual([1])
  expect(await seqs({ actor: ada.id.toUpperCase() })).toEqual([1])
  expect(await seqs({ outcome: 'refused' })).toEqual([3])
  expect(await seqs({ action: 'post /api/LABELS' })).toEqual([3, 2, 1])
  expect(await seqs({ from: noon })).toEqual([3, 2])
  expect(await seqs({ to: noon, action: '%' })).toEqual([])
  expect(await seqs({ ip: '127.0.0.2' })).toEqual([])
})

test('the database refuses to change or remove entries', async () => {
  const { app, asAda } = await startApp()
  await asAda.labels.create({ name: 'a', color: '#112233' })
  for (const statement of [sql`update audit_entries set actor = 'eve'`, sql`delete from audit_entries`, sql`truncate audit_entries`])
    await expect(statement.execute(app.db)).rejects.toThrow('only ever added to')
})

test.each([
  ['changed', sql`update audit_entries set actor = 'eve' where seq = 2`, 2],
  ['taken out', sql`delete from audit_entries where seq = 2`, 2],
  [
    'put in',
    sql`insert into audit_entries select 4, at, actor_id, actor, via, ip, action, target, outcome, code, details, request_id, hash from audit_entries where seq = 3`,
    4,
  ],
  ['cut off at the end', sql`delete from audit_entries where seq = 3`, 3],
])('verify finds an entry that was %s directly in the database', async (_, tamper, seq) => {
  const { app, asAda, asAdmin } = await startApp()
  for (const name of ['a', 'b', 'c']) await asAda.labels.create({ name, color: '#112233' })
  const whole = await asAdmin.audit.verify()
  expect(whole).toEqual({ ok: true, entries: 3, head: { seq: 3, hash: expect.any(String) }, problem: null })
  await app.db.transaction().execute(async (trx) => {
    await sql`alter table audit_entries disable trigger user`.execute(trx)
    await tamper.execute(trx)
    await sql`alter table audit_entries enable trigger user`.execute(trx)
  })
  expect(await asAdmin.audit.verify(whole.head)).toMatchObject({ ok: false, problem: { seq } })
})

test('verify with a saved head finds a log that was rewritten as a whole', async () => {
  const { app, asAda, asAdmin } = await startApp()
  await asAda.labels.create({ name: 'a', color: '#112233' })
  const { head } = await asAdmin.audit.verify()
  const [entry] = await app.db.selectFrom('audit_entries').selectAll().execute()
  if (!entry) throw new Error('no entry')
  await sql`alter table audit_entries disable trigger user; delete from audit_entries; alter table audit_entries enable trigger user`.execute(
    app.db,
  )
  await openAuditLog(app)([{ ...entry, code: null, details: {}, actor: 'eve' }])
  expect(await asAdmin.audit.verify()).toMatchObject({ ok: true })
  expect(await asAdmin.audit.verify(head)).toMatchObject({ ok: false, problem: { seq: 1 } })
})

test('concurrent entries of two servers form one chain without gaps', async () => {
  const { app, ada, asAdmin } = await startApp()
  const send = [0, 1].map(() => localTransport(app, ada.actor))
  await Promise.all(
    Array.from({ length: 60 }, (_, at) =>
      send[at % 2]?.(
        new Request('http://dms/api/labels', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ name: `${at}`, color: '#112233' }),
        }),
      ),
    ),
  )
  expect(await asAdmin.audit.verify()).toMatchObject({ ok: true, entries: 60 })
})

test('writers in turn, and after the loss of the newest entry, go on after the last entry', async () => {
  const { app, asAdmin } = await startApp()
  const act = { at: new Date(), actor_id: null, actor: 'eve', via: 'api', ip: '', action: 'dms test', target: '', request_id: '' }
  const entry = { ...act, outcome: 'ok' as const, code: null, details: {} }
  const [one, other] = [openAuditLog(app), openAuditLog(app)]
  await one([entry, entry])
  await other([entry])
  await one([entry])
  expect(await asAdmin.audit.verify()).toMatchObject({ ok: true, entries: 4 })
  await sql`
    alter table audit_entries disable trigger user; delete from audit_entries where seq > 2; alter table audit_entries enable trigger user`.execute(
    app.db,
  )
  await one([entry])
  expect(await asAdmin.audit.verify()).toMatchObject({ ok: true, entries: 3 })
})

test('a refused sign-in is one log line that a filter can read and no user name can forge', async () => {
  const { app, dataDir } = await startApp()
  const file = join(dataDir, 'dms.log')
  const log = openLog({ level: 'warn', format: 'json', file })
  const server = buildServer({ ...app, log })
  const forged = '","ip":"198.51.100.9","code":"UNAUTHORIZED","request_id":"x","msg":"sign-in refused'
  await server.request(
    '/api/auth/login',
    {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': forged },
      body: JSON.stringify({ username: forged, password: 'x' }),
    },
    { ip: '203.0.113.7' },
  )
  // The expression of docs/security.md for fail2ban, where <HOST> is an address.
  const expression = /"ip":"([\d.:a-f]+)","code":"\w+","request_id":"[\w.-]+","msg":"sign-in refused"/
  const lines = (await readFile(file, 'utf8')).split('\n')
  expect(lines.map((line) => expression.exec(line)?.[1]).filter(Boolean)).toEqual(['203.0.113.7'])
})

test('200 GET /api/audit/verify: white space is sent while it waits, then the result; 500 for an error at once', async () => {
  const { app, admin } = await startApp()
  const headers = { authorization: `Bearer ${await tokenFor(app, admin)}` }
  const verify = () => buildServer(app).request('/api/audit/verify', { headers })
  const answer = await app.db.transaction().execute(async (trx) => {
    await sql`lock table audit_entries in access exclusive mode`.execute(trx)
    // The transaction ends after the head of the answer.
    return verify()
  })
  const text = await answer.text()
  expect([answer.status, text[0], JSON.parse(text)]).toEqual([200, ' ', { ok: true, entries: 0, head: null, problem: null }])
  await sql`alter table audit_entries rename to hidden`.execute(app.db)
  expect((await verify()).status).toBe(500)
})

test('a million entries of one transaction, as of a deleted user, go into many statements, of which PostgreSQL limits each to 256 MB', async () => {
  const { app } = await startApp()
  await limitRowsOfInserts(app, 'audit_entries', 1000)
  await limitRowsOfInserts(app, 'jobs_live', 1000)
  const entry = destructionEntry(app, operator, { id: '', title: '' }, [], 'user_deleted')
  const sums = Array.from({ length: 2001 }, (_, index) => hash('sha256', String(index)))
  const head = await app.db.transaction().execute(async (trx) => {
    await enqueuePurge(trx, sums)
    return appendWith(
      trx,
      sums.map(() => entry),
    )
  })
  expect(head.seq).toBe(2001)
})

/** Makes inserts of more rows into a table fail. */
async function limitRowsOfInserts({ db }: Started['app'], table: string, max: number): Promise<void> {
  const name = sql.id(`limit_${table}`)
  await sql`
    create function ${name}() returns trigger language plpgsql as $$
      begin
        if (select count(*) from inserted) > ${sql.lit(max)} then raise exception 'too many rows in one statement'; end if;
        return null;
      end
    $$`.execute(db)
  await sql`
    create trigger ${name} after insert on ${sql.table(table)} referencing new table as inserted for each statement execute function ${name}()`.execute(
    db,
  )
}
