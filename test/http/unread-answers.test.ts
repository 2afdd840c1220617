/** Clients that request much and read nothing: they use neither the memory nor the time of others. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { sessionCookie } from '../../src/auth/page-session.ts'
import { upload } from '../support/app.ts'
import { documentWith } from '../support/data/long-documents.ts'
import { makeFolder } from '../support/data/source-folder.ts'
import { waitedMs } from '../support/processes/run-queue.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

vi.setConfig({ testTimeout: 180_000 })

const mebibyte = 1 << 20
type Server = Awaited<ReturnType<typeof startServer>>

/** Opens connections that request these paths repeatedly and read nothing. */
async function askWithoutReading({ dial, token }: Server, paths: readonly string[], times: number): Promise<() => void> {
  const sockets = await Promise.all(paths.map(dial))
  const stop = () => {
    for (const socket of sockets) socket.destroy()
  }
  onTestFinished(stop)
  for (const [at, socket] of sockets.entries()) {
    socket.on('error', () => {}).pause()
    socket.write(`GET ${paths[at]} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`.repeat(times))
  }
  return stop
}

async function bytesInFlight({ app, admin, url }: Server): Promise<number> {
  const headers = { authorization: `Bearer ${await tokenFor(app, admin)}` }
  const text = await (await fetch(new URL('/metrics', url), { headers })).text()
  return Number(/^dms_http_answer_bytes_in_flight (\d+)/m.exec(text)?.[1])
}

test('60 large lists and texts that nobody reads: memory stays bounded, and another user is still answered', async () => {
  const server = await startServer({ 'limits.answer_bytes_per_user': '16MB', 'limits.answer_bytes_total': '64MB' })
  const { app, asAda, bob, url } = server
  const text = 'Words that make a text which is long. '.repeat(100_000)
  const ids: string[] = []
  for (let made = 0; made < 8; made++) ids.push(await documentWith(app, asAda, text))
  const headers = { authorization: `Bearer ${await tokenFor(app, bob)}` }
  const settings = async () => {
    const [before, waited] = [performance.now(), waitedMs()]
    expect((await fetch(new URL('/api/settings', url), { headers })).status).toBe(200)
    return performance.now() - before - (waitedMs() - waited)
  }
  await settings()
  const before = process.memoryUsage.rss()

  const paths = Array.from({ length: 60 }, (_, at) =>
    at % 3 === 0
      ? '/api/documents?fields=id,content'
      : at % 3 === 1
        ? `/api/documents/${ids[at % 8]}`
        : `/api/documents/${ids[at % 8]}/text`,
  )
  const stop = await askWithoutReading(server, paths, 1)
  const [waits, inFlight, grown]: [number[], number[], number[]] = [[], [], []]
  for (let round = 0; round < 40; round++, await sleep(100)) {
    waits.push(await settings())
    inFlight.push(await bytesInFlight(server))
    grown.push(process.memoryUsage.rss() - before)
  }
  // Whole they would be 600 MB as bytes, and three times that on their way.
  expect({ grownMiB: Math.max(...grown) / mebibyte, waitedMs: Math.max(...waits) }).toEqual({
    grownMiB: expect.toSatisfy((mebibytes: number) => mebibytes < 300),
    waitedMs: expect.toSatisfy((ms: number) => ms < 2000),
  })
  expect(Math.max(...inFlight)).toBeGreaterThan(0)
  expect(Math.max(...inFlight)).toBeLessThanOrEqual(16 * mebibyte)

  stop()
  await vi.waitFor(async () => expect(await bytesInFlight(server)).toBe(0), 30_000)
  expect((await asAda.documents.get(ids[0] ?? '')).content === text).toBe(true)
})

/** A request waits for memory before it is refused: both wait at the same time. */
test('with Retry-After: 429 RATE_LIMITED while unread answers of the user fill the limit, 503 SERVICE_UNAVAILABLE while those of all do', async () => {
  await Promise.all([refusedByOwnLimit(), refusedByCommonLimit()])
})

async function refusedByOwnLimit(): Promise<void> {
  const server = await startServer({ 'limits.answer_bytes_per_user': '4MB', 'limits.answer_bytes_total': '64MB' })
  const { app, asAda, bob, url, fetch: fetchAsAda } = server
  const id = await documentWith(app, asAda, 'long '.repeat(4_000_000))
  await askWithoutReading(server, [`/api/documents/${id}/text`], 1)
  await vi.waitFor(async () => expect(await bytesInFlight(server)).toBeGreaterThan(0), 30_000)
  const refused = await fetchAsAda('/api/documents')
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
  expect(await refused.json()).toMatchObject({ retry_after_secs: 5, error: { code: 'RATE_LIMITED' } })
  // What is small is never refused for that.
  expect((await fetchAsAda('/api/settings')).status).toBe(200)
  const headers = { authorization: `Bearer ${await tokenFor(app, bob)}` }
  expect((await fetch(new URL('/api/documents', url), { headers })).status).toBe(200)
}

async function refusedByCommonLimit(): Promise<void> {
  const server = await startServer({ 'limits.answer_bytes_per_user': '4MB', 'limits.answer_bytes_total': '4MB' })
  const { app, asAda, bob, url } = server
  const id = await documentWith(app, asAda, 'long '.repeat(4_000_000))
  await askWithoutReading(server, [`/api/documents/${id}`], 1)
  await vi.waitFor(async () => expect(await bytesInFlight(server)).toBeGreaterThan(0), 30_000)
  const headers = { authorization: `Bearer ${await tokenFor(app, bob)}` }
  const refused = await fetch(new URL('/api/documents', url), { headers })
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5'])
}

test('429 RATE_LIMITED while unread downloads of the user fill the limit; lists and other users do not wait for them', async () => {
  const server = await startServer({ 'limits.answer_bytes_per_user': '4MB' })
  const { app, asAda, bob, asBob, url, fetch: fetchAsAda } = server
  const bytes = randomBytes(40 << 20)
  const path = `/api/documents/${(await upload(asAda, 'a.bin', bytes)).id}/download`
  const pathOfBob = `/api/documents/${(await upload(asBob, 'b.bin', bytes)).id}/download`
  const stop = await askWithoutReading(server, Array<string>(10).fill(path), 1)
  await vi.waitFor(async () => expect(await bytesInFlight(server)).toBe(3 * mebibyte), 30_000)
  const cookie = sessionCookie(app, server.token).split(';')[0]!
  const [refused, onPage] = await Promise.all([fetchAsAda(path), fetch(new URL(path.replace('/api', ''), url), { headers: { cookie } })])
  expect([refused.status, refused.headers.get('retry-after'), onPage.status]).toEqual([429, '5', 429])
  expect(await refused.json()).toMatchObject({ retry_after_secs: 5, error: { code: 'RATE_LIMITED' } })
  expect(await bytesInFlight(server)).toBe(3 * mebibyte)
  expect((await fetchAsAda('/api/documents')).status).toBe(200)
  const headers = { authorization: `Bearer ${await tokenFor(app, bob)}` }
  expect((await (await fetch(new URL(pathOfBob, url), { headers })).bytes()).length).toBe(bytes.length)
  stop()
  await vi.waitFor(async () => expect(await bytesInFlight(server)).toBe(0), 30_000)
  expect((await fetchAsAda(path)).status).toBe(200)
})

test('a client that disconnects while its request waits for memory uses none', async () => {
  const server = await startServer({ 'limits.answer_bytes_per_user': '4MB' })
  const { app, asAda } = server
  const id = await documentWith(app, asAda, 'long '.repeat(4_000_000))
  const stopFirst = await askWithoutReading(server, [`/api/documents/${id}/text`], 1)
  await vi.waitFor(async () => expect(await bytesInFlight(server)).toBeGreaterThan(0), 30_000)
  const stopOthers = await askWithoutReading(server, ['/api/documents', `/api/documents/${id}`, `/api/documents/${id}/text`], 1)
  await sleep(300)
  stopOthers()
  await sleep(100)
  stopFirst()
  await vi.waitFor(async () => expect(await bytesInFlight(server)).toBe(0), 30_000)
  expect((await server.fetch('/api/documents')).status).toBe(200)
})

test('answers without a body to a token without the scope read hold no memory', async () => {
  const folder = await makeFolder()
  const server = await startServer({ 'sources.local_roots': folder.root })
  const { asAdmin, url } = server
  await folder.put('a.txt', 'alpha')
  const { id } = await asAdmin.sources.create({ name: 'Folder', type: 'local_folder', url: folder.root })
  const { token } = await asAdmin.tokens.create({ name: 'writer', scopes: ['write'] })
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  for (let time = 0; time < 5; time++) {
    const answer = await fetch(new URL(`/api/sources/${id}/sync/plan`, url), { method: 'POST', headers, body: '{}' })
    expect([answer.status, await answer.text()]).toEqual([204, ''])
  }
  expect(await bytesInFlight(server)).toBe(0)
})
