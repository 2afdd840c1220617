import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Events, publish } from '../../../src/events.ts'
import { startLive } from '../../support/processes/live.ts'
import { bareEnvironment, executable } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { tokenFor } from '../../support/servers/server.ts'
import { createShellUser } from '../../support/shell-user.ts'

const other = '0198a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b'

async function start(settings: Parameters<typeof startLive>[0] = {}) {
  const live = await startLive(settings, { servers: 1 })
  const proxy = await startProxy(Number(new URL(live.urls[0]!).port))
  const env = { DMS_URL: proxy.url, DMS_TOKEN: await tokenFor(live.app, live.ada) }
  const tell = (data: Partial<Events['ocr_progress']>, user = live.ada) =>
    live.app.db
      .transaction()
      .execute((trx) => publish(trx, 'ocr_progress', user.id, { document_id: 'd', progress: 0, status: 'processing', ...data }))
  return { ...live, proxy, env, tell }
}

/** Starts a proxy that counts the subscriptions of its clients, and can cut its connections. */
async function startProxy(port: number) {
  const sockets = new Set<Socket>()
  let isOpen = true
  let subscriptions = 0
  const proxy = createServer((from) => {
    if (!isOpen) return void from.destroy()
    const to = connect(port, '127.0.0.1')
    for (const socket of [from, to]) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    }
    to.on('data', (bytes) => {
      if (bytes.includes('{"type":"subscribed"')) subscriptions++
    })
    from.pipe(to).pipe(from)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const set = (state: boolean) => {
    isOpen = state
    if (!state) for (const socket of sockets) socket.destroy()
  }
  onTestFinished(() => {
    set(false)
    proxy.close()
  })
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    set,
    /** Waits until the server has answered `count` subscriptions. Earlier events would be lost. */
    subscribed: (count: number) => vi.waitUntil(() => subscriptions >= count, { timeout: 60_000 }),
  }
}

/** Runs `dms events tail` and collects its lines. */
function tail(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [executable, 'events', 'tail', ...args], { env: bareEnvironment(env) })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines: string[] = []
  let stderr = ''
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
    child.emit('line')
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = once(child, 'close').then(([code]: (number | null)[]) => ({ code, stderr }))
  return {
    child,
    lines,
    ended,
    /** Returns the events once there are `count`. */
    events: async (count: number): Promise<Record<string, unknown>[]> => {
      while (lines.length < count)
        await Promise.race([once(child, 'line'), ended.then(() => Promise.reject(new Error(`it ended: ${stderr}`)))])
      return lines.map((line) => JSON.parse(line))
    },
  }
}

test('prints each event at once as JSON with received_at; 0 after SIGINT, 130 with --until, 143 after SIGTERM', async () => {
  const { env, proxy, tell, bob } = await start()
  const [one, two, three] = [tail([], env), tail(['--document', other], env), tail(['--until', 'document_created'], env)]
  await proxy.subscribed(3)
  await tell({ progress: 50 })
  await tell({}, bob)
  await tell({ document_id: other })
  expect(await one.events(2)).toEqual([
    expect.objectContaining({
      type: 'ocr_progress',
      document_id: 'd',
      progress: 50,
      data: expect.objectContaining({ progress: 50 }),
      received_at: expect.any(String),
    }),
    expect.objectContaining({ document_id: other }),
  ])
  expect(await two.events(1)).toMatchObject([{ document_id: other }])
  one.child.kill('SIGINT')
  two.child.kill('SIGTERM')
  three.child.kill('SIGINT')
  expect(await three.ended).toMatchObject({ code: 130, stderr: expect.not.stringContaining('error') })
  expect(await one.ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining('error') })
  expect(await two.ended).toMatchObject({ code: 143, stderr: expect.not.stringContaining('error') })
})

test('exits 0 after --until and --count, 8 if --timeout comes first; --replay starts with past events', async () => {
  const { env, tell } = await start()
  await tell({ progress: 1 })
  await tell({ status: 'failed' })
  await tell({ status: 'completed', progress: 100 })
  const count = (stdout: string) => stdout.split('\n').length - 1
  const until = await runHere(['events', 'tail', '--replay', '--until', 'ocr_progress:status=failed', '--timeout', '20s'], { env })
  expect([until.code, count(until.stdout)]).toEqual([0, 2])
  const one = await runHere(['events', 'tail', '--replay', '--count', '1', '--timeout', '20s'], { env })
  expect([one.code, count(one.stdout)]).toEqual([0, 1])
  const selected = await runHere(['events', 'tail', '--replay', '--count', '1', '--timeout', '20s', '--fields', 'type'], { env })
  expect([selected.code, Object.keys(JSON.parse(selected.stdout))]).toEqual([0, ['type']])
  expect(await runHere(['events', 'tail', '--until', 'document_created', '--timeout', '1s'], { env })).toMatchObject({
    code: 8,
    stdout: '',
  })
  expect(await runHere(['events', 'tail', '--timeout', '1s'], { env })).toMatchObject({ code: 0, stdout: '' })
})

test('2 for an unknown event or --until, 4 for an invalid token, 75 for too many connections', async () => {
  const { env, proxy } = await start({ 'limits.ws_connections_per_user': 1 })
  expect((await runHere(['events', 'tail', '--event', 'nothing'], { env })).code).toBe(2)
  expect((await runHere(['events', 'tail', '--until', 'a:b'], { env })).code).toBe(2)
  const never = ['--event', 'ocr_progress', '--until', 'document_created']
  expect(await runHere(['events', 'tail', ...never], { env })).toMatchObject({ code: 2, stderr: expect.stringContaining('never matches') })
  expect((await runHere(['events', 'tail', '--source', 'none'], { env })).code).toBe(6)
  expect((await runHere(['events', 'tail', '--count', '0'], { env })).code).toBe(2)
  expect((await runHere(['events', 'tail'], { env: { ...env, DMS_TOKEN: 'x' } })).code).toBe(4)
  const first = tail([], env)
  await proxy.subscribed(1)
  expect(await runHere(['events', 'tail'], { env })).toMatchObject({
    code: 75,
    stderr: expect.stringContaining('1 connections are open already'),
  })
  first.child.kill('SIGINT')
})

test('reconnects without missing events, also before the first event, and without events from before the start', async () => {
  const { env, proxy, tell } = await start()
  await tell({ progress: 1 })
  const { events, child, ended } = tail([], env)
  const withoutReconnect = tail(['--no-reconnect'], env)
  await proxy.subscribed(2)
  proxy.set(false)
  expect(await withoutReconnect.ended).toMatchObject({ code: 69, stderr: expect.stringContaining('connection lost: ') })
  await tell({ progress: 2 })
  proxy.set(true)
  expect((await events(1)).map(({ progress }) => progress)).toEqual([2])
  proxy.set(false)
  await tell({ progress: 3 })
  proxy.set(true)
  expect((await events(2)).map(({ progress }) => progress)).toEqual([2, 3])
  child.kill('SIGINT')
  expect((await ended).code).toBe(0)
})

test('renews a session that expires while listening', async () => {
  const { app, proxy, tell, asAdmin } = await start()
  const { id } = await asAdmin.users.create({ username: 'eve', email: 'eve@example.org', password: 'quite a long password', role: 'admin' })
  const { dms, env, file } = await createShellUser()
  await dms([
    'login',
    proxy.url,
    '--username',
    'eve',
    '--password-file',
    await file('pw', 'quite a long password'),
    '--save-password-source',
  ])
  const { events, child, ended } = tail([], env)
  await proxy.subscribed(1)
  await app.db.updateTable('users').set({ token_version: 9 }).where('id', '=', id).execute()
  await app.db.transaction().execute((trx) => publish(trx, 'ocr_progress', id, { document_id: 'd', progress: 0, status: 'processing' }))
  await tell({ progress: 1 })
  const { progress } = (await events(2)).at(-1) ?? {}
  expect(progress).toBe(1)
  child.kill('SIGINT')
  expect((await ended).code).toBe(0)
})

test('local: needs no running server; events of --as, with an audit entry, else of an admin', async () => {
  const { app, dataDir, databaseUrl, tell, stop } = await start()
  await stop(0)
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, TMPDIR: dataDir }
  await tell({ progress: 7 })
  expect((await runHere(['events', 'tail', '--replay', '--count', '1', '--timeout', '20s'], { env })).stdout).toContain('"progress":7')
  expect((await runHere(['events', 'tail', '--replay', '--count', '1', '--timeout', '2s', '--as', 'bob'], { env })).code).toBe(8)
  expect(await app.db.selectFrom('servers').selectAll().execute()).toEqual([])
  const entries = await app.db.selectFrom('audit_entries').select(['actor', 'action', 'details']).execute()
  expect(entries).toEqual([{ actor: 'operator', action: 'dms --as', details: '{"username":"bob"}' }])
})
