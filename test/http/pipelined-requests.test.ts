/** Requests that are sent before the earlier ones of their connection are answered. */
import { connect, type Socket } from 'node:net'
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startApp } from '../support/app.ts'
import { startServe } from '../support/processes/service.ts'
import { startServer } from '../support/servers/server.ts'

vi.setConfig({ testTimeout: 120_000 })

const request = (line: string, headers: Record<string, string> = {}, body = ''): string => {
  const fields = Object.entries({ host: 'a', ...headers, ...(body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }) })
  return `${line} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`
}

/** Returns a JSON body for each answer in the bytes of a connection. */
const bodiesOf = (answers: string): unknown[] =>
  answers
    .split(/HTTP\/1\.1 \d{3} /)
    .slice(1)
    .map((answer) => JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))))

test('requests of a connection are handled one after another: each sees the effects of those before it', async () => {
  const { say, token } = await startServer()
  const signed = { authorization: `Bearer ${token}` }
  const names = Array.from({ length: 40 }, (_, index) => `label${index}`)
  const pairs = names.map((name) => {
    const body = JSON.stringify({ name, color: '#112233' })
    return request('POST /api/labels', { ...signed, 'content-type': 'application/json' }, body) + request('GET /api/labels', signed)
  })
  const bodies = bodiesOf(await say(pairs.join('') + request('GET /api/health', { connection: 'close' })))
  expect(bodies).toHaveLength(81)
  const lists = bodies.filter((_, index) => index % 2 === 1) as { labels: unknown[] }[]
  expect(lists.map(({ labels }) => labels.length)).toEqual(names.map((_, index) => index + 1))
  expect(bodies.at(-1)).toEqual({ status: 'ok' })
})

test('no request is handled behind one that closes the connection, is malformed, or whose client has left', async () => {
  const { app, dial, say, token, asAda } = await startServer()
  const create = (name: string, headers: Record<string, string> = {}) =>
    request(
      'POST /api/labels',
      { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      JSON.stringify({ name, color: '#112233' }),
    )
  const namesOf = async () =>
    ((await (await asAda.send('GET', '/api/labels')).json()) as { labels: { name: string }[] }).labels.map(({ name }) => name)
  expect(bodiesOf(await say(create('last', { connection: 'close' }) + create('behind')))).toMatchObject([{ name: 'last' }])
  expect(bodiesOf(await say(`${create('before')}no request\r\n\r\n`))).toMatchObject([
    { name: 'before' },
    { error: { code: 'VALIDATION_ERROR' } },
  ])
  const socket = await dial()
  await app.db.transaction().execute(async (trx) => {
    await sql`lock table labels in share row exclusive mode`.execute(trx)
    socket.write(create('waiting') + create('abandoned'))
    await expect
      .poll(async () => (await sql`select from pg_locks where not granted and relation = 'labels'::regclass`.execute(app.db)).rows.length, {
        timeout: 20_000,
      })
      .toBe(1)
    socket.destroy()
  })
  await expect.poll(namesOf, { timeout: 20_000 }).toContain('waiting')
  expect((await namesOf()).toSorted()).toEqual(['before', 'last', 'waiting'])
})

test('a connection whose waiting requests have more than 256 kB is closed before it has sent them all', async () => {
  const { app, dial } = await startServer()
  const socket = await dial()
  socket.on('error', () => {})
  await app.db.transaction().execute(async (trx) => {
    await sql`lock table instance in access exclusive mode`.execute(trx)
    const body = JSON.stringify({ username: 'a', password: 'x'.repeat(60_000) })
    const login = request('POST /api/auth/login', { 'content-type': 'application/json' }, body)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(request('GET /readyz') + login.repeat(500))
    await closed
  })
})

test('a connection with thousands of requests in a row is closed; they occupy little memory and delay nobody', async () => {
  const dms = await startApp()
  const { url, said } = await startServe(dms, { NODE_OPTIONS: '--max-old-space-size=200' })
  const many = request('GET /readyz').repeat(20_000)
  const sockets: Socket[] = []
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  await dms.app.db.transaction().execute(async (trx) => {
    // Without an answer of the database, /readyz takes 3 s.
    await sql`lock table instance in access exclusive mode`.execute(trx)
    const closed = Array.from({ length: 10 }, () => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
      sockets.push(socket)
      socket.write(many)
      return new Promise((resolve) => socket.once('close', resolve))
    })
    const answer = await fetch(new URL('/livez', url), { headers: { connection: 'close' } })
    expect(answer.status).toBe(200)
    await Promise.all(closed)
  })
  expect(said).toEqual([expect.stringContaining('listening on')])
})
