/** /ws, mostly on two servers with one database: events of one reach clients of the other. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { operator } from '../../src/actor.ts'
import type { App } from '../../src/app.ts'
import { publish, truncateExpiredEvents } from '../../src/events.ts'
import { deleteUser } from '../../src/users/user-deletion.ts'
import * as users from '../../src/users/users.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { upload } from '../support/app.ts'
import { fakeReader } from '../support/fake-reader.ts'
import { frame, type LiveSocket, type Message, openRaw, startLive } from '../support/processes/live.ts'
import { tokenFor } from '../support/servers/server.ts'

const allTypes = [
  'document_created',
  'document_updated',
  'document_trashed',
  'document_restored',
  'document_purged',
  'version_added',
  'rendition_updated',
  'notifications',
  'ocr_progress',
  'queue_status',
  'sync_progress',
]

/** An event of a document of this user, which need not exist. */
const send = (app: App, userId: string, title: string): Promise<void> =>
  app.db.transaction().execute((trx) => publish(trx, 'document_created', userId, { document_id: randomUUID(), title, source: null }))

/** Returns the messages of a socket up to an event that is sent last. */
async function heardUntilNow(app: App, userId: string, socket: LiveSocket): Promise<Message[]> {
  const sign = randomUUID()
  await send(app, userId, sign)
  await expect.poll(() => socket.messages.some(({ title }) => title === sign)).toBe(true)
  return socket.messages.splice(0).filter(({ title }) => title !== sign)
}

describe('signing in', () => {
  test('auth and subscribe may be sent together; the first events are new ones', async () => {
    const dms = await startLive({}, { servers: 1 })
    const socket = await dms.open()
    socket.say({ type: 'auth', token: await tokenFor(dms.app, dms.ada) })
    socket.say({ type: 'subscribe', events: ['ocr_progress', 'notifications'] })
    socket.say({ type: 'subscribe', events: ['notification', 'queue_status'] })
    socket.say({ type: 'unsubscribe', events: ['ocr_progress'] })
    await socket.next('subscribed')
    expect(await socket.next('subscribed')).toEqual({
      type: 'subscribed',
      events: ['ocr_progress', 'notifications', 'queue_status'],
      seq: expect.any(Number),
    })
    expect(await socket.next('subscribed')).toEqual({
      type: 'subscribed',
      events: ['notifications', 'queue_status'],
      seq: expect.any(Number),
    })
  })

  test('4401 for an invalid token, for messages before auth, and for silence', async () => {
    const dms = await startLive({}, { servers: 1, authTimeoutMs: 1500 })
    const [bad, early, silent] = [await dms.open(), await dms.open(), await dms.open()]
    bad.say({ type: 'auth', token: `${await tokenFor(dms.app, dms.ada)}x` })
    early.say({ type: 'subscribe', events: ['ocr_progress'] })
    silent.say('{')
    for (const socket of [bad, early]) {
      expect(await socket.next('error')).toMatchObject({ code: 'UNAUTHORIZED', message: expect.any(String) })
      expect((await socket.closed).code).toBe(4401)
    }
    expect(await silent.next('error')).toMatchObject({ code: 'VALIDATION_ERROR' })
    expect(await silent.next('error')).toMatchObject({ code: 'UNAUTHORIZED' })
    expect((await silent.closed).code).toBe(4401)
  })

  test('a connection stays with its user: a new token of the user extends it, one of another is FORBIDDEN', async () => {
    const dms = await startLive({}, { servers: 1 })
    const socket = await dms.joined(dms.ada, ['document_created'])
    socket.say({ type: 'auth', token: await tokenFor(dms.app, dms.bob) })
    expect(await socket.next('error')).toMatchObject({ code: 'FORBIDDEN' })
    expect(await socket.join(await tokenFor(dms.app, dms.ada))).toEqual({ type: 'auth_success', user_id: dms.ada.id })
    await send(dms.app, dms.bob.id, 'not for ada')
    expect(await heardUntilNow(dms.app, dms.ada.id, socket)).toEqual([])
    expect(await dms.app.db.selectFrom('live_places').select('user_id').execute()).toEqual([{ user_id: dms.ada.id }])
  })

  test('403 for pages of other origins, 429 for too many connections without auth, and no WebSocket on other paths', async () => {
    const dms = await startLive({ 'server.cors_origins': 'https://app.example.org' }, { servers: 1 })
    const url = new URL(dms.urls[0] ?? '')
    const statusOf = async (path: string, headers: Record<string, string>) => {
      const upgrade = {
        connection: 'upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
      }
      const asked = request({ host: url.hostname, port: url.port, path, headers: { ...upgrade, ...headers } }).end()
      const { promise, resolve } = Promise.withResolvers<number | undefined>()
      asked.on('upgrade', ({ statusCode }, socket) => {
        socket.destroy()
        resolve(statusCode)
      })
      asked.on('response', (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      return promise
    }
    for (const origin of ['https://evil.test', 'null', 'https://app.example.org.evil.test', `http://${url.host}.evil.test`])
      expect(await statusOf('/ws', { origin }), origin).toBe(403)
    for (const origin of ['https://app.example.org', `http://${url.host}`, `https://${url.host}`])
      expect(await statusOf('/ws', { origin }), origin).toBe(101)
    expect(await statusOf('/api/health', {})).toBe(200)
    expect(
      await statusOf('/api/health', {
        connection: 'upgrade, http2-settings',
        upgrade: 'h2c',
        'http2-settings': 'AAMAAABkAAQAoAAAAAIAAAAA',
      }),
    ).toBe(200)
    expect(await statusOf('/ws/', {})).toBe(404)

    const opened = await Promise.all(Array.from({ length: 100 }, () => dms.open()))
    expect(await statusOf('/ws', {})).toBe(429)
    await opened[0]?.join(await tokenFor(dms.app, dms.ada))
    expect(await statusOf('/ws', {})).toBe(101)
  })
})

describe('the opening handshake', () => {
  const handshake = {
    connection: 'upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  }
  const json = { type: 'application/json' }

  async function startAsking() {
    const dms = await startLive({}, { servers: 1 })
    const url = new URL(dms.urls[0] ?? '')
    const ask = async (headers: Record<string, string>, method = 'GET') => {
      const [response] = await once(request({ host: url.hostname, port: url.port, path: '/ws', method, headers }).end(), 'response')
      const body = await text(response)
      const { 'content-type': type, upgrade, allow, 'sec-websocket-version': version } = response.headers
      const code = type.startsWith(json.type) ? JSON.parse(body).error.code : body
      return { status: response.statusCode, code, type: type.split(';')[0], upgrade, allow, version }
    }
    return { url, ask }
  }

  test('400 VALIDATION_ERROR in JSON without a key, or with an invalid one', async () => {
    const { ask } = await startAsking()
    const { 'sec-websocket-key': _key, ...keyless } = handshake
    for (const headers of [keyless, { ...handshake, 'sec-websocket-key': 'short' }])
      expect(await ask(headers)).toMatchObject({ status: 400, code: 'VALIDATION_ERROR', ...json })
  })

  test('426 UPGRADE_REQUIRED without an upgrade or with another version, 405 for other methods, always in JSON', async () => {
    const { url, ask } = await startAsking()
    const { 'sec-websocket-version': _version, ...versionless } = handshake
    expect(await ask({})).toMatchObject({ status: 426, code: 'UPGRADE_REQUIRED', upgrade: 'websocket', ...json })
    expect(await ask({}, 'POST')).toMatchObject({ status: 426, code: 'UPGRADE_REQUIRED', ...json })
    expect(await ask({ ...handshake, upgrade: 'h2c' })).toMatchObject({ status: 426, code: 'UPGRADE_REQUIRED', ...json })
    for (const headers of [versionless, { ...handshake, 'sec-websocket-version': '8' }])
      expect(await ask(headers)).toMatchObject({ status: 426, code: 'UPGRADE_REQUIRED', upgrade: 'websocket', version: '13', ...json })
    expect(await ask(handshake, 'POST')).toMatchObject({ status: 405, code: 'METHOD_NOT_ALLOWED', allow: 'GET', ...json })
    const asked = request({
      host: url.hostname,
      port: url.port,
      path: '/ws',
      headers: { ...handshake, 'sec-websocket-protocol': ',' },
    }).end()
    const [{ statusCode }, socket] = await once(asked, 'upgrade')
    expect(statusCode).toBe(101)
    socket.destroy()
  })

  test('101 Switching Protocols after the answer to an earlier request on the connection', async () => {
    const { url } = await startAsking()
    const headers = Object.entries(handshake).map(([name, value]) => `${name}: ${value}\r\n`)
    const socket = connect(Number(url.port), url.hostname)
    socket.write(`GET /readyz HTTP/1.1\r\nhost: a\r\n\r\nGET /ws HTTP/1.1\r\nhost: a\r\n${headers.join('')}\r\n`)
    let received = ''
    socket.setEncoding('utf8').on('data', (chunk) => {
      received += chunk
    })
    const statuses = () => [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)
    await expect.poll(() => statuses().length).toBe(2)
    expect(statuses()[1]).toBe('101')
    socket.destroy()
  })
})

describe('messages', () => {
  test('VALIDATION_ERROR for malformed messages; the connection stays and nothing changes', async () => {
    const dms = await startLive({}, { servers: 1 })
    const socket = await dms.joined(dms.ada, ['document_created'])
    const malformed: unknown[] = [
      '',
      '{',
      'null',
      '[]',
      '7',
      '"auth"',
      {},
      { type: 'AUTH' },
      { type: 'auth' },
      { type: 'auth', token: 1 },
      { type: ['auth'] },
    ]
    const subscriptions = [
      {},
      { events: '*' },
      { events: ['nothing'] },
      { events: ['ocr_progress', 'nothing'] },
      { events: [1] },
      { events: Array(101).fill('ocr_progress') },
    ]
    const sinces = [-1, 1.5, '1', {}, 1e300].map((since) => ({ events: ['ocr_progress'], since }))
    for (const message of [...malformed, ...[...subscriptions, ...sinces].map((fields) => ({ type: 'subscribe', ...fields }))]) {
      socket.say(message)
      expect(await socket.next('error'), JSON.stringify(message)).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.any(String) })
    }
    socket.socket.send(Buffer.from('{"type":"subscribe","events":["ocr_progress"]}'))
    expect(await socket.next('error')).toMatchObject({ code: 'VALIDATION_ERROR' })
    socket.say({ type: 'subscribe', events: [] })
    expect(await socket.next('subscribed')).toEqual({ type: 'subscribed', events: ['document_created'], seq: expect.any(Number) })
  })

  test.each<[number, string, Buffer]>([
    [1009, 'a frame over 64 KB', frame(1, 'x'.repeat(65_537))],
    [
      1009,
      'fragments that are over 64 KB together',
      Buffer.concat([frame(1, 'x'.repeat(40_000), { isLast: false }), frame(0, 'x'.repeat(40_000))]),
    ],
    [1002, 'a frame without a mask', frame(1, '{}', { isMasked: false })],
    [1002, 'a reserved opcode', frame(3, '{}')],
    [1007, 'text that is not UTF-8', frame(1, Buffer.from([0xff, 0xfe]))],
    [1008, 'a flood of empty messages', Buffer.concat(Array(1000).fill(frame(1, '')))],
    [1008, 'a flood of pings', Buffer.concat(Array(1000).fill(frame(9, '')))],
    [1008, 'a flood of pongs', Buffer.concat(Array(1000).fill(frame(10, '')))],
    [
      1008,
      'a message in 65 fragments',
      Buffer.concat([frame(1, '{', { isLast: false }), ...Array(64).fill(frame(0, ' ', { isLast: false }))]),
    ],
  ])('closed with %i: %s', async (code, _what, bytes) => {
    const dms = await startLive({}, { servers: 1 })
    const socket = await openRaw(dms.urls[0] ?? '', ['sec-websocket-extensions: permessage-deflate'])
    const said: Buffer[] = []
    socket.on('data', (data) => said.push(Buffer.from(data)))
    await expect.poll(() => Buffer.concat(said).toString('latin1')).toContain('\r\n\r\n')
    expect(Buffer.concat(said).toString('latin1')).not.toMatch(/sec-websocket-extensions/i)
    socket.write(bytes)
    const close = Buffer.from([0x88, 0, code >> 8, code & 255])
    await expect
      .poll(() => {
        const all = Buffer.concat(said)
        return all.some((byte, at) => byte === close[0] && all[at + 2] === close[2] && all[at + 3] === close[3])
      })
      .toBe(true)
  })
})

describe('five connections per user', () => {
  test('4429 for further ones, of many at once on two servers; a closed connection makes room', async () => {
    const dms = await startLive()
    const token = await tokenFor(dms.app, dms.ada)
    const race = await Promise.all(
      Array.from({ length: 12 }, async (_, number) => {
        const socket = await dms.open(number % 2)
        return { socket, answer: await socket.join(token) }
      }),
    )
    const [good, refused] = [
      race.filter(({ answer }) => answer.type === 'auth_success'),
      race.filter(({ answer }) => answer.type === 'error'),
    ]
    expect([good.length, refused.length]).toEqual([5, 7])
    for (const { socket, answer } of refused) {
      expect(answer).toMatchObject({ code: 'RATE_LIMITED' })
      expect((await socket.closed).code).toBe(4429)
    }
    expect((await (await dms.open()).join(await tokenFor(dms.app, dms.bob))).type).toBe('auth_success')
    for (let round = 0; round < 3; round++) {
      await good[round]?.socket.close()
      expect((await (await dms.open(1)).join(token)).type).toBe('auth_success')
    }
    expect((await (await dms.open(1)).join(token)).type).toBe('error')
    expect(good.slice(3).map(({ socket }) => socket.socket.readyState)).toEqual([1, 1])
  })

  test('a silent server frees its connections; one that was declared dead by mistake takes them again as far as possible', async () => {
    const dms = await startLive()
    const token = await tokenFor(dms.app, dms.ada)
    const first = [await dms.joined(dms.ada, ['document_created']), await dms.joined(dms.ada), await dms.joined(dms.ada)]
    const age = (seconds: number) =>
      sql`update servers set seen_at = now() - ${seconds} * interval '1 second' where id in (select server_id from live_places)`.execute(
        dms.app.db,
      )
    for (const answer of ['auth_success', 'auth_success', 'error']) {
      // Before each: a slow machine needs more than the five seconds until the server counts as dead.
      await age(45)
      expect((await (await dms.open(1)).join(token)).type).toBe(answer)
    }
    await sql`delete from servers where id = (select server_id from live_places group by 1 order by count(*) desc limit 1)`.execute(
      dms.app.db,
    )
    for (let number = 0; number < 2; number++) expect((await (await dms.open(1)).join(token)).type).toBe('auth_success')

    // The first server sees that its row is gone as soon as it needs it: one of its three still fits.
    expect((await (await dms.open(0)).join(await tokenFor(dms.app, dms.bob))).type).toBe('auth_success')
    const closed = await Promise.race([Promise.all(first.slice(1).map((socket) => socket.closed)), sleep(30_000).then(() => [])])
    expect(closed.map(({ code }) => code)).toEqual([4429, 4429])
    const { total } = await dms.app.db
      .selectFrom('live_places')
      .where('user_id', '=', dms.ada.id)
      .select(sql<number>`count(*)`.as('total'))
      .executeTakeFirstOrThrow()
    expect(total).toBe(5)
  })

  test('no slot is lost to clients that connect and disconnect, cleanly or not', async () => {
    const dms = await startLive({}, { servers: 1 })
    const token = await tokenFor(dms.app, dms.ada)
    for (let round = 0; round < 12; round++) {
      const sockets = [await dms.open(), await openRaw(dms.urls[0] ?? ''), await openRaw(dms.urls[0] ?? '')] as const
      for (const socket of sockets.slice(1) as Socket[]) socket.write(frame(1, JSON.stringify({ type: 'auth', token })))
      expect((await sockets[0].join(token)).type).toBe('auth_success')
      sockets[1].destroy()
      sockets[2].resetAndDestroy()
      await sockets[0].close()
    }
    await expect.poll(() => dms.app.db.selectFrom('live_places').select('id').execute()).toEqual([])
  })

  test('a client that no longer answers pings loses its slot', async () => {
    const dms = await startLive({}, { servers: 1, heartbeatIntervalMs: 300 })
    const socket = await openRaw(dms.urls[0] ?? '')
    socket.write(frame(1, JSON.stringify({ type: 'auth', token: await tokenFor(dms.app, dms.ada) })))
    const places = async () => (await dms.app.db.selectFrom('live_places').select('id').execute()).length
    await expect.poll(places).toBe(1)
    const alive = await dms.joined(dms.bob)
    await expect.poll(places).toBe(1)
    expect(alive.socket.readyState).toBe(1)
  })
})

describe('the end of a session', () => {
  test.each<[string, (dms: Awaited<ReturnType<typeof startLive>>, token: string) => Promise<unknown>]>([
    [
      'logout',
      async ({ asAda, urls }, token) =>
        fetch(`${urls[1]?.replace('ws:', 'http:').replace('/ws', '/api/auth/logout')}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}` },
        }).then((answer) => expect([answer.status, asAda]).toEqual([200, asAda])),
    ],
    ['being disabled', ({ app, ada }) => users.update(app, ada.id, { disabled: true })],
    ['another password', ({ app, ada }) => users.update(app, ada.id, { password: 'another password' })],
    ['demotion', ({ app, ada }) => users.update(app, ada.id, { role: 'user' })],
    ['deletion', ({ app, ada }) => deleteUser(app, operator, ada.id, {})],
  ])('4401 soon on every server after %s', async (_what, act) => {
    const dms = await startLive()
    await dms.app.db.updateTable('users').set({ role: 'admin' }).where('id', '=', dms.ada.id).execute()
    const token = await tokenFor(dms.app, dms.ada)
    const [here, there, other] = [await dms.open(0), await dms.open(1), await dms.joined(dms.bob)]
    await here.join(token)
    await there.join(token)
    await act(dms, token)
    const start = performance.now()
    expect([(await here.closed).code, (await there.closed).code]).toEqual([4401, 4401])
    expect(performance.now() - start).toBeLessThan(5000)
    expect(other.socket.readyState).toBe(1)
    const again = await dms.open(1)
    if (_what !== 'demotion') expect(await again.join(token)).toMatchObject({ type: 'error', code: 'UNAUTHORIZED' })
  })

  test('4401 after the token has expired; a new one in time prevents it', async () => {
    const dms = await startLive({}, { servers: 1 })
    const [gone, kept, valid] = [await dms.open(), await dms.open(), await tokenFor(dms.app, dms.ada)]
    const iat = Math.floor(Date.now() / 1000)
    const short = await dms.app.tokens.sign({ sub: dms.ada.id, jti: randomUUID(), iat, exp: iat + 5, ver: 1 })
    await gone.join(short)
    await kept.join(short)
    await kept.join(valid)
    expect((await gone.closed).code).toBe(4401)
    await sleep(1200)
    expect(kept.socket.readyState).toBe(1)
  })

  test('a new admin gets events of all users from then on', async () => {
    const dms = await startLive({}, { servers: 1 })
    const bob = await dms.joined(dms.bob, ['document_created'])
    await send(dms.app, dms.ada.id, 'too early')
    expect(await heardUntilNow(dms.app, dms.bob.id, bob)).toEqual([])
    await users.update(dms.app, dms.bob.id, { role: 'admin' })
    await expect
      .poll(async () => {
        await send(dms.app, dms.ada.id, 'now')
        return bob.messages.map(({ title }) => title)
      })
      .toContain('now')
  })
})

describe('events', () => {
  test('every type has its fields flat and in data, with timestamp and seq, from every server', async () => {
    const dms = await startLive()
    const socket = await dms.joined(dms.ada, allTypes, { server: 1 })
    const id = randomUUID()
    await dms.app.db.transaction().execute(async (trx) => {
      await publish(trx, 'sync_progress', dms.ada.id, { source_id: id, processed: 1, total: 2, current_file: 'a.txt' })
      await publish(trx, 'notification', dms.ada.id, { id, type: 'sync_completed', title: 't', message: 'm', data: { source_id: id } })
    })
    const progress = await socket.next('sync_progress')
    const fields = { source_id: id, processed: 1, total: 2, current_file: 'a.txt' }
    expect(progress).toEqual({
      type: 'sync_progress',
      ...fields,
      data: fields,
      timestamp: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
      seq: expect.any(Number),
    })
    const notification = await socket.next('notification')
    expect(notification).toMatchObject({
      type: 'notification',
      id,
      title: 't',
      message: 'm',
      data: { id, type: 'sync_completed', title: 't' },
    })
    expect(notification.seq).toBeGreaterThan(progress.seq)
  })

  test('a document from upload to search, changed and cancelled: its owner and admins get events, other users none', async () => {
    const dms = await startLive({ 'ocr.enabled': true })
    const [ada, bob, root] = [
      await dms.joined(dms.ada, allTypes, { server: 1 }),
      await dms.joined(dms.bob, allTypes),
      await dms.joined(dms.admin, allTypes, { server: 1 }),
    ]
    const { id } = await upload(dms.asAda, 'a.txt', 'some words', { ocr_enabled: false })
    expect(await ada.next('document_created')).toMatchObject({ document_id: id, title: 'a', source: null })
    await dms.runJobs()
    expect(await ada.next('ocr_progress')).toMatchObject({ document_id: id, progress: 0, status: 'processing' })
    expect(await ada.next(({ progress }) => progress === 100)).toMatchObject({ type: 'ocr_progress', document_id: id, status: 'completed' })
    expect(await ada.next('document_updated')).toMatchObject({ document_id: id, changes: ['content', 'status'] })
    await dms.asAda.call('PUT', `/api/documents/${id}`, { title: 'b' })
    expect(await ada.next('document_updated')).toMatchObject({ document_id: id, changes: ['title'] })
    const label = await dms.asAda.call<{ id: string }>('POST', '/api/labels', { name: 'red', color: '#ff0000' })
    await dms.asAda.call('POST', `/api/labels/${label.id}/assign`, { document_ids: [id] })
    expect(await ada.next('document_updated')).toMatchObject({ document_id: id, changes: ['labels'] })
    await dms.asAda.call('PUT', `/api/labels/${label.id}`, { name: 'blue' })
    expect(await ada.next('document_updated')).toMatchObject({ document_id: id, changes: ['labels'] })
    await dms.asAda.call('DELETE', `/api/labels/${label.id}`)
    expect(await ada.next('document_updated')).toMatchObject({ document_id: id, changes: ['labels'] })

    const job = await dms.asAda.call<{ job_id: string }>('POST', `/api/documents/${id}/retry-ocr`, {})
    expect(await ada.next('ocr_progress')).toMatchObject({ document_id: id, progress: 0, status: 'pending' })
    expect(await ada.next('queue_status')).toMatchObject({ pending: 1, processing: 0, completed: 0 })
    await dms.asAda.call('DELETE', `/api/ocr/queue/${job.job_id}`)
    expect(await ada.next('ocr_progress')).toMatchObject({ document_id: id, status: 'failed' })
    expect(await ada.next('queue_status')).toMatchObject({ pending: 0, processing: 0, completed: 0 })

    const heardByAdmin = (await heardUntilNow(dms.app, dms.ada.id, root)).filter(({ document_id }) => document_id === id)
    expect(new Set(heardByAdmin.map(({ type }) => type))).toEqual(new Set(['document_created', 'document_updated', 'ocr_progress']))
    const heardByBob = JSON.stringify(await heardUntilNow(dms.app, dms.bob.id, bob))
    for (const secret of [id, label.id, job.job_id, dms.ada.id]) expect(heardByBob).not.toContain(secret)
    expect(heardByBob).toBe('[]')
  })

  test('document_purged of a deleted user reaches admins, at once and with `since`, and nobody else', async () => {
    const dms = await startLive({}, { servers: 1 })
    const root = await dms.joined(dms.admin, ['document_created', 'document_purged'])
    const ada = await dms.joined(dms.ada, ['document_created', 'document_purged'])
    const { id } = await upload(dms.asBob, 'a.txt', 'hello')
    const { seq } = await root.next('document_created')
    await dms.asAdmin.users.delete(dms.bob.id, { documents: 'delete' })
    expect(await root.next('document_purged')).toMatchObject({ document_id: id })
    const late = await dms.joined(dms.admin, ['document_purged'], { since: seq })
    expect(await late.next('document_purged')).toMatchObject({ document_id: id })
    expect(await heardUntilNow(dms.app, dms.ada.id, ada)).toEqual([])
  })

  test('ocr_progress at the start, for each page of every worker, and at the end; never backwards', async () => {
    const dms = await startLive({}, { servers: 1 })
    const socket = await dms.joined(dms.ada, ['ocr_progress', 'document_created'])
    const { id } = await upload(dms.asAda, 'a.pdf', '%PDF-1.4')
    const reader = fakeReader(8, () => sleep(50, undefined))
    const worker = await startWorker({ ...dms.app, reader }, { queues: ['ocr'], concurrency: 4 })
    await worker.idle()
    await worker.stop(10_000)
    const heard = (await heardUntilNow(dms.app, dms.ada.id, socket)).filter(({ type }) => type === 'ocr_progress')
    const told = heard.map(({ progress }) => Number(progress))
    expect(told).toEqual(told.toSorted((a, b) => a - b))
    expect([told[0], told.at(-2)]).toEqual([0, 99])
    // Two that end at the same moment may both tell of both.
    expect(told.length).toBeGreaterThanOrEqual(1 + 8 + 1)
    expect(new Set(told).size).toBeGreaterThan(4)
    expect(heard.at(-1)).toMatchObject({ document_id: id, progress: 100, status: 'completed' })
    expect(new Set(heard.slice(0, -1).map(({ status }) => status))).toEqual(new Set(['processing']))
  })

  test('notifications are sent to their user only, and queue counts are per user', async () => {
    const dms = await startLive()
    const [bob, root] = [
      await dms.joined(dms.bob, ['notifications', 'queue_status']),
      await dms.joined(dms.admin, ['notification', 'queue_status', 'document_created']),
    ]
    await dms.app.db
      .transaction()
      .execute((trx) =>
        publish(trx, 'notification', dms.ada.id, { id: randomUUID(), type: 'comment_added', title: '', message: '', data: {} }),
      )
    await upload(dms.asAda, 'a.txt', 'one')
    await upload(dms.asBob, 'b.txt', 'two')
    expect(await bob.next(({ type, pending }) => type === 'queue_status' && pending === 1)).toMatchObject({ processing: 0, completed: 0 })
    expect(await root.next(({ type, pending }) => type === 'queue_status' && pending === 2)).toMatchObject({ processing: 0, completed: 0 })
    const heard = await heardUntilNow(dms.app, dms.admin.id, root)
    expect([...bob.messages, ...heard].filter(({ type }) => type === 'notification')).toEqual([])
  })

  test('queue_status at most once per second, and the last one is current', async () => {
    const dms = await startLive()
    const sockets = [await dms.joined(dms.ada, ['queue_status']), await dms.joined(dms.ada, ['queue_status'], { server: 1 })]
    const start = performance.now()
    for (let number = 0; number < 15; number++) {
      await upload(dms.asAda, `${number}.txt`, `words ${number}`)
      await sleep(150)
    }
    const seconds = (performance.now() - start) / 1000
    await expect.poll(() => sockets.map(({ messages }) => messages.at(-1)?.pending)).toEqual([15, 15])
    const [times = [], others] = sockets.map(({ messages }) => messages.map(({ timestamp }) => Date.parse(timestamp)))
    expect(others).toEqual(times)
    expect(times.length).toBeGreaterThan(1)
    expect(times.length).toBeLessThanOrEqual(seconds + 2)
    for (const [at, time] of times.entries()) if (at > 0) expect(time - (times[at - 1] ?? 0)).toBeGreaterThanOrEqual(900)
  })

  test('since: missed events come first, each exactly once, while many are written concurrently and committed in any order', async () => {
    const dms = await startLive()
    const watcher = await dms.joined(dms.ada, ['document_created'])
    let isOver = false
    const writers = Array.from({ length: 6 }, async (_, writer) => {
      for (let number = 0; !isOver; number++) {
        await dms.app.db.transaction().execute(async (trx) => {
          await publish(trx, 'document_created', dms.ada.id, { document_id: randomUUID(), title: `${writer}:${number}`, source: null })
          await publish(trx, 'document_created', dms.bob.id, { document_id: randomUUID(), title: 'of bob', source: null })
          // Numbers are drawn already; now the others overtake.
          await sql`select pg_sleep(${Math.random() * 0.03})`.execute(trx)
        })
      }
    })
    const comers: LiveSocket[] = []
    for (let server = 0; server < 4; server++) {
      const before = watcher.messages.length
      await sleep(400)
      await expect.poll(() => watcher.messages.length).toBeGreaterThan(before + 25)
      const since = watcher.messages.at(-1)?.seq ?? 0
      comers.push(await dms.joined(dms.ada, ['document_created'], { server: (server + 1) % 2, since: Math.max(0, since - 40) }))
    }
    isOver = true
    await Promise.all(writers)
    const all = await heardUntilNow(dms.app, dms.ada.id, watcher)
    expect(all.length).toBeGreaterThan(100)
    const seqs = all.map(({ seq }) => seq)
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b))
    expect(all.filter(({ title }) => title === 'of bob')).toEqual([])
    for (const comer of comers) {
      await expect.poll(() => (comer.messages.at(-1)?.seq ?? 0) >= (seqs.at(-1) ?? 0)).toBe(true)
      const own = comer.messages.map(({ seq }) => seq).filter((seq) => seq <= (seqs.at(-1) ?? 0))
      expect(own).toEqual(seqs.slice(-own.length))
      expect(own.length).toBeGreaterThan(0)
    }
    await comers[0]?.close()
    const latest = await dms.joined(dms.ada, ['document_created'], { since: seqs.at(-2) ?? 0 })
    expect((await latest.next('document_created')).seq).toBe(seqs.at(-1))
  })

  test('since: also replays a subscribed type, once up to its subscription, and sends no event again that was sent live', async () => {
    const dms = await startLive({}, { servers: 1 })
    await send(dms.app, dms.ada.id, 'missed')
    const socket = await dms.joined(dms.ada, ['document_created'])
    await send(dms.app, dms.ada.id, 'live')
    expect(await socket.next('document_created')).toMatchObject({ title: 'live' })
    socket.say({ type: 'subscribe', events: ['document_created', 'document_updated'], since: 0 })
    expect(await socket.next('document_created')).toMatchObject({ title: 'missed' })
    await send(dms.app, dms.ada.id, 'later')
    expect(await socket.next('document_created')).toMatchObject({ title: 'later' })
  })

  test('events older than ten minutes are not sent, and their partition is truncated when all are older', async () => {
    const dms = await startLive({}, { servers: 1 })
    await send(dms.app, dms.ada.id, 'old')
    await sql`update events set at = now() - interval '10 minutes 1 second', slot = (slot + 1) % 3`.execute(dms.app.db)
    await send(dms.app, dms.ada.id, 'new')
    const socket = await dms.joined(dms.ada, ['document_created'], { since: 0 })
    expect(await socket.next('document_created')).toMatchObject({ title: 'new' })
    await truncateExpiredEvents(dms.app.db)
    const left = await dms.app.db.selectFrom('events').select(sql<string>`data ->> 'title'`.as('title')).execute()
    expect(left).toEqual([{ title: 'new' }])
  })

  test('events go on after every connection to the database was cut', async () => {
    const dms = await startLive()
    const sockets = [await dms.joined(dms.ada, ['document_created']), await dms.joined(dms.ada, ['document_created'], { server: 1 })]
    const cut = sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
    await send(dms.app, dms.ada.id, 'before')
    await dms.app.db.connection().execute((connection) => cut.execute(connection))
    await expect
      .poll(() =>
        send(dms.app, dms.ada.id, 'after').then(
          () => 'sent',
          () => 'failed',
        ),
      )
      .toBe('sent')
    for (const socket of sockets) {
      expect((await socket.next('document_created')).title).toBe('before')
      expect((await socket.next('document_created')).title).toBe('after')
    }
  })

  test('1013 for a client that does not read, without delays for others', async () => {
    const dms = await startLive({}, { servers: 1 })
    const reader = await dms.joined(dms.bob, ['document_created'])
    const stopped = await openRaw(dms.urls[0] ?? '')
    stopped.write(frame(1, JSON.stringify({ type: 'auth', token: await tokenFor(dms.app, dms.ada) })))
    stopped.write(frame(1, JSON.stringify({ type: 'subscribe', events: ['document_created'] })))
    await once(stopped, 'data')
    await expect.poll(() => dms.app.db.selectFrom('live_places').select('id').execute()).toHaveLength(2)
    stopped.pause()
    const title = 'x'.repeat(50_000)
    const delays: number[] = []
    const places = async () => (await dms.app.db.selectFrom('live_places').select('id').execute()).length
    for (let number = 0; number < 400 && (await places()) === 2; number++) {
      await dms.app.db
        .transaction()
        .execute((trx) => publish(trx, 'document_created', dms.ada.id, { document_id: randomUUID(), title, source: null }))
      const start = performance.now()
      await send(dms.app, dms.bob.id, `${number}`)
      await reader.next(({ title }) => title === `${number}`)
      delays.push(performance.now() - start)
    }
    expect(await places()).toBe(1)
    expect(delays.sort((a, b) => a - b).at(Math.floor(delays.length * 0.9))).toBeLessThan(2000)
    expect(reader.socket.readyState).toBe(1)
    const said: Buffer[] = []
    stopped.on('data', (data) => said.push(Buffer.from(data)))
    stopped.resume()
    await expect.poll(() => Buffer.concat(said).includes(Buffer.from([1013 >> 8, 1013 & 255]))).toBe(true)
  })
})
