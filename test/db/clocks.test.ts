/** Limits and expiries when the clock of a server process or of the database is set. */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { databaseNow } from '../../src/db/clock.ts'
import { leaseNext } from '../../src/jobs/leases.ts'
import { countConnections } from '../../src/metrics/metrics.ts'
import { enqueueReindex } from '../../src/search/reindex.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startServerHeartbeat } from '../../src/server/server-heartbeat.ts'
import { takeSlot } from '../../src/server/websocket/connection-slots.ts'
import { enqueueDueSyncs } from '../../src/sources/sync/run-records.ts'
import { createToken } from '../../src/users/email-verification.ts'
import { maintain, openDailyMaintenance } from '../../src/worker/maintenance.ts'
import { reapStaleWorkers } from '../../src/worker/reap-workers.ts'
import { startSchedule } from '../../src/worker/schedule.ts'
import { startApp, upload } from '../support/app.ts'
import { openBrowser, startProvider } from '../support/servers/oidc.ts'

const day = 86_400_000
const password = 'correct horse battery'

/** Creates a user with a password, who signs in by HTTP. */
async function start(settings: Parameters<typeof startApp>[0] = {}) {
  const dms = await startApp(settings)
  const password_hash = await dms.app.passwords.hash(password)
  await dms.app.db.updateTable('users').set({ password_hash }).where('id', '=', dms.ada.id).execute()
  const login = (secret = password) => dms.asStranger.send('POST', '/api/auth/login', { username: 'ada', password: secret })
  const get = async (token: string, path = '/api/documents') =>
    (await dms.asStranger.send('GET', path, undefined, { authorization: `Bearer ${token}` })).status
  const session = async () => ((await (await login()).json()) as { token: string }).token
  return { ...dms, login, get, session }
}

test.each([-2 * day, 2 * day])('429 for failed sign-ins lasts the same time when the process clock is set by %i ms', async (step) => {
  const { login, setProcessClock, later } = await start()
  for (let guess = 0; guess < 10; guess++) await login('wrong')
  setProcessClock(step)
  const refused = await login()
  const { retry_after_secs } = (await refused.json()) as { retry_after_secs: number }
  expect([refused.status, retry_after_secs > 800 && retry_after_secs <= 900]).toEqual([429, true])
  await later(retry_after_secs * 1000)
  expect((await login()).status).toBe(200)
})

test('200 at once when the database clock is set back: failed sign-ins in the future no longer count', async () => {
  const { login, setDatabaseClock } = await start()
  for (let guess = 0; guess < 10; guess++) await login('wrong')
  expect((await login()).status).toBe(429)
  await setDatabaseClock(-2 * day)
  expect((await login()).status).toBe(200)
})

test.each([-2 * day, 2 * day])('429 for requests lasts at most a minute when the process clock is set by %i ms', async (step) => {
  const { app, setProcessClock, later } = await start({ 'limits.api_calls_per_minute': 20 })
  const server = buildServer(app)
  const call = async () => (await server.request('/api/health')).status
  for (let calls = 0; calls < 20; calls++) await call()
  setProcessClock(step)
  expect(await call()).toBe(429)
  await later(60_000)
  expect(await call()).toBe(200)
})

test('200 for requests at once when the database clock is set back, on a server that has not counted them', async () => {
  const { app, setDatabaseClock } = await start({ 'limits.api_calls_per_minute': 20 })
  const call = async (server: ReturnType<typeof buildServer>) => (await server.request('/api/health')).status
  const first = buildServer(app)
  for (let calls = 0; calls < 20; calls++) await call(first)
  expect(await call(buildServer(app))).toBe(429)
  await setDatabaseClock(-2 * day)
  expect(await call(buildServer(app))).toBe(200)
})

test.each([-3650 * day, 3650 * day])('sessions and API tokens expire on time with the process clock set by %i ms', async (step) => {
  const { session, get, asAda, app, ada, later, setProcessClock, login } = await start()
  const token = await session()
  const { token: apiToken } = await asAda.tokens.create({
    name: 'one hour',
    scopes: ['read'],
    expires_at: new Date(Date.now() + 3_600_000).toISOString(),
  })
  setProcessClock(step)
  expect([await get(token), await get(apiToken), (await login()).status]).toEqual([200, 200, 200])
  const used = await app.db.selectFrom('api_tokens').select('last_used_at').where('user_id', '=', ada.id).executeTakeFirstOrThrow()
  expect(Math.abs(Number(used.last_used_at) - Date.now())).toBeLessThan(3_600_000)
  await later(3_600_000)
  expect([await get(token), await get(apiToken)]).toEqual([200, 401])
  await later(23 * 3_600_000)
  expect(await get(token)).toBe(401)
})

test('401 for a session from the future, after the database clock was set back', async () => {
  const { session, get, setDatabaseClock } = await start()
  const token = await session()
  await setDatabaseClock(-day)
  expect(await get(token)).toBe(401)
})

test.each([-2 * day, 2 * day])('410 SHARED_LINK_EXPIRED on time with the process clock set by %i ms', async (step) => {
  const { asAda, asStranger, setProcessClock, later } = await start()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const link = await asAda.sharedLinks.create({ document_id: id, expires_at: new Date(Date.now() + 3_600_000).toISOString() })
  const look = async () => (await asStranger.send('GET', `/api/public/shared/${link.token}`)).status
  setProcessClock(step)
  expect(await look()).toBe(200)
  await later(3_600_000)
  expect(await look()).toBe(410)
})

test.each([-2 * day, 2 * day])('an e-mail confirmation is valid for a day with the process clock set by %i ms', async (step) => {
  const { app, ada, asStranger, setProcessClock, later } = await start()
  const confirm = async (token: string) => (await asStranger.send('GET', `/api/auth/verify-email?token=${token}`)).status
  const create = async () => (await createToken(app, ada)) ?? ''
  const [first, second] = [await create(), await create()]
  setProcessClock(step)
  expect(await confirm(first)).toBe(200)
  const third = await create()
  await later(day)
  expect([await confirm(second), await confirm(third)]).toEqual([400, 400])
})

test.each([-2 * day, 2 * day])('an OIDC sign-in that began before the process clock was set by %i ms succeeds', async (step) => {
  const provider = await startProvider([{ sub: 'zoe', preferred_username: 'zoe', email: 'zoe@example.com', email_verified: true }])
  const { app, asStranger, setProcessClock } = await startApp(provider.settings)
  const server = buildServer(app)
  const browser = openBrowser(async (request) => server.request(request))
  const verifier = randomBytes(32).toString('base64url')
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  const isBack = (url: URL) => url.pathname.endsWith('/callback')
  const { url } = await browser.go(`/api/auth/oidc/login?shell_port=4711&shell_challenge=${challenge}`, isBack)
  setProcessClock(step)
  const end = await browser.go(url.href, ({ port }) => port === '4711')
  const code = end.url.searchParams.get('code') ?? ''
  setProcessClock(-step)
  expect((await asStranger.send('POST', '/api/auth/oidc/exchange', { code, verifier })).status).toBe(200)
})

test('a worker with a clock two hours ahead runs an hourly sync once per hour; its jobs wait as long as those of other workers', async () => {
  const { app, asAdmin, setProcessClock, runJobs, later } = await startApp({ 'sources.local_roots': '/' })
  const folder = await mkdtemp(join(tmpdir(), 'dms-clock-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { id } = await asAdmin.sources.create({ name: 'here', type: 'local_folder', url: folder, sync_interval: 3600 })
  const schedule = async () => {
    await enqueueDueSyncs(app)
    await runJobs(['sync'])
  }
  const syncs = async () => (await app.db.selectFrom('source_syncs').select('id').where('source_id', '=', id).execute()).length
  await schedule()
  setProcessClock(2 * 3_600_000)
  await schedule()
  expect(await syncs()).toBe(1)
  await later(3_600_000)
  await schedule()
  await schedule()
  expect(await syncs()).toBe(2)

  const job = await app.db.transaction().execute((trx) => enqueueReindex(trx, {}, 60_000))
  const { run_at } = await app.db.selectFrom('jobs').select('run_at').where('id', '=', job).executeTakeFirstOrThrow()
  expect(Math.round((run_at.getTime() - (await databaseNow(app.db)).getTime()) / 60_000)).toBe(1)
})

test('after the database clock was set back, waiting jobs, syncs and daily maintenance go on, and leases of dead workers expire', async () => {
  const { app, asAda, asAdmin, setDatabaseClock, runJobs } = await startApp({ 'sources.local_roots': '/' })
  const folder = await mkdtemp(join(tmpdir(), 'dms-clock-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const source = await asAdmin.sources.create({ name: 'here', type: 'local_folder', url: folder, sync_interval: 3600 })
  await setDatabaseClock(2 * day)
  const ids = await Promise.all(['one', 'two'].map(async (name) => (await upload(asAda, `${name}.txt`, name)).id))
  await enqueueDueSyncs(app)
  await runJobs(['sync'])
  await openDailyMaintenance(app)()
  await leaseNext(app.db, 'ocr', 'other-host/1', 60_000)
  await setDatabaseClock(-2 * day)

  await startSchedule(app).stop(60_000)
  await runJobs(['ocr', 'index', 'sync'])
  const statusOf = async (id = '') => (await asAda.documents.get(id)).status
  expect((await Promise.all(ids.map(statusOf))).sort()).toEqual(['completed', 'pending'])
  const syncs = await app.db.selectFrom('source_syncs').select('id').where('source_id', '=', source.id).execute()
  expect(syncs).toHaveLength(2)
  const { last_success_at } = await app.db.selectFrom('runs').selectAll().where('name', '=', 'maintenance').executeTakeFirstOrThrow()
  expect(last_success_at.getTime()).toBeLessThan(Date.now() + day)
  await setDatabaseClock(120_000)
  await runJobs(['ocr'])
  expect(await Promise.all(ids.map(statusOf))).toEqual(['completed', 'completed'])
})

test('a server and a worker that died while the database clock was a day ahead count as dead after it was set back', async () => {
  const { app, ada, asAda, setDatabaseClock, runJobs, later } = await startApp({ 'limits.ws_connections_per_user': 1 })
  const [server, worker] = [randomUUID(), 'elsewhere/1']
  await setDatabaseClock(day)
  await sql`insert into servers (id, seen_at) values (${server}, now())`.execute(app.db)
  expect(await takeSlot(app, randomUUID(), ada.id, server)).toBe(true)
  const { id } = await upload(asAda, 'a.txt', 'hello')
  await sql`insert into workers (name, queues, seen_at) values (${worker}, '{ocr}', now())`.execute(app.db)
  expect((await leaseNext(app.db, 'ocr', worker, 60_000))?.document_id).toBe(id)

  await setDatabaseClock(-day)
  expect((await countConnections(app.db)).servers).toBe(0)
  const heartbeat = await startServerHeartbeat(
    app,
    async () => ({ http: 0, ws: 0 }),
    async () => {},
  )
  expect(await takeSlot(app, randomUUID(), ada.id, heartbeat.id)).toBe(true)
  expect(await app.db.selectFrom('servers').select('id').execute()).toEqual([{ id: heartbeat.id }])
  await heartbeat.close()
  await reapStaleWorkers(app.db, 'here/1')
  await runJobs()
  // The backoff after a lost lease.
  await later(60_000)
  await runJobs()
  expect((await asAda.documents.get(id)).status).toBe('completed')
})

/** Puts a document in the trash, and opens daily maintenance after the usual one of today. */
async function startMaintained(settings: Parameters<typeof startApp>[0] = {}) {
  const dms = await startApp(settings)
  const { app, asAda } = dms
  const runDaily = openDailyMaintenance(app)
  await runDaily()
  const { id } = await upload(asAda, 'a.txt', 'hello', { ocr_enabled: false })
  await asAda.documents.delete(id)
  const warn = vi.spyOn(app.log, 'warn')
  const trash = async () => (await asAda.trash.page()).data.length
  const warnings = () => warn.mock.calls.filter((call) => String(call[1]).startsWith('daily maintenance')).map((call) => String(call[1]))
  return { ...dms, runDaily, trash, warnings }
}

test.each([
  [40 * day, 30],
  [25 * 3_600_000, 1],
])('the trash survives a database clock that is %i ms ahead for a minute', async (step, trash_days) => {
  const { app, runDaily, trash, warnings, setDatabaseClock, later } = await startMaintained({ 'documents.trash_days': trash_days })
  await setDatabaseClock(step)
  // A worker that has seen the step, and one that started after it.
  const other = openDailyMaintenance(app)
  for (const run of [runDaily, runDaily, ...(step > 26 * 3_600_000 ? [other] : [])]) await run()
  expect(warnings()[0]).toContain('the clock of the database was set. To run it now: dms maintenance run')
  expect(warnings().slice(1)).toEqual(step > 26 * 3_600_000 ? [expect.stringContaining('the last maintenance was long ago')] : [])
  await later(60_000)
  await setDatabaseClock(-step)
  await runDaily()
  await later(2 * 3_600_000)
  await runDaily()
  expect(await trash()).toBe(1)
})

test('the trash is purged an hour after a machine was off for a month, at once by dms maintenance run, and daily otherwise', async () => {
  const { app, trash, warnings, setDatabaseClock, later, asAda } = await startMaintained()
  await setDatabaseClock(40 * day)
  const runDaily = openDailyMaintenance(app)
  await runDaily()
  await later(59 * 60_000)
  await runDaily()
  expect([await trash(), warnings().length]).toEqual([1, 1])
  await later(60_000)
  await runDaily()
  expect(await trash()).toBe(0)

  const remove = async (name: string) => asAda.documents.delete((await upload(asAda, name, name, { ocr_enabled: false })).id)
  await remove('b.txt')
  for (let days = 0; days < 31; days++) {
    await later(day)
    await openDailyMaintenance(app)()
  }
  expect([await trash(), warnings().length]).toEqual([0, 1])
  await remove('c.txt')
  await setDatabaseClock(40 * day)
  await maintain(app)
  expect(await trash()).toBe(0)
})
