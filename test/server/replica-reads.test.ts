import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { openLog } from '../../src/log/log.ts'
import { openApp } from '../../src/open-app.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { listen } from '../../src/server/listen.ts'
import { openReplicaReads, type ReplicaReads } from '../../src/server/replica-reads.ts'
import { openWebSockets } from '../../src/server/websocket/websocket.ts'
import { startApp, upload } from '../support/app.ts'
import { openWebSocket } from '../support/processes/live.ts'
import { runHere } from '../support/processes/run-here.ts'
import { openPair } from '../support/servers/postgres-pair.ts'
import { tokenFor } from '../support/servers/server.ts'

test('a write that works while its answer is sent is noted until its end', async () => {
  const { app: primary, ada, asAda, later } = await startApp({ 'database.max_lag': '1s' })
  const { id } = await upload(asAda, 'a.txt', 'hello')
  expect((await asAda.send('DELETE', `/api/documents/${id}`)).status).toBe(204)
  const { db, reads, database, search } = primary
  const app = { ...primary, replicas: [{ db, reads, database, search, host: '' }] }
  const replica = openReplicaReads(app)!
  onTestFinished(() => replica.close())
  const authorization = `Bearer ${await tokenFor(app, ada)}`
  const answer = await buildServer(app, { replica }).request('/api/trash', { method: 'DELETE', headers: { authorization } })
  const noted = async () =>
    (await sql<{ at: Date }>`select starts_at as at from call_windows where key = ${`write:${ada.id}`}`.execute(db)).rows[0]!.at.getTime()
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader()
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(' ')
  const first = await noted()
  await later(60_000)
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe('{"purged":1,"retained":0}')
  expect(await noted()).toBeGreaterThan(first + 50_000)
})

const countOf = (replica: ReplicaReads, database: string) =>
  replica
    .families()
    .find(({ name }) => name === 'dms_replica_reads_total')!
    .samples.find(({ labels }) => labels?.database === database)!.value

test('reads go to the replica, except after a write of their user, or while it is behind, promoted or unreachable', async () => {
  const { primary, standby, url } = await openPair()
  const dataDir = mkdtempSync(join(tmpdir(), 'dms-replica-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const { config } = loadConfig({
    env: {},
    flags: {
      data_dir: dataDir,
      'database.url': url(primary),
      // The first host is no standby.
      'database.read_url': url(primary, standby),
      'database.max_lag': '500ms',
      'server.port': 0,
      'log.access': false,
      'storage.min_free': 0,
      'ocr.enabled': false,
    },
  })
  const startServer = async () => {
    const app = await openApp(config, openLog({ level: 'error', format: 'json' }), { migrate: 'never', creates: true })
    const replica = openReplicaReads(app)!
    onTestFinished(async () => {
      replica.close()
      await app.close()
    })
    return { app, replica, h3: buildServer(app, { replica }) }
  }
  const [one, two] = [await startServer(), await startServer()]
  const openSession = async (username: string, role: 'admin' | 'user') => {
    const fields = { username, username_key: username, email: `${username}@example.org`, email_key: `${username}@example.org`, role }
    const user = await one.app.db.insertInto('users').values(fields).returningAll().executeTakeFirstOrThrow()
    const authorization = `Bearer ${await tokenFor(one.app, user)}`
    const call = async (server: typeof one, path: string, init: RequestInit = {}) =>
      server.h3.request(path, { ...init, headers: { authorization, ...(init.headers as Record<string, string>) } })
    return { user, call }
  }
  const ada = await openSession('ada', 'user')
  const root = await openSession('root', 'admin')
  const eve = await openSession('eve', 'admin')
  const upload = async (text: string): Promise<string> => {
    const body = new FormData()
    body.append('file', new Blob([text], { type: 'text/plain' }), 'a.txt')
    const answer = await ada.call(one, '/api/documents/upload', { method: 'POST', body })
    return `/api/documents/${((await answer.json()) as { document: { id: string } }).document.id}`
  }
  const path = await upload('some text')
  const readsReplica = async (session: typeof ada, server: typeof one, read: string, init?: RequestInit): Promise<boolean> => {
    const before = countOf(server.replica, 'replica')
    expect((await session.call(server, read, init)).status).toBe(200)
    return countOf(server.replica, 'replica') > before
  }
  const untilReplica = (session: typeof ada, server: typeof one, read: string, init?: RequestInit) =>
    expect.poll(() => readsReplica(session, server, read, init)).toBe(true)
  const rename = (title: string) =>
    ada.call(one, path, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ title }) })
  const titleFor = async (session: typeof ada, server: typeof one) =>
    ((await (await session.call(server, path)).json()) as { title: string }).title

  // Nothing writes: an idle primary is no lag.
  const advanced = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
  for (const read of [
    '/api/documents',
    '/api/documents?sort=title&facets=years',
    path,
    `${path}/pages`,
    `${path}/text`,
    `${path}/versions`,
  ])
    await untilReplica(ada, two, read)
  for (const read of ['/api/search?q=text', '/api/search/suggest?q=te', `${path}/similar`]) await untilReplica(ada, two, read)
  await untilReplica(ada, two, '/api/search/advanced', advanced)
  expect(await readsReplica(ada, two, `${path}/download`)).toBe(false)

  const doctor = async () => {
    const env = { DATABASE_URL: url(primary), DATABASE_READ_URL: url(standby), DMS_DATA_DIR: dataDir }
    const { stdout } = await runHere(['doctor', '--only', 'replica', '--json'], { env })
    return JSON.parse(stdout).checks[0] as { status: string; message: string }
  }
  expect(await doctor()).toMatchObject({ status: 'ok' })

  const listening = await listen(two.h3, two.app.config)
  const live = await openWebSockets(two.app, listening.server, { replica: two.replica })
  onTestFinished(async () => void (await Promise.all([listening.close(0), live.close()])))
  const socket = await openWebSocket(`${listening.url.replace('http', 'ws')}/ws`)
  await socket.join(await tokenFor(two.app, root.user), ['document_updated'])
  await untilReplica(root, two, path)
  await standby.query('select pg_wal_replay_pause()')
  // Read at another server than it was written at, and by another user as soon as the replica is too far behind.
  expect((await rename('new')).status).toBe(200)
  expect(await titleFor(ada, two)).toBe('new')
  await socket.next('document_updated')
  expect(await titleFor(root, two)).toBe('new')
  await expect.poll(() => titleFor(eve, two)).toBe('new')
  expect(await readsReplica(eve, two, path)).toBe(false)
  expect(await doctor()).toMatchObject({ status: 'warn', message: expect.stringContaining('bytes behind') })
  expect((await root.call(two, await upload('other text'))).status).toBe(200)
  await one.app.db.updateTable('users').set({ disabled: true }).where('id', '=', ada.user.id).execute()
  expect((await ada.call(two, path)).status).toBe(401)

  await standby.query('select pg_wal_replay_resume()')
  await untilReplica(root, two, path)
  // Otherwise commits would wait for it.
  await primary.query('alter system reset synchronous_standby_names')
  await primary.query('select pg_reload_conf()')
  await standby.query('select pg_promote()')
  await expect.poll(() => readsReplica(root, two, path)).toBe(false)
  await standby.kill()
  expect((await root.call(two, path)).status).toBe(200)
})
