/** Two servers behind a round robin proxy and three workers, all separate processes, on one database and one document store. */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { openApp } from '../../src/open-app.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startApp } from '../support/app.ts'
import { openWebSocket } from '../support/processes/live.ts'
import { startProcess, startServe } from '../support/processes/service.ts'
import { openBrowser, startProvider } from '../support/servers/oidc.ts'
import { openRoundRobin } from '../support/servers/round-robin.ts'
import { tokenFor } from '../support/servers/server.ts'

const limits = { calls: 40, comments: 5, views: 3, failures: 10 }
const environment = {
  DMS_API_CALLS_PER_MINUTE: String(limits.calls),
  DMS_COMMENTS_PER_MINUTE: String(limits.comments),
  JWT_SECRET: 'the secret that all servers of a fleet share',
}

async function startFleet() {
  const dms = await startApp({ 'auth.jwt_secret': environment.JWT_SECRET })
  const servers = await Promise.all([startServe(dms, environment), startServe(dms, environment)])
  const proxy = await openRoundRobin(servers.map(({ url }) => new URL(url)))
  onTestFinished(() => proxy.close())
  const admin = await tokenFor(dms.app, dms.admin)
  const call = async (method: string, path: string, { body, token = admin, headers = {} }: CallOptions = {}) => {
    const isForm = body instanceof FormData
    const response = await fetch(new URL(path, proxy.url), {
      method,
      headers: {
        ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
        ...(body && !isForm ? { 'content-type': 'application/json' } : {}),
        ...headers,
      },
      ...(body ? { body: isForm ? body : JSON.stringify(body) } : {}),
    })
    const text = await response.text()
    return { status: response.status, json: () => JSON.parse(text) }
  }
  return { ...dms, servers, proxy, call, admin: { ...dms.admin, token: admin } }
}

interface CallOptions {
  body?: object
  token?: string
  headers?: Record<string, string>
}

const countOf = async (status: number, answers: readonly Promise<{ status: number }>[]) =>
  (await Promise.all(answers)).filter((answer) => answer.status === status).length

function formWith(text: string): FormData {
  const form = new FormData()
  form.set('file', new Blob([text]), 'text.txt')
  form.set('ocr_enabled', 'false')
  return form
}

test('limits, keys, revocation and events are exact over two servers', async () => {
  const { call, servers, app, ada, admin } = await startFleet()
  const upload = async (headers: Record<string, string> = {}) =>
    (await call('POST', '/api/documents/upload', { body: formWith(randomUUID()), headers })).json() as { id: string }

  // Idempotency keys: one document for eight requests at once.
  const key = { 'idempotency-key': randomUUID() }
  const body = formWith('sent eight times')
  const repeated = await Promise.all(
    Array.from({ length: 8 }, async () => (await call('POST', '/api/documents/upload', { body, headers: key })).json()),
  )
  expect(new Set(repeated.map(({ id }) => id)).size).toBe(1)
  const { id } = await upload()

  // Limits by user, by link and by address and name.
  const comment = () => call('POST', `/api/comments/documents/${id}/comments`, { body: { content: 'a comment' } })
  expect(await countOf(201, Array.from({ length: 14 }, comment))).toBe(limits.comments)
  const link = (await call('POST', '/api/shared-links', { body: { document_id: id, max_views: limits.views } })).json()
  const visit = () => call('POST', `/api/public/shared/${link.token}/download`, { body: {}, token: '' })
  expect(await countOf(200, Array.from({ length: 10 }, visit))).toBe(limits.views)
  const login = () => call('POST', '/api/auth/login', { body: { username: 'bob', password: 'a wrong one' }, token: '' })
  expect(await countOf(401, Array.from({ length: 16 }, login))).toBe(limits.failures)
  const adaToken = await tokenFor(app, ada)
  const passed = await countOf(
    200,
    Array.from({ length: 60 }, () => call('GET', '/api/documents', { token: adaToken })),
  )
  // Each server takes calls in shares of a twentieth of the limit, and may keep one.
  expect([passed <= limits.calls, passed >= limits.calls - 2 * (limits.calls / 20)]).toEqual([true, true])

  // Events: equal and in order on both servers, and none is missing after a reconnection to the other.
  const open = (server: number) => openWebSocket(`${servers[server]?.url.replace('http', 'ws')}/ws`)
  const sockets = [await open(0), await open(1)]
  for (const socket of sockets) await socket.join(admin.token, ['document_created'])
  const ids: string[] = []
  for (let number = 0; number < 6; number++) ids.push((await upload()).id)
  const [first, second] = sockets
  await Promise.all(sockets.map((socket) => socket.next(({ document_id }) => document_id === ids[2])))
  const { seq } = await first!.next(({ document_id }) => document_id === ids[3])
  await first!.close()
  ids.push((await upload()).id)
  const resumed = await open(1)
  await resumed.join(admin.token, ['document_created'], seq)
  const missed = [await resumed.next('document_created'), await resumed.next('document_created'), await resumed.next('document_created')]
  expect(missed.map(({ document_id }) => document_id)).toEqual(ids.slice(4))
  const live = []
  for (let number = 3; number < ids.length; number++) live.push(await second!.next('document_created'))
  expect(live.map(({ document_id }) => document_id)).toEqual(ids.slice(3))
  expect(live.slice(1).map((event) => event.seq)).toEqual(missed.map((event) => event.seq))

  // A session that ends at one server ends at the other, with its WebSockets.
  const ending = await Promise.all([open(0), open(1)])
  for (const socket of ending) await socket.join(adaToken, ['document_created'])
  await call('PUT', `/api/users/${ada.id}`, { body: { disabled: true } })
  for (const socket of ending) expect((await socket.closed).code).toBe(4401)
  expect(
    await countOf(
      401,
      [0, 1, 2, 3].map(() => call('GET', '/api/documents', { token: adaToken })),
    ),
  ).toBe(4)
  await Promise.all([second!.close(), resumed.close()])
})

test('three workers that start at once run each task of the schedule once, and each job once', async () => {
  const dms = await startApp({ 'sources.local_roots': '/' })
  const { app, asAdmin } = dms
  const folder = await mkdtemp(join(tmpdir(), 'dms-fleet-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (let number = 0; number < 20; number++) await writeFile(join(folder, `${number}.txt`), `text ${number}`)
  const { id } = await asAdmin.sources.create({ name: 'here', type: 'local_folder', url: folder, sync_interval: 3600 })
  const workers = [1, 2, 3].map(() =>
    startProcess(dms, ['worker'], { DMS_LOG_LEVEL: 'info', DMS_SOURCES_LOCAL_ROOTS: '/', DMS_WORKER_CONCURRENCY: '2' }),
  )
  const completed = async () => (await app.db.selectFrom('documents').select('id').where('status', '=', 'completed').execute()).length
  await expect.poll(completed, { timeout: 30_000 }).toBe(20)
  const isMaintained = () => workers.some(({ said }) => said.some((line) => line.includes('maintenance done')))
  await expect.poll(isMaintained, { timeout: 30_000 }).toBe(true)
  for (const { child } of workers) child.kill('SIGTERM')
  for (const { child } of workers) if (child.exitCode === null) await once(child, 'exit')
  expect(workers.map(({ child }) => child.exitCode)).toEqual([0, 0, 0])
  const said = workers.flatMap((worker) => worker.said).map((line) => JSON.parse(line) as Record<string, unknown>)
  expect(said.filter(({ msg }) => msg === 'maintenance done')).toHaveLength(1)
  expect(await app.db.selectFrom('source_syncs').select('id').where('source_id', '=', id).execute()).toHaveLength(1)
  const done = said.filter(({ msg, kind }) => msg === 'job done' && (kind === 'ocr' || kind === 'extract'))
  expect(new Set(done.map(({ document_id }) => document_id)).size).toBe(20)
  expect(done).toHaveLength(20)
})

test('a sign-in by OIDC that begins at one server ends at the other, and its code is exchanged once', async () => {
  const provider = await startProvider([{ sub: 'zoe', preferred_username: 'zoe', email: 'zoe@example.com', email_verified: true }])
  const { app } = await startApp({ ...provider.settings, 'auth.jwt_secret': environment.JWT_SECRET })
  const other = await openApp(app.config, app.log, { migrate: 'never' })
  onTestFinished(() => other.close())
  const [first, second] = [buildServer(app), buildServer(other)]
  const verifier = randomBytes(32).toString('base64url')
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  const browser = openBrowser(async (request) => (request.url.includes('/callback') ? second : first).request(request))
  const { url } = await browser.go(`/api/auth/oidc/login?shell_port=4711&shell_challenge=${challenge}`, ({ port }) => port === '4711')
  const body = JSON.stringify({ code: url.searchParams.get('code'), verifier })
  const exchange = (server: typeof first) =>
    server.request('/api/auth/oidc/exchange', { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  const answers = await Promise.all([exchange(first), exchange(second), exchange(first), exchange(second)])
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401])
})

test('78: a server with another JWT secret does not start beside one that runs, and starts alone', async () => {
  const dms = await startApp({ 'auth.jwt_secret': environment.JWT_SECRET })
  const server = await startServe(dms, environment)
  const other = { JWT_SECRET: 'another secret, of a machine with its own data folder' }
  const refused = startProcess(dms, ['serve', '--port', '0'], other)
  expect(await once(refused.child, 'exit')).toEqual([78, null])
  expect(refused.said.join('\n')).toMatch(/auth\.jwt_secret differs .* JWT_SECRET/)
  expect((await fetch(new URL('/readyz', server.url))).ok).toBe(true)
  expect((await sql`select from servers`.execute(dms.app.db)).rows).toHaveLength(1)
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')
  const alone = await startServe(dms, other)
  expect((await fetch(new URL('/readyz', alone.url))).ok).toBe(true)
})
