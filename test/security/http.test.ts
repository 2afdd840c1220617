/** Malformed requests over raw sockets. More are in http.test.ts and uploads.test.ts. */
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { upload } from '../support/app.ts'
import { filePart, multipartBody, multipartType, startServer } from '../support/servers/server.ts'

test('ambiguous requests are refused or read as one request; the next one is not affected', async () => {
  const { say, fetch } = await startServer()
  const smuggled = 'GET /api/smuggled HTTP/1.1\r\nhost: a\r\n\r\n'
  const heads: Record<string, string> = {
    'a length and chunks': 'POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'chunks named twice': 'POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n',
    'chunks and a length': 'POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n',
    'two lengths': 'POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc',
    'one length twice': 'POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc',
    'a coding before chunks': 'POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'chunks in HTTP/1.0': 'POST /healthz HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n0\r\n\r\n',
    'two hosts': 'GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n',
    'one host twice': 'GET /healthz HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n',
    'hosts in a list': 'GET /healthz HTTP/1.1\r\nhost: a, b\r\n\r\n',
    'a host with a user': 'GET /healthz HTTP/1.1\r\nhost: a@b\r\n\r\n',
    'a folded header': 'GET /healthz HTTP/1.1\r\nhost: a\r\nx: y\r\n z\r\n\r\n',
    'a line feed alone': 'GET /healthz HTTP/1.1\r\nhost: a\r\nx: y\nz: w\r\n\r\n',
    'a folded encoding': 'POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n',
    'a space before the colon': 'POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length : 3\r\n\r\nabc',
    'a length with a sign': 'POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: +3\r\n\r\nabc',
    'a length in hexadecimal': 'POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 0x3\r\n\r\nabc',
    'lengths in a list': 'POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 3, 3\r\n\r\nabc',
    'a chunk size with a sign': 'POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n\r\n',
    'a header without a name': 'GET /healthz HTTP/1.1\r\nhost: a\r\n: x\r\n\r\n',
    'a carriage return alone': 'GET /healthz HTTP/1.1\r\nhost: a\r\nx: y\rz: w\r\n\r\n',
    'a zero byte': 'GET /healthz HTTP/1.1\r\nhost: a\r\nx: \0\r\n\r\n',
    'no host': 'GET /healthz HTTP/1.1\r\n\r\n',
    'HTTP/0.9': 'GET /healthz\r\n\r\n',
    'HTTP/9.9': 'GET /healthz HTTP/9.9\r\nhost: a\r\n\r\n',
    'a method that is none': 'G@T /healthz HTTP/1.1\r\nhost: a\r\n\r\n',
  }
  for (const [name, head] of Object.entries(heads)) {
    const answer = await say(head + smuggled).catch(() => '')
    expect.soft([name, /^(HTTP\/1\.[01] 4|$)/.test(answer), answer.includes('HTTP/1.1 404')]).toEqual([name, true, false])
  }
  const many = Array.from({ length: 10_000 }, (_, index) => `x${index}: y`).join('\r\n')
  expect((await say(`GET /healthz HTTP/1.1\r\nhost: a\r\n${many}\r\n\r\n`).catch(() => 'HTTP/1.1 431')).slice(0, 12)).toBe('HTTP/1.1 431')
  expect((await fetch('/healthz')).status).toBe(200)
})

test('400 VALIDATION_ERROR for two Host headers and for none, also of a WebSocket; 200 for one with a port', async () => {
  const { say } = await startServer()
  const handshake =
    'upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
  for (const head of ['GET /healthz HTTP/1.1\r\n', `GET /ws HTTP/1.1\r\n${handshake}`])
    for (const hosts of ['host: a\r\nhost: b\r\n', ''])
      expect(await say(`${head}${hosts}\r\n`)).toMatch(/^HTTP\/1\.1 400 [\s\S]*VALIDATION_ERROR[\s\S]*Host/)
  for (const host of ['a:8080', '[::1]:8080', ''])
    expect(await say(`GET /healthz HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`), host).toMatch(/^HTTP\/1\.1 200 /)
})

test('TRACE, CONNECT and other methods do nothing; a foreign URL is not requested; two pipelined requests have two answers', async () => {
  const { say, token } = await startServer()
  const ask = (line: string, more = '') =>
    say(`${line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-canary: seen\r\n${more}\r\n`).catch(() => '')
  for (const method of ['TRACE', 'TRACK', 'PATCH', 'PROPFIND', 'MKCOL', 'PURGE']) {
    const answer = await ask(`${method} /api/documents`, `authorization: Bearer ${token}\r\n`)
    expect.soft([method, answer.slice(9, 12), /x-canary|seen/.test(answer)]).toEqual([method, expect.stringMatching(/^40[05]$/), false])
  }
  expect(await ask('CONNECT 127.0.0.1:22')).toMatch(/^HTTP\/1\.1 405 [\s\S]*\r\nallow: \r\n[\s\S]*METHOD_NOT_ALLOWED/)
  expect((await ask('OPTIONS *')).slice(9, 12)).toMatch(/^(2|4)/)
  const elsewhere = await ask('GET http://127.0.0.1:9/healthz')
  expect(elsewhere.slice(9, 12)).toMatch(/^(200|404)$/)
  const two = await say('GET /healthz HTTP/1.1\r\nhost: a\r\n\r\nGET /nothing HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n')
  expect([...two.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => status)).toEqual(['200', '404'])
})

test('405 METHOD_NOT_ALLOWED for CONNECT after the answers to earlier requests on the connection', async () => {
  const { say, token } = await startServer()
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n\r\n`
  const answers = await say(`${get('/api/auth/me')}${get('/api/documents')}CONNECT 127.0.0.1:22 HTTP/1.1\r\nhost: a\r\n\r\n`)
  expect([...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(['200', '200', '405'])
})

test('413 for 501 MB before the body is read; 415 for compressed bodies', async () => {
  const { dial, say, token } = await startServer()
  const head = (path: string, more: string) => `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n${more}\r\n\r\n`
  for (const [path, type] of [
    ['/api/documents/upload', multipartType],
    ['/api/labels', 'application/json'],
  ] as const) {
    const socket = await dial()
    socket.write(head(path, `content-type: ${type}\r\nexpect: 100-continue\r\ncontent-length: ${501 << 20}`))
    expect([path, String(await once(socket, 'data')).slice(0, 12)]).toEqual([path, 'HTTP/1.1 413'])
    socket.destroy()
  }
  for (const encoding of ['gzip', 'deflate', 'br', 'zstd', 'gzip, gzip']) {
    const answer = await say(
      head('/api/labels', `content-type: application/json\r\ncontent-encoding: ${encoding}\r\ncontent-length: 2\r\nconnection: close`) +
        '{}',
    )
    expect([encoding, answer.slice(0, 12)]).toEqual([encoding, 'HTTP/1.1 415'])
  }
})

test('400 for malformed forms, and the server goes on', async () => {
  const { fetch } = await startServer()
  const post = async (body: Buffer | string) =>
    (await fetch('/api/documents/upload', { method: 'POST', headers: { 'content-type': multipartType }, body: body as BodyInit })).status
  const many = Array.from({ length: 10_000 }, () => ({ disposition: '; name="a"', body: 'x' }))
  expect(await post(multipartBody([...many, filePart('x')]))).toBe(400)
  expect(await post(multipartBody([{ disposition: '', body: 'x' }]))).toBe(400)
  expect(await post(multipartBody([{ disposition: '; name="file"', body: 'no file name' }]))).toBe(400)
  expect(await post('--tEsT-boundary'.repeat(10_000))).toBe(400)
  expect(await post(multipartBody([filePart('x'), { disposition: '; name="__proto__"', body: '{"role":"admin"}' }]))).toBe(201)
  expect(({} as Record<string, unknown>).role).toBeUndefined()
  expect((await fetch('/healthz')).status).toBe(200)
})

test('no route sets a cookie but the one that begins a sign-in; no page of another origin can read or send JSON', async () => {
  const { fetch, asAda } = await startServer()
  const { id } = await asAda.labels.create({ name: 'a', color: '#112233' })
  const answers = [
    await fetch('/api/documents', { headers: { origin: 'https://evil.test' } }),
    await fetch('/api/auth/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"username":"a","password":"b"}',
    }),
    await fetch('/api/docs'),
    await fetch(`/api/labels/${id}`, { method: 'PUT', headers: { origin: 'null', 'content-type': 'text/plain' }, body: '{"name":"b"}' }),
  ]
  expect(answers.map(({ status }) => status)).toEqual([200, 401, 200, 415])
  for (const { headers } of answers) expect([headers.get('set-cookie'), headers.get('access-control-allow-origin')]).toEqual([null, null])
})

test('10 guesses per minute at the password of a link, for every spelling of its address and any headers', async () => {
  const { url, asAda } = await startServer()
  const document = await upload(asAda, 'a.txt', 'x')
  const { token } = await asAda.sharedLinks.create({ document_id: document.id, password: 'sesame' })
  const spelled = `%${token.charCodeAt(0).toString(16)}${token.slice(1)}`
  const paths = [
    `/api/public/shared/${token}/verify`,
    `/api/v1/public/shared/${token}/verify`,
    `/api/public/shared/${spelled}/verify`,
    `/api/public/shared/x/../${token}/verify?again=1`,
    `/api/public/shared/${token}/download`,
    `/api/public/shared/${token}/view`,
    `/api/public/shared/${token}/verify/`,
    `/api/public//shared/${token}/verify`,
    `/API/public/shared/${token}/verify`,
  ]
  const statuses: number[] = []
  for (let round = 0; round < 4; round++) {
    for (const [at, path] of paths.entries()) {
      const address = `198.51.100.${round * 20 + at}`
      const headers = { 'content-type': 'application/json', 'x-forwarded-for': address, 'x-real-ip': address, forwarded: `for=${address}` }
      const response = await fetch(url + path, { method: 'POST', headers, body: '{"password":"wrong"}' })
      await response.arrayBuffer()
      statuses.push(response.status)
    }
  }
  const successes = statuses.filter((status) => status === 200 || status === 403)
  expect([successes.length, statuses.filter((status) => ![200, 403, 404, 429].includes(status))]).toEqual([10, []])
})
