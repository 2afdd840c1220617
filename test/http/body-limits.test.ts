/** Limits of bodies: bytes, nesting, values, and time of the event loop. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, onTestFinished, test, vi } from 'vitest'
import { parseScanned } from '../../src/http/json/parse.ts'
import { maxDepth, maxNames, maxValues, openJsonScanner } from '../../src/http/json/scanner.ts'
import { upload } from '../support/app.ts'
import { slowness, waitedMs } from '../support/processes/run-queue.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

vi.setConfig({ testTimeout: 120_000 })

const json = { 'content-type': 'application/json' }
/** Returns JSON of exactly this many bytes. */
const padded = (bytes: number, before = '{"username":"a","password":"', after = '"}') =>
  before + 'x'.repeat(bytes - before.length - after.length) + after

type Failure = { error: { code: string; message: string; details: { max_bytes?: number; issues?: { path: string; message: string }[] } } }

test('413 PAYLOAD_TOO_LARGE from 64 kB without a session, from 1 MB with one, and from the limit of the route', async () => {
  const dms = await startServer()
  const admin = { ...json, authorization: `Bearer ${await tokenFor(dms.app, dms.admin)}` }
  const { id } = await upload(dms.asAda, 'a.txt', 'hello')
  const statusOf = async (method: string, path: string, body: string, headers: Record<string, string>) => {
    const response = await fetch(new URL(path, dms.url), { method, body, headers })
    const { error } = (await response.json()) as Partial<Failure>
    return [response.status, error?.details.max_bytes]
  }
  const login = (bytes: number) => statusOf('POST', '/api/auth/login', padded(bytes), json)
  expect(await login(64_001)).toEqual([413, 64_000])
  expect((await login(64_000))[0]).toBe(400)
  // A token does not widen a route that never looks at one.
  expect(await statusOf('POST', '/api/auth/login', padded(64_001), admin)).toEqual([413, 64_000])

  const change = (bytes: number) => statusOf('PUT', `/api/documents/${id}`, padded(bytes, '{"ignored":"'), admin)
  expect(await change(1_000_001)).toEqual([413, 1_000_000])
  expect((await change(1_000_000))[0]).toBe(200)

  const advanced = (bytes: number) => statusOf('POST', '/api/search/advanced', padded(bytes, '{"ignored":"'), admin)
  expect(await advanced(256_001)).toEqual([413, 256_000])
  expect((await advanced(256_000))[0]).toBe(200)

  const users = Array.from({ length: 40 }, (_, index) => ({ username: `u${index}`, note: 'x'.repeat(380_000) }))
  expect((await statusOf('POST', '/api/users/import?dry_run=true', JSON.stringify(users), admin))[0]).toBe(200)
  expect(await statusOf('POST', '/api/users/import', padded(16_000_001, '[{"note":"', '"}]'), admin)).toEqual([413, 16_000_000])
})

test('limits.max_body_size and limits.max_body_size_anonymous are configurable; limits.max_request_size is the maximum', async () => {
  const statusesOf = async (settings: Record<string, string>) => {
    const dms = await startServer(settings)
    const init = { method: 'POST', body: padded(2500, '{"email":"a@example.org","ignored":"'), headers: json }
    const anonymous = await fetch(new URL('/api/auth/verify-email/resend', dms.url), init)
    return [anonymous.status, (await dms.fetch('/api/auth/verify-email/resend', init)).status]
  }
  expect(await statusesOf({ 'limits.max_body_size': '2kB', 'limits.max_body_size_anonymous': '3kB' })).toEqual([202, 413])
  expect(await statusesOf({ 'limits.max_body_size': '3kB', 'limits.max_body_size_anonymous': '2kB' })).toEqual([413, 202])
  expect(await statusesOf({ 'limits.max_request_size': '1kB' })).toEqual([413, 413])
})

test('a body of 10 MB of numbers is refused at once and delays no other request', async () => {
  const dms = await startServer()
  const zeros = Buffer.from(`[${'0,'.repeat(5_000_000)}0]`)
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const waited = waitedMs()
  delay.enable()
  const answers = await Promise.all(Array.from({ length: 5 }, () => dms.say(Buffer.concat([head('/api/auth/login', zeros.length), zeros]))))
  delay.disable()
  // The whole test runs in this process; parsing one of these took 2 s and more.
  expect(delay.max / 1e6 - (waitedMs() - waited)).toBeLessThan(1000 * slowness())
  for (const answer of answers) expect(answer).toMatch(/^HTTP\/1.1 413 [\s\S]*PAYLOAD_TOO_LARGE/)
  expect((await dms.fetch('/healthz')).status).toBe(200)
})

const head = (path: string, length: number) =>
  Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`,
  )

test('400 VALIDATION_ERROR with the byte where nesting exceeds 64, values exceed 100,000 or names exceed 10,000', async () => {
  const { fetch, asAda } = await startServer()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const put = async (value: string) => {
    const response = await fetch(`/api/documents/${id}`, { method: 'PUT', body: `{"ignored":{"v":${value}}}`, headers: json })
    const { error } = (await response.json()) as Partial<Failure>
    return [response.status, error?.details.issues?.[0]?.message]
  }
  const arrays = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  const numbers = (count: number) => `[${Array.from({ length: count }, () => 0).join()}]`
  // The body, the field and the array of numbers are values themselves.
  expect(await put(numbers(maxValues - 3))).toEqual([200, undefined])
  expect(await put(numbers(maxValues - 2))).toEqual([400, expect.stringMatching(/^more than 100000 values, at byte \d{6}$/)])
  const names = (count: number) => `{${Array.from({ length: count }, (_, index) => `"k${index}":0`).join()}}`
  expect(await put(names(maxNames - 2))).toEqual([200, undefined])
  expect(await put(names(maxNames - 1))).toEqual([400, expect.stringMatching(/^more than 10000 names, at byte \d+$/)])
  expect(await put(`0},"list":[${[names(maxNames), names(maxNames)].join()}],"v":{`)).toEqual([200, undefined])
  expect(await put(arrays(maxDepth - 2))).toEqual([200, undefined])
  expect(await put(arrays(maxDepth - 1))).toEqual([400, 'nested more than 64 deep, at byte 78'])
  expect(await put(`0.${'9'.repeat(300)}`)).toEqual([200, undefined])
  expect(await put('9'.repeat(1001))).toEqual([400, expect.stringMatching(/^a number of more than 1000 characters, at byte 101\d$/)])
  // Brackets inside of strings are text.
  expect(await put(`"${'[{,'.repeat(100_000)}\\"["`)).toEqual([200, undefined])
})

test('the limit of values applies while the body arrives: the answer does not wait for its end', async () => {
  const { dial } = await startServer({ 'limits.max_body_size_anonymous': '10MB' })
  const socket = await dial()
  socket.write(head('/api/auth/login', 9_000_000))
  socket.write(`[${'0,'.repeat(150_000)}`)
  const answer = await new Promise<string>((resolve) => socket.once('data', (data) => resolve(String(data))))
  expect(answer).toMatch(/^HTTP\/1.1 400 [\s\S]*more than 100000 values, at byte \d{6}/)
  socket.destroy()
})

test('400 VALIDATION_ERROR for a body that takes longer than a minute and a second for each 16 kB; faster ones may take minutes', async () => {
  const dms = await startServer()
  const now = performance.now.bind(performance)
  /** Sends half of a body, and the other half `ms` later. Returns the answer. */
  const login = async (bytes: number, ms: number) => {
    const socket = connect(Number(new URL(dms.url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    const body = padded(bytes)
    const head = `POST /api/auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`
    socket.write(head + body.slice(0, bytes / 2))
    await sleep(300)
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
    socket.write(body.slice(bytes / 2))
    const [answer] = (await once(socket, 'data')) as [Buffer]
    clock.mockRestore()
    return answer.toString()
  }
  const slow = await login(100, 61_000)
  expect(slow).toMatch(/^HTTP\/1.1 400 .*"message":"the body arrives too slowly: send it again"/s)
  expect(await login(100, 50_000)).toMatch(/^HTTP\/1.1 401 /)
  expect(await login(60_000, 62_000)).not.toContain('too slowly')
})

test('an answer lists at most the first 100 problems', async () => {
  const { asAda, asAdmin } = await startServer()
  const issuesOf = async (response: Response) => ((await response.json()) as Failure).error.details.issues ?? []
  const ids = await issuesOf(await asAda.send('POST', '/api/ocr/queue/retry', { ids: Array.from({ length: 10_000 }, () => 'none') }))
  expect(ids.length).toBeLessThanOrEqual(100)
  const sums = await issuesOf(await asAda.send('POST', '/api/documents/known', { sha256: Array.from({ length: 1000 }, () => 'none') }))
  expect(sums.length).toBe(100)
  expect(sums.slice(0, 2).map(({ path }) => path)).toEqual(['sha256.0', 'sha256.1'])
  const longer = await issuesOf(
    await asAda.send('POST', `/api/labels/${randomUUID()}/assign`, { document_ids: Array.from({ length: 10_001 }, () => 0) }),
  )
  expect(longer).toEqual([{ path: 'document_ids', message: expect.stringContaining('10000') }])
  const keys = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, 0]))
  const unknown = await issuesOf(await asAdmin.send('POST', '/api/search/advanced', { filters: keys }))
  expect(JSON.stringify(unknown).length).toBeLessThan(2000)
})

test('users import: 16 MB of rows block no other request for 100 ms, and every row has its result', async () => {
  const { app, admin, url } = await startServer()
  const headers = { ...json, authorization: `Bearer ${await tokenFor(app, admin)}` }
  const rows = Array.from({ length: 10_000 }, (_, index) => ({
    username: `ü${index}`,
    email: 'not an address',
    display_name: '\u{fdfa}'.repeat(500) + index,
  }))
  const users = Buffer.from(JSON.stringify({ on_conflict: 'skip', users: rows }))
  expect(users.length).toBeGreaterThan(15_000_000)
  const worst = async () => {
    const delay = monitorEventLoopDelay({ resolution: 1 })
    const waited = waitedMs()
    delay.enable()
    const response = await fetch(new URL('/api/users/import?dry_run=true', url), { method: 'POST', body: users, headers })
    delay.disable()
    const { failed, results } = (await response.json()) as { failed: number; results: { username: string }[] }
    expect([response.status, failed, results.length, results.at(-1)?.username]).toEqual([200, 10_000, 10_000, 'ü9999'])
    return delay.max / 1e6 - (waitedMs() - waited)
  }
  const first = await worst()
  const mostMs = 100 * slowness()
  if (first >= mostMs) expect(await worst()).toBeLessThan(mostMs)
})

const parsed = async (text: string): Promise<unknown> => {
  const bytes = Buffer.from(text)
  const scanner = openJsonScanner()
  for (let start = 0; start < bytes.length; start += 65_536) scanner.push(bytes.subarray(start, start + 65_536))
  return parseScanned(bytes, scanner)
}

test('the incremental parser returns what JSON.parse returns', async () => {
  const member = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value)),
    fc.constantFrom('"],[{\\""', ' {"a":[1,[2]]} ', '[]', '{}', '[ ]', '"\\\\"', '\n"\ufeff"', '', '1 2', '}', ']', '01'),
    fc.constant(`"${'é'.repeat(100_000)}"`),
  )
  const list = fc.array(member, { maxLength: 20 }).map((members) => `[${members.join()}]`)
  const text = fc.oneof(
    list,
    fc
      .array(fc.tuple(fc.constantFrom('"users"', '"b"', '"\\u0062"', 'c'), fc.oneof(list, member)))
      .map((pairs) => `{${pairs.map(([key, value]) => `${key}:${value}`).join(' ,\n')}}`),
  )
  let good = 0
  await fc.assert(
    fc.asyncProperty(text, fc.constantFrom('', ' ', 'x', ']', ','), async (body, behind) => {
      // Padding that makes it large, and no value more.
      const whole =
        body.replace(/^\{(?!\})/, `{"pad":["${'p'.repeat(600_000)}","${'q'.repeat(700_000)}"],`) +
        ' '.repeat(body.startsWith('[') ? 0 : 1) +
        behind
      const large = whole.startsWith('[') ? whole.replace(/^\[(?!\s*\])/, `["${'p'.repeat(600_000)}","${'q'.repeat(700_000)}",`) : whole
      const expected = await Promise.resolve(large)
        .then(JSON.parse)
        .catch(() => undefined)
      if (expected === undefined)
        return void expect(
          await parsed(large).then(
            () => 'parsed',
            () => 'refused',
          ),
        ).toBe('refused')
      good++
      expect(await parsed(large)).toEqual(expected)
    }),
    { numRuns: 150, seed: 5 },
  )
  expect(good).toBeGreaterThan(20)
})
