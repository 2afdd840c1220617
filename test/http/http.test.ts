import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { H3Event } from 'h3'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { localClient } from '../../src/client/local.ts'
import { integerText } from '../../src/http/input.ts'
import { anyone } from '../../src/http/route.ts'
import { readiness } from '../../src/server/health.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { openClientIp } from '../../src/server/http/client-ip.ts'
import { startApp, upload } from '../support/app.ts'
import { boundary, filePart, hearOut, multipartBody, multipartType, startServer } from '../support/servers/server.ts'

const errorOf = async (response: Response) => (await response.json()) as { error: Record<string, unknown>; retry_after_secs?: number }
const none = '0198f000-0000-7000-8000-000000000000'

test('every failure has the error body, also for unknown paths and methods', async () => {
  const { asAda, asStranger } = await startApp()
  const cases = [
    [await asAda.send('GET', '/nothing/here'), 404, 'NOT_FOUND'],
    [await asAda.send('GET', '/api/v2/documents'), 404, 'NOT_FOUND'],
    [await asAda.send('PATCH', '/api/documents'), 405, 'METHOD_NOT_ALLOWED'],
    [await asStranger.send('GET', '/api/documents'), 401, 'UNAUTHORIZED'],
    [await asAda.send('GET', `/api/documents/${none}`), 404, 'DOCUMENT_NOT_FOUND'],
    [await asAda.send('GET', '/api/users'), 403, 'FORBIDDEN'],
  ] as const
  for (const [response, status, code] of cases) {
    const { error } = await errorOf(response)
    expect([response.status, error.code]).toEqual([status, code])
    expect(Object.keys(error).sort()).toEqual(['code', 'details', 'message', 'request_id', 'timestamp'])
    expect(error.request_id).toBe(response.headers.get('x-request-id'))
    expect(error.details).toBeTypeOf('object')
    expect(new Date(String(error.timestamp)).toISOString()).toBe(error.timestamp)
  }
})

test('405 METHOD_NOT_ALLOWED with the allowed methods', async () => {
  const { asAda } = await startApp()
  const response = await asAda.send('DELETE', '/api/documents')
  expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST'])
  const page = await asAda.send('DELETE', '/upload')
  expect([page.status, page.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST'])
})

test('HEAD answers as GET without a body', async () => {
  const { fetch, asAda } = await startServer()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  for (const path of ['/api/documents', `/api/documents/${id}`, `/api/documents/${id}/download`, `/api/documents/${id}/text`, '/healthz']) {
    const [head, get] = [await fetch(path, { method: 'HEAD' }), await fetch(path)]
    expect([path, head.status, head.headers.get('content-type'), await head.text()]).toEqual([
      path,
      200,
      get.headers.get('content-type'),
      '',
    ])
    expect(head.headers.get('etag')).toBe(get.headers.get('etag'))
  }
  expect((await fetch(`/api/documents/${none}`, { method: 'HEAD' })).status).toBe(404)
})

test('Deprecation has the date of removal of a route, also with its failures; no other route has it', async () => {
  const { app } = await startApp()
  const fields = { summary: 'For the test', query: z.object({ size: integerText(1, 9).optional() }) }
  const routes = [
    anyone('GET /api/old', { ...fields, sunset: new Date('2027-03-01T00:00:00.500Z') }, () => ({ is: 'old' })),
    anyone('GET /api/new', fields, () => ({ is: 'new' })),
    anyone('POST /api/old', fields, () => undefined),
  ]
  const server = buildServer(app, { routes })
  const ask = async (method: string, path: string) => {
    const { status, headers } = await server.request(path, { method })
    return [status, headers.get('deprecation')]
  }
  const day = 'Mon, 01 Mar 2027 00:00:00 GMT'
  for (const path of ['/api/old', '/api/v1/old']) expect(await ask('GET', path)).toEqual([200, day])
  expect(await ask('HEAD', '/api/old')).toEqual([200, day])
  expect(await ask('GET', '/api/old?size=10')).toEqual([400, day])
  expect(await ask('POST', '/api/old')).toEqual([204, null])
  expect(await ask('GET', '/api/new')).toEqual([200, null])
})

test('/api/v1 is the same API', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  expect(await asAda.call('GET', `/api/v1/documents/${id}`)).toEqual(await asAda.call('GET', `/api/documents/${id}`))
  expect((await asAda.send('PATCH', '/api/v1/documents')).headers.get('allow')).toBe('GET, HEAD, POST')
})

test('a valid X-Request-Id is kept, any other is replaced', async () => {
  const { asAda } = await startApp()
  const idFor = async (given: string) =>
    (await asAda.send('GET', '/healthz', undefined, { 'x-request-id': given })).headers.get('x-request-id')
  expect(await idFor('job-7.a_B')).toBe('job-7.a_B')
  for (const given of ['a b', 'a"b', 'x'.repeat(129)]) expect(await idFor(given)).toMatch(/^[0-9a-f-]{36}$/)
})

test('400 VALIDATION_ERROR for bodies that are not JSON, not UTF-8, nested too deeply, or cannot be stored', async () => {
  const { fetch, asAda } = await startServer()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const put = (body: string | Buffer, headers = {}) =>
    fetch(`/api/documents/${id}`, { method: 'PUT', body: body as BodyInit, headers: { 'content-type': 'application/json', ...headers } })
  const bodies = [
    '{',
    '{"title":}',
    '[1,',
    'null',
    '"text"',
    '[]',
    '{"title":"a\\u0000b"}',
    '{"metadata":{"a\\u0000":1}}',
    '{"metadata":{"a":"\\ud800"}}',
    '{"metadata":{"a":1e400}}',
    '{"metadata":{"__proto__":{"role":"admin"}}}',
    `{"metadata":${'{"a":'.repeat(100)}1${'}'.repeat(100)}}`,
    '['.repeat(100_000),
    Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  ]
  for (const body of bodies) {
    const response = await put(body)
    expect([String(body).slice(0, 40), response.status, (await errorOf(response)).error.code]).toEqual([
      String(body).slice(0, 40),
      400,
      'VALIDATION_ERROR',
    ])
  }
  expect((await put('\ufeff{"title":"with a byte order mark"}')).status).toBe(200)
  expect((await put('{"metadata":{"constructor":{"prototype":{"x":1}},"toString":"a"}}')).status).toBe(200)
  expect(({} as Record<string, unknown>).x).toBeUndefined()
  expect((await asAda.documents.get(id)).metadata).toMatchObject({ constructor: { prototype: { x: 1 } }, toString: 'a' })
})

test('200 for values that cannot be stored in unknown fields; 400 VALIDATION_ERROR lists all of them in known fields', async () => {
  const { asAda } = await startServer()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const put = async (path: string, body: string) => {
    const response = await asAda.raw('PUT', path, { open: () => body, size: null }, { 'content-type': 'application/json' })
    return [response.status, response.status === 400 ? ((await errorOf(response)).error.details as { issues: unknown }).issues : null]
  }
  for (const value of ['"\\ud800"', '12345678901234567890', '1e999', '["a\\u0000"]', '{"__proto__":{"a\\u0000":1}}'])
    expect(await put('/api/settings', `{"foo":${value}}`)).toEqual([200, null])
  const metadata = '{"a":"\\u0000","b":[1,{"c":1e400}],"d\\udc00":1,"e":{"__proto__":2},"f":12345678901234567890}'
  expect(await put(`/api/documents/${id}`, `{"foo":"\\ud800","title":"\\ud800","metadata":${metadata}}`)).toEqual([
    400,
    [
      { path: 'title', message: 'holds half of a surrogate pair' },
      { path: 'metadata.a', message: 'holds the character U+0000' },
      { path: 'metadata.b.1.c', message: 'a number too large to be stored' },
      { path: 'metadata', message: 'holds half of a surrogate pair' },
      { path: 'metadata.e', message: 'holds the key __proto__' },
      { path: 'metadata.f', message: expect.stringContaining('write it as a string') },
    ],
  ])
})

test('400 VALIDATION_ERROR for a query parameter or form field that is given twice and takes one value; lists and unknown names may repeat', async () => {
  const { asAda, fetch } = await startServer()
  const issuesOf = async (response: Response) => ((await errorOf(response)).error.details as { issues: unknown }).issues
  const twice = await asAda.send('GET', '/api/documents?owner=a&owner=b&page=1&page=1&status=failed&status=pending&x=1&x=2')
  const message = 'given more than once'
  expect(await issuesOf(twice)).toEqual([
    { path: 'page', message },
    { path: 'owner', message },
  ])
  const found = await asAda.send('GET', '/api/documents?status=failed&status=pending,completed&x=1&x=2')
  expect(found.status).toBe(200)
  const field = (name: string, body: string) => ({ disposition: `; name="${name}"`, body })
  const post = (fields: object[]) =>
    fetch('/api/documents/upload', {
      method: 'POST',
      headers: { 'content-type': multipartType },
      body: multipartBody([...(fields as Parameters<typeof multipartBody>[0]), filePart('a')]) as BodyInit,
    })
  expect(await issuesOf(await post([field('title', 'a'), field('title', 'b')]))).toEqual([{ path: 'title', message }])
  const { id } = await asAda.labels.create({ name: 'one', color: '#112233' })
  const { name } = await asAda.labels.create({ name: 'two', color: '#112233' })
  const stored = await post([field('labels', id), field('labels', name)])
  expect([stored.status, (await stored.json()).document.labels]).toEqual([201, ['one', 'two']])
})

test('400 VALIDATION_ERROR "required" for missing ids and dates', async () => {
  const { asAda } = await startApp()
  const issues = async (path: string) => ((await errorOf(await asAda.send('POST', path, {}))).error.details as { issues: unknown }).issues
  expect(await issues('/api/shared-links')).toEqual([{ path: 'document_id', message: 'required' }])
  expect(await issues(`/api/sources/${randomUUID()}/rollback`)).toEqual([{ path: 'before', message: 'required' }])
})

test('400 VALIDATION_ERROR lists all problems of a request', async () => {
  const { asAda } = await startApp()
  const { error } = await errorOf(await asAda.send('GET', '/api/documents?page=0&per_page=101&sort=password_hash&order=up'))
  const { issues } = error.details as { issues: { path: string; message: string }[] }
  expect(issues.map(({ path }) => path).sort()).toEqual(['order', 'page', 'per_page', 'sort'])
  expect(issues.every(({ message }) => message.length > 0)).toBe(true)
})

test('415 UNSUPPORTED_MEDIA_TYPE for bodies of another type, and for compressed ones', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const statusOf = async (headers: Record<string, string>) =>
    (await asAda.send('PUT', `/api/documents/${id}`, { title: 'x' }, headers)).status
  expect(await statusOf({ 'content-type': 'text/plain' })).toBe(415)
  expect(await statusOf({ 'content-type': 'application/x-www-form-urlencoded' })).toBe(415)
  expect(await statusOf({ 'content-encoding': 'gzip' })).toBe(415)
  expect(await statusOf({ 'content-type': 'application/merge-patch+json' })).toBe(200)
})

test('413 PAYLOAD_TOO_LARGE at once when Content-Length shows it, in the middle when not, and the client sees it either way', async () => {
  const { asAda, say, dial, token } = await startServer({ 'limits.max_request_size': '64kB' })
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const head = (more: string) =>
    `PUT /api/documents/${id} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\n${more}\r\n\r\n`
  expect(await say(head('content-length: 70000'))).toMatch(/^HTTP\/1.1 413 /)

  const body = Buffer.alloc(3_000_000, 'x')
  expect(await say(Buffer.concat([Buffer.from(head(`content-length: ${body.length}`)), body]))).toMatch(
    /^HTTP\/1.1 413 [\s\S]*PAYLOAD_TOO_LARGE/,
  )

  // A client that sends all it has before it listens: without a lingering end it would only ever see a reset.
  const socket = await dial()
  socket.write(head('transfer-encoding: chunked'))
  // A text that does not end: nothing but its length is wrong so far.
  socket.write('1\r\n"\r\n')
  for (let sent = 0; sent < 200; sent++) {
    if (!socket.write(`8000\r\n${'x'.repeat(0x8000)}\r\n`)) await once(socket, 'drain')
  }
  socket.write('0\r\n\r\n')
  expect(await hearOut(socket)).toMatch(/^HTTP\/1.1 413 /)
})

test('Expect: 100-continue is refused before the body if the headers are invalid', async () => {
  const { dial, token } = await startServer({ 'limits.max_upload_size': '1MB' })
  const ask = async (length: number, authorization = `Bearer ${token}`) => {
    const socket = await dial()
    socket.write(
      `POST /api/documents/upload HTTP/1.1\r\nhost: a\r\nauthorization: ${authorization}\r\ncontent-type: ${multipartType}\r\ncontent-length: ${length}\r\nexpect: 100-continue\r\n\r\n`,
    )
    const [first] = (await once(socket, 'data')) as [Buffer]
    return { socket, first: first.toString() }
  }
  const refused = await ask(10_000_000)
  expect(refused.first).toMatch(/^HTTP\/1.1 413 /)
  refused.socket.destroy()
  const stranger = await ask(100, 'Bearer nonsense')
  expect(stranger.first).toMatch(/^HTTP\/1.1 401 /)
  stranger.socket.destroy()

  const body = multipartBody([filePart('hello')])
  const { socket, first } = await ask(body.length)
  expect(first).toBe('HTTP/1.1 100 Continue\r\n\r\n')
  socket.write(body)
  expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1.1 201 /)
  socket.destroy()
})

test('an unknown Expect is ignored', async () => {
  const { say } = await startServer()
  const answer = await say('GET /api/nothing HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 200-maybe\r\n\r\n')
  expect(answer).toMatch(/^HTTP\/1.1 404 [\s\S]*"code":"NOT_FOUND"/)
})

test('every answer has the security headers', async () => {
  const { asAda, asStranger } = await startApp()
  for (const response of [
    await asAda.send('GET', '/api/documents'),
    await asStranger.send('GET', '/nothing'),
    await asAda.send('GET', '/healthz'),
  ]) {
    const headers = Object.fromEntries(response.headers)
    expect(headers).toMatchObject({
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    })
    expect(headers).not.toHaveProperty('access-control-allow-origin')
    expect(headers).not.toHaveProperty('set-cookie')
    expect(headers).not.toHaveProperty('x-powered-by')
  }
  expect((await asAda.send('GET', '/api/documents')).headers.get('cache-control')).toBe('no-store')
  const { asAda: plain } = await startApp({ 'security.headers_enabled': false })
  expect((await plain.send('GET', '/api/documents')).headers.has('x-frame-options')).toBe(false)
})

test('CORS allows the configured origins only', async () => {
  const { asStranger } = await startApp({ 'server.cors_origins': 'https://app.example.org' })
  const ask = (origin: string) =>
    asStranger.send('OPTIONS', '/api/documents', undefined, { origin, 'access-control-request-method': 'POST' })
  const good = await ask('https://app.example.org')
  expect([good.status, good.headers.get('access-control-allow-origin'), good.headers.get('access-control-allow-methods')]).toEqual([
    204,
    'https://app.example.org',
    'GET, HEAD, POST',
  ])
  expect(good.headers.get('vary')).toBe('origin')
  for (const origin of ['https://app.example.org.evil.test', 'http://app.example.org', 'null', 'https://evil.test']) {
    expect((await ask(origin)).headers.has('access-control-allow-origin')).toBe(false)
  }
  const denied = await asStranger.send('GET', '/api/documents', undefined, { origin: 'https://app.example.org' })
  expect([denied.status, denied.headers.get('access-control-allow-origin')]).toEqual([401, 'https://app.example.org'])
})

test('a malformed path is 404, never 500', async () => {
  const { say, token } = await startServer()
  const statusOf = async (path: string) =>
    (await say(`GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer ${token}\r\n\r\n`)).slice(9, 12)
  for (const path of [
    '/api/documents/%',
    '/api/documents/%ff',
    '/api/documents/%zz/download',
    '/%c0%af',
    '/api/documents/%00',
    '//',
    '/api//documents',
  ]) {
    expect([path, await statusOf(path)]).toEqual([path, '404'])
  }
  expect(await statusOf('/api/documents?page=%ff')).toBe('400')
  expect(await statusOf('/api/documents?owner=%00')).toBe('400')
})

test('garbage and request smuggling are refused by the protocol, and the server goes on', async () => {
  const { say, fetch } = await startServer()
  const requests = [
    'NONSENSE\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd',
    'GET /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n',
    `GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`,
  ]
  for (const request of requests)
    expect([request.slice(0, 60), (await say(request)).slice(0, 10)]).toEqual([request.slice(0, 60), 'HTTP/1.1 4'])
  const errorOf = async (request = '') => JSON.parse((await say(request)).split('\r\n\r\n')[1] ?? '').error
  expect(await errorOf(requests.at(-1))).toMatchObject({ code: 'HEADERS_TOO_LARGE', request_id: expect.any(String) })
  const issues = [{ path: '', message: 'not a valid HTTP request (Bad Request)' }]
  expect(await errorOf(requests[0])).toMatchObject({ code: 'VALIDATION_ERROR', details: { issues } })
  expect((await fetch('/healthz')).status).toBe(200)
})

test('the client address is that of the peer, or that reported by trusted proxies', () => {
  const of = (trusted: string[], peer: string, forwarded?: string) =>
    openClientIp(trusted)({
      req: { ip: peer, headers: new Headers(forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }) },
    } as unknown as H3Event)
  const proxies = ['10.0.0.0/8', '::1']
  expect(of([], '10.0.0.1', '1.2.3.4')).toBe('10.0.0.1')
  expect(of(proxies, '9.9.9.9', '1.2.3.4')).toBe('9.9.9.9')
  expect(of(proxies, '10.0.0.1', '1.2.3.4')).toBe('1.2.3.4')
  expect(of(proxies, '::ffff:10.0.0.1', '6.6.6.6, 1.2.3.4, 10.7.7.7')).toBe('1.2.3.4')
  expect(of(proxies, '::1', '2001:db8::1')).toBe('2001:db8::1')
  expect(of(proxies, '10.0.0.1', '1.2.3.4:5678')).toBe('1.2.3.4')
  expect(of(proxies, '10.0.0.1', '[2001:db8::1]:443')).toBe('2001:db8::1')
  expect(of(proxies, '10.0.0.1')).toBe('10.0.0.1')
  for (const nonsense of ['', 'unknown', '_hidden', '1.2.3.4, <script>', '999.1.1.1'])
    expect(of(proxies, '10.0.0.1', nonsense)).toBe('10.0.0.1')
})

test('readyz: 200 degraded without a worker for OCR or indexing, 503 without storage or while draining', async () => {
  const { app, asStranger, dataDir } = await startApp()
  const ready = await asStranger.send('GET', '/readyz')
  expect([ready.status, await ready.json()]).toEqual([
    200,
    { status: 'degraded', checks: { database: 'ok', schema: 'ok', storage: 'ok', search: 'ok', worker: 'fail' } },
  ])
  const start = (name: string, queue: string) =>
    app.db
      .insertInto('workers')
      .values({ name, queues: [queue] })
      .execute()
  await start('a/1', 'ocr')
  expect((await readiness(app)).status).toBe('degraded')
  await start('a/2', 'index')
  expect((await readiness(app)).status).toBe('ok')
  const { rename } = await import('node:fs/promises')
  await rename(`${dataDir}/files/.dms-store`, `${dataDir}/files/elsewhere`)
  const unmounted = await asStranger.send('GET', '/readyz')
  expect([unmounted.status, ((await unmounted.json()) as { status: string }).status]).toEqual([503, 'unavailable'])
})

test('closing completes running requests, refuses new ones, and does not wait for idle connections', async () => {
  const { dial, listening, token } = await startServer()
  const idle = await dial()
  const busy = await dial()
  const body = multipartBody([filePart('hello')])
  const received = once(listening.server, 'request')
  busy.write(
    `POST /api/documents/upload HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\ncontent-type: multipart/form-data; boundary=${boundary}\r\ncontent-length: ${body.length}\r\n\r\n`,
  )
  busy.write(body.subarray(0, 40))
  await received
  const started = performance.now()
  const closed = listening.close(10_000)
  await new Promise((resolve) => setTimeout(resolve, 50))
  await expect(dial()).rejects.toThrow('ECONNREFUSED')
  busy.write(body.subarray(40))
  expect(String(await once(busy, 'data'))).toMatch(/^HTTP\/1.1 201 /)
  await closed
  expect(performance.now() - started).toBeLessThan(9000)
  idle.destroy()
})

test('all database connections cut: 503 at worst, and the next request succeeds', async () => {
  const { app, asAda } = await startApp()
  const log = app.log as { warn: unknown; error: unknown }
  log.warn = log.error = () => {}
  const { id } = await upload(asAda, 'a.txt', 'hello')
  for (let round = 0; round < 3; round++) {
    const running = Array.from({ length: 8 }, () => asAda.send('PUT', `/api/documents/${id}`, { title: `${round}` }))
    const cut =
      sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`.execute(
        app.db,
      )
    for (const { status } of await Promise.all(running)) expect([200, 503]).toContain(status)
    await cut.catch(() => {})
    await expect.poll(async () => (await asAda.send('GET', `/api/documents/${id}`)).status).toBe(200)
  }
})

test('a change of something that is deleted concurrently: 404, or 401 if its user is deleted, never 500', async () => {
  const { app, asAda, asBob, ada, admin } = await startApp()
  const label = await asAda.labels.create({ name: 'tax', color: '#000000' })
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const link = await upload(asAda, 'b.txt', 'hello too')
  /** Sends a request while the row is deleted without a commit. Returns its answer after the commit. */
  const meanwhile = async (table: 'labels' | 'documents' | 'users', gone: string, ask: () => Promise<Response>) => {
    const { answer } = await app.db.transaction().execute(async (trx) => {
      await trx.deleteFrom(table).where('id', '=', gone).execute()
      const answer = ask()
      const waits = sql<{
        waits: boolean
      }>`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') as waits`
      while (!(await waits.execute(app.db)).rows[0]?.waits) await new Promise((resolve) => setTimeout(resolve, 5))
      return { answer }
    })
    const { status } = await answer
    return status
  }
  const assign = () => asAda.send('POST', `/api/labels/${label.id}/assign`, { document_ids: [id] })
  expect(await meanwhile('labels', label.id, assign)).toBe(404)
  expect(await meanwhile('documents', link.id, () => asAda.send('POST', '/api/shared-links', { document_id: link.id }))).toBe(404)
  await asAda.documents.delete(id, { permanent: true })
  expect(await meanwhile('users', ada.id, () => asAda.send('PUT', '/api/settings', { theme: 'dark' }))).toBe(401)

  // Its account is gone already, but the server has cached the session.
  const webdav = { name: 'dav', type: 'webdav', url: 'https://dav.example.org/' }
  const requests: [method: string, path: string, body?: object][] = [
    ['POST', '/api/sources', webdav],
    ['GET', '/api/users/profile'],
    ['GET', '/api/auth/me'],
    ['PUT', '/api/users/profile', { display_name: 'Ada' }],
    ['POST', '/api/users/change-password', { current_password: 'correct horse', new_password: 'battery staple' }],
    ['POST', '/api/tokens', { name: 'backup', scopes: ['read'] }],
    ['POST', '/api/labels', { name: 'rent', color: '#000000' }],
    ['GET', `/api/documents/${link.id}`],
  ]
  for (const [method, path, body] of requests) {
    const response = await asAda.send(method, path, body)
    expect([method, path, response.status]).toEqual([method, path, 401])
  }

  const asRoot = localClient(app, admin.actor)
  const other = await upload(asBob, 'c.txt', 'hello of bob')
  const comment = () => asRoot.send('POST', `/api/comments/documents/${other.id}/comments`, { content: 'hello' })
  expect(await meanwhile('users', admin.id, comment)).toBe(401)
})
