import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { buildServer } from '../../src/server/http/assemble.ts'
import { listen } from '../../src/server/listen.ts'
import { startApp, upload } from '../support/app.ts'
import { makeReadOnly } from '../support/servers/read-only-database.ts'

type Started = Awaited<ReturnType<typeof startApp>>

/** Creates an App with process-wide state of its own, as another process has. */
async function serve({ app }: Started) {
  const listening = await listen(buildServer(app), { ...app.config, server: { ...app.config.server, port: 0 } })
  return listening
}

const limited = { 'limits.api_calls_per_minute': 20 }

interface ErrorBody {
  retry_after_secs: number
  error: { code: string; message: string; details: { retry_after_secs: number } }
}

test('429 RATE_LIMITED after exactly the limit, with the seconds to wait in three places; 200 after them', async () => {
  const started = await startApp(limited)
  const { url, close } = await serve(started)
  const statuses: number[] = []
  for (let call = 0; call < 20; call++) statuses.push((await fetch(`${url}/api/health`)).status)
  expect(new Set(statuses)).toEqual(new Set([200]))
  const refused = await fetch(`${url}/api/health`)
  const body = (await refused.json()) as ErrorBody
  expect([refused.status, body.error.code]).toEqual([429, 'RATE_LIMITED'])
  expect(body.error.message).toMatch(new RegExp(`^Too many requests\\. Retry after ${body.retry_after_secs} seconds?\\.$`))
  expect(body.retry_after_secs).toBeGreaterThan(0)
  expect(body.retry_after_secs).toBeLessThanOrEqual(60)
  expect([body.error.details.retry_after_secs, Number(refused.headers.get('retry-after'))]).toEqual([
    body.retry_after_secs,
    body.retry_after_secs,
  ])
  await started.later(body.retry_after_secs * 1000)
  expect((await fetch(`${url}/api/health`)).status).toBe(200)
  await close(1000)
})

test('200 with the highest limit', async () => {
  const started = await startApp({ 'limits.api_calls_per_minute': 1_000_000_000 })
  const { url, close } = await serve(started)
  expect((await fetch(`${url}/api/health`)).status).toBe(200)
  await close(1000)
})

test('two servers on one database allow at most the limit, and at least nine tenths of it', async () => {
  const started = await startApp({ 'limits.api_calls_per_minute': 40 })
  const servers = [await serve(started), await serve(started)]
  const answers = await Promise.all(Array.from({ length: 100 }, (_, call) => fetch(`${servers[call % 2]?.url}/api/health`)))
  const passed = answers.filter(({ status }) => status === 200).length
  expect(passed).toBeLessThanOrEqual(40)
  expect(passed).toBeGreaterThanOrEqual(36)
  await Promise.all(servers.map(({ close }) => close(1000)))
})

test('a user is counted separately from the address, and an address separately from other addresses', async () => {
  const started = await startApp(limited)
  const { url, close } = await serve(started)
  const bearer = async ({ id, token_version }: { id: string; token_version: number }) => {
    const iat = Math.floor(started.app.now().getTime() / 1000)
    return {
      authorization: `Bearer ${await started.app.tokens.sign({ sub: id, jti: randomUUID(), iat, exp: iat + 3600, ver: token_version })}`,
    }
  }
  const [ada, bob] = [await bearer(started.ada), await bearer(started.bob)]
  for (let call = 0; call < 20; call++) await fetch(`${url}/api/documents`, { headers: ada })
  expect((await fetch(`${url}/api/documents`, { headers: ada })).status).toBe(429)
  expect((await fetch(`${url}/api/documents`, { headers: bob })).status).toBe(200)
  expect((await fetch(`${url}/api/health`)).status).toBe(200)
  await close(1000)
})

test.each(['x-forwarded-for', 'x-real-ip', 'forwarded', 'cf-connecting-ip', 'true-client-ip'])(
  'a forged %s changes nothing',
  async (header) => {
    const started = await startApp(limited)
    const { url, close } = await serve(started)
    const statuses = []
    for (let call = 0; call < 21; call++)
      statuses.push((await fetch(`${url}/api/health`, { headers: { [header]: `192.0.2.${call}` } })).status)
    expect(statuses.at(-1)).toBe(429)
    await close(1000)
  },
)

test('invalid tokens count; health checks and preflight requests do not', async () => {
  const started = await startApp(limited)
  const { url, close } = await serve(started)
  for (let call = 0; call < 30; call++) {
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    expect((await fetch(`${url}/api/documents`, { method: 'OPTIONS' })).status).toBe(204)
  }
  const guess = () => fetch(`${url}/api/documents`, { headers: { authorization: 'Bearer guess' } })
  for (let call = 0; call < 20; call++) expect((await guess()).status).toBe(401)
  expect((await guess()).status).toBe(429)
  await close(1000)
})

test('429 is an HTML page for a browser at a shared link, and the error body for every other client', async () => {
  const started = await startApp(limited)
  const { url, close } = await serve(started)
  const { id } = await upload(started.asAda, 'a.txt', 'hello')
  const { token } = await started.asAda.sharedLinks.create({ document_id: id })
  for (let call = 0; call < 20; call++) await fetch(`${url}/api/health`)
  const asking = (method: string, path: string, accept: string) => fetch(`${url}${path}`, { method, headers: { accept } })
  const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  for (const [method, path] of [
    ['GET', `/api/public/shared/${token}`],
    ['GET', `/api/v1/public/shared/${token}`],
    ['POST', `/api/public/shared/${token}/download`],
    ['POST', `/api/public/shared/${token}/view`],
  ] as const) {
    const page = await asking(method, path, browser)
    const wait = Number(page.headers.get('retry-after'))
    expect([page.status, page.headers.get('content-type'), page.headers.get('vary')]).toEqual([429, 'text/html; charset=utf-8', 'accept'])
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-/)
    const text = await page.text()
    expect([text, wait > 0 && wait <= 60]).toEqual([expect.stringMatching('<h1>Too many requests</h1>'), true])
    expect(text).toContain(`Try again in ${wait === 1 ? 'a second' : `${wait} seconds`}.`)
    for (const accept of ['application/json', '*/*', 'application/json, text/html']) {
      const answer = await asking(method, path, accept)
      expect([answer.status, await answer.json()]).toMatchObject([
        429,
        { error: { code: 'RATE_LIMITED' }, retry_after_secs: expect.any(Number) },
      ])
    }
  }
  expect((await asking('GET', '/api/documents', browser)).headers.get('content-type')).toMatch('application/json')
  await close(1000)
})

test('reading one document costs a tenth of a request, batch-get five; requests of admins are not counted', async () => {
  const started = await startApp(limited)
  const { url, close } = await serve(started)
  const bearer = async ({ id, token_version }: { id: string; token_version: number }) => {
    const iat = Math.floor(started.app.now().getTime() / 1000)
    const token = await started.app.tokens.sign({ sub: id, jti: randomUUID(), iat, exp: iat + 3600, ver: token_version })
    return { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  }
  const { id } = await upload(started.asAda, 'a.txt', 'hello')
  const [ada, root] = [await bearer(started.ada), await bearer(started.admin)]
  const read = async (headers: HeadersInit, path = '') => (await fetch(`${url}/api/documents${path}`, { headers })).status
  const batch = async (headers: HeadersInit) =>
    (await fetch(`${url}/api/v1/documents/batch-get`, { method: 'POST', headers, body: JSON.stringify({ ids: [id] }) })).status
  for (let call = 0; call < 50; call++) expect(await read(ada, `/${id}/download`)).toBe(200)
  for (let call = 0; call < 3; call++) expect(await batch(ada)).toBe(200)
  expect(await read(ada, `/${id}`)).toBe(429)
  expect(await batch(ada)).toBe(429)
  for (let call = 0; call < 25; call++) expect(await read(root)).toBe(200)
  expect(await batch(root)).toBe(200)
  await close(1000)
})

test('a read-only database: a user and an API token read as before, and get 429 RATE_LIMITED after the limit', async () => {
  const started = await startApp(limited)
  const { url, close } = await serve(started)
  const { id } = await upload(started.asAda, 'a.txt', 'hello')
  const iat = Math.floor(started.app.now().getTime() / 1000)
  const session = await started.app.tokens.sign({
    ...{ sub: started.bob.id, jti: randomUUID(), iat, exp: iat + 3600, ver: started.bob.token_version },
  })
  const { token } = await started.asAda.tokens.create({ name: 'reader', scopes: ['read'] })
  const read = async (bearer: string, path: string) =>
    (await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${bearer}` } })).status
  await makeReadOnly(started.databaseUrl)
  // The connections were cut.
  await expect.poll(() => read(session, '/api/documents')).toBe(200)
  await expect.poll(() => read(token, `/api/documents/${id}/download`)).toBe(200)
  expect(await read(token, '/api/search?q=hello')).toBe(200)
  const statuses: number[] = []
  for (let call = 0; call < 21; call++) statuses.push(await read(token, '/api/documents'))
  expect([...new Set(statuses)]).toEqual([200, 429])
  expect(await read(session, '/api/documents')).toBe(200)
  await close(1000)
})
