/** Endlessly slow sources: they are aborted with an error that says so, and delay no others. */
import type { ServerResponse } from 'node:http'
import { expect, test, vi } from 'vitest'
import { type Client, createClient } from '../../src/client/client.ts'
import { localTransport } from '../../src/client/local.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp } from '../support/app.ts'
import { startLying } from '../support/servers/lying-server.ts'

const minute = 60_000
const entry = (href: string, isFolder: boolean) =>
  `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype>${isFolder ? '<D:collection/>' : ''}</D:resourcetype>` +
  `<D:getcontentlength>100000</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`
const list = `<D:multistatus xmlns:D="DAV:">${['/', ...Array.from({ length: 8 }, (_, at) => `/${at}.txt`)].map((href) => entry(href, href === '/')).join('')}</D:multistatus>`

/** Sends a byte now and then, endlessly. */
function trickle(response: ServerResponse, first = ''): void {
  response.write(first)
  const timer = setInterval(() => response.write('x'), 50)
  response.on('close', () => clearInterval(timer))
}

const startShare = (
  read: (response: ServerResponse) => void,
  answer: (response: ServerResponse) => void = (response) => response.end(list),
) =>
  startLying('/', (request, response) => {
    if (request.method === 'GET') return read(response.writeHead(200, { 'content-length': '100000' }))
    answer(response.writeHead(207, { 'content-type': 'application/xml' }))
  })

test.each([
  ['files', startShare.bind(null, trickle)],
  ['lists', startShare.bind(null, trickle, (response) => trickle(response, '<?xml version="1.0"?><D:multistatus xmlns:D="DAV:"> '))],
] as const)('SOURCE_TOO_SLOW: %s that come byte by byte end the sync, and the source waits longer each time', async (_, start) => {
  const { asAda, runJobs, app } = await startApp({ 'ocr.enabled': false, 'sources.timeout': '1s', 'sources.min_rate': '1kB' })
  const share = await start()
  const { id } = await asAda.sources.create({ name: 'Slow', type: 'webdav', url: share.url })
  const waits: number[] = []
  for (const _again of [false, true]) {
    await asAda.sources.sync(id)
    await runJobs(['sync'])
    waits.push((Date.parse((await asAda.sources.get(id)).next_sync ?? '') - app.now().getTime()) / minute)
  }
  const source = await asAda.sources.get(id)
  expect(source).toMatchObject({ status: 'error', last_error: expect.stringContaining('sources.min_rate (1000)') })
  expect(await asAda.sources.syncStatus(id)).toMatchObject({ state: 'failed', created: 0, removed: 0, error: { code: 'SOURCE_TOO_SLOW' } })
  expect(waits.map(Math.round)).toEqual([60, 120])
})

test('a file that arrives slowly but above sources.min_rate is downloaded completely', async () => {
  const { asAda, runJobs } = await startApp({ 'ocr.enabled': false, 'sources.timeout': '1s', 'sources.min_rate': '1kB' })
  const share = await startShare((response) => {
    let left = 100
    const timer = setInterval(() => (left-- > 0 ? response.write('x'.repeat(1000)) : response.end()), 20)
    response.on('close', () => clearInterval(timer))
  })
  const { id } = await asAda.sources.create({ name: 'Slow', type: 'webdav', url: share.url, file_patterns: ['0.txt'] })
  await asAda.sources.sync(id)
  await runJobs(['sync'])
  expect(await asAda.sources.syncStatus(id)).toMatchObject({ state: 'completed', created: 1 })
})

test('SOURCE_TOO_SLOW: a sync ends after sources.max_duration', async () => {
  const { asAda, runJobs } = await startApp({ 'ocr.enabled': false, 'sources.min_rate': '0B', 'sources.max_duration': '2s' })
  const share = await startShare(trickle)
  const { id } = await asAda.sources.create({ name: 'Slow', type: 'webdav', url: share.url })
  await asAda.sources.sync(id)
  await runJobs(['sync'])
  expect(await asAda.sources.get(id)).toMatchObject({ status: 'error', last_error: expect.stringContaining('sources.max_duration (2 s)') })
})

test.each([
  ['OCR runs', 'resume'],
  ['OCR is paused', 'pause'],
])('while %s, a sync pauses for that of another user after its turn, and is continued', async (_, verb) => {
  const { app, asAda, asBob, ada, bob, admin, asAdmin } = await startApp({
    'ocr.enabled': false,
    'sources.min_rate': '0B',
    'sources.turn': '1s',
  })
  await asAdmin.call('POST', `/api/ocr/queue/${verb}`)
  const [slow, quick] = [await startShare(trickle), await startShare((response) => response.end('x'.repeat(100_000)))]
  const make = (client: typeof asAda, url: string, owner: string) =>
    client.sources.create({ name: owner, type: 'webdav', url, sync_interval: 0, file_patterns: ['0.txt'] })
  const sources = {
    ada: await make(asAda, slow.url, 'ada'),
    root: await make(asAdmin, slow.url, 'root'),
    bob: await make(asBob, quick.url, 'bob'),
  }
  const worker = await startWorker(app, { queues: ['sync'], concurrency: 1 })
  const owners = () => worker.running().map(({ job }) => job.owner_id)
  const first = { ada: await asAda.sources.sync(sources.ada.id), root: await asAdmin.sources.sync(sources.root.id) }
  await vi.waitFor(() => expect(owners().sort()).toEqual([ada.id, admin.id].sort()), { timeout: minute })
  await asBob.sources.sync(sources.bob.id)
  await vi.waitFor(async () => expect(await asBob.sources.syncStatus(sources.bob.id)).toMatchObject({ state: 'completed', created: 1 }), {
    timeout: minute,
  })
  // Whoever made room goes on with the same run, and no try was counted.
  await vi.waitFor(() => expect(owners().sort()).toEqual([ada.id, admin.id].sort()), { timeout: minute })
  expect(owners()).not.toContain(bob.id)
  const jobs = await app.db.selectFrom('jobs').select(['id', 'attempts']).where('kind', '=', 'sync').orderBy('id').execute()
  expect(jobs).toEqual(
    Object.values(first)
      .map(({ job_id }) => ({ id: job_id, attempts: 1 }))
      .sort((one, other) => (one.id < other.id ? -1 : 1)),
  )
  for (const { id } of [sources.ada, sources.root]) await asAdmin.sources.cancelSync(id)
  await worker.stop(minute)
})

test('a sync pauses for that of another source of its user after its turn, and is continued', async () => {
  const { app, asAda } = await startApp({ 'ocr.enabled': false, 'sources.min_rate': '0B', 'sources.turn': '1s' })
  const [slow, quick] = [await startShare(trickle), await startShare((response) => response.end('x'.repeat(100_000)))]
  const make = (url: string, name: string) =>
    asAda.sources.create({ name, type: 'webdav', url, sync_interval: 0, file_patterns: ['0.txt'] })
  const [first, second] = [await make(slow.url, 'slow'), await make(quick.url, 'quick')]
  const worker = await startWorker(app, { queues: ['sync'], concurrency: 1 })
  const { job_id } = await asAda.sources.sync(first.id)
  const running = () => worker.running().map(({ job }) => job.id)
  await vi.waitFor(() => expect(running()).toEqual([job_id]), { timeout: minute })
  await asAda.sources.sync(second.id)
  const status = () => asAda.sources.syncStatus(second.id)
  await vi.waitFor(async () => expect(await status()).toMatchObject({ state: 'completed', created: 1 }), { timeout: minute })
  await vi.waitFor(() => expect(running()).toEqual([job_id]), { timeout: minute })
  await asAda.sources.cancelSync(first.id)
  await worker.stop(minute)
})

test('a sync whose listing takes longer than its turn completes, though another user always waits', async () => {
  const { app, asAda, asBob, asAdmin } = await startApp({ 'ocr.enabled': false, 'sources.turn': '1s' })
  const files = (names: readonly string[]) =>
    `<D:multistatus xmlns:D="DAV:">${names.map((name) => entry(name, name.endsWith('/'))).join('')}</D:multistatus>`
  // Folders in folders: each list is requested after the one before.
  const share = await startLying('/', (request, response) => {
    if (request.method === 'GET') return response.writeHead(200, { 'content-length': '100000' }).end('x'.repeat(100_000))
    const folder = request.url ?? '/'
    const last = folder.split('/').length > 7
    const names = [folder, `${folder}file.txt`, ...(last ? [] : [`${folder}next/`])]
    setTimeout(() => response.writeHead(207, { 'content-type': 'application/xml' }).end(files(names)), 300)
  })
  const quick = await startShare((response) => response.end('x'.repeat(100_000)))
  const make = (client: typeof asAda, url: string) =>
    client.sources.create({ name: 'Share', type: 'webdav', url, sync_interval: 0, file_patterns: ['*.txt'] })
  const deep = [await make(asAda, share.url), await make(asAdmin, share.url)]
  const other = await make(asBob, quick.url)
  const worker = await startWorker(app, { queues: ['sync'], concurrency: 1 })
  for (const { id } of deep) await asAdmin.sources.sync(id)
  const wait = async (): Promise<void> => {
    await asBob.sources.sync(other.id).catch(() => {})
    for (const { id } of deep) expect(await asAdmin.sources.syncStatus(id)).toMatchObject({ state: 'completed', created: 7 })
  }
  await vi.waitFor(wait, { timeout: minute, interval: 100 })
  await worker.stop(minute)
})

test('429 RATE_LIMITED for the third test or plan of a user at once, 503 for the ninth of all, and neither after one has ended', async () => {
  const { app, asAdmin } = await startApp()
  const waiting: ServerResponse[] = []
  const share = await startLying('/', (_, response) => void waiting.push(response))
  const server = buildServer(app)
  const clients = await Promise.all(
    Array.from({ length: 5 }, async (_, nth) => {
      const { id, username } = await asAdmin.users.create({ username: `user${nth}`, email: `${nth}@example.org`, password: null })
      return createClient(localTransport(app, { id, username, role: 'user' }, server))
    }),
  )
  const [first, , , , last] = clients as [Client, Client, Client, Client, Client]
  const { id } = await first.sources.create({ name: 'Slow', type: 'webdav', url: share.url, sync_interval: 0 })
  const test = (client: Client) => client.sources.testAddress({ type: 'webdav', url: share.url })
  const running = clients.slice(0, 4).flatMap((client) => [test(client), test(client)])
  await vi.waitFor(() => expect(waiting).toHaveLength(8), { timeout: minute })
  for (const third of [() => test(first), () => first.sources.test(id), () => first.sources.planSync(id)])
    await expect(third()).rejects.toMatchObject({ status: 429, code: 'RATE_LIMITED', details: { retry_after_secs: expect.any(Number) } })
  await expect(test(last)).rejects.toMatchObject({ status: 503, code: 'SERVICE_UNAVAILABLE' })
  for (const response of waiting.splice(0)) response.writeHead(404).end()
  await Promise.all(running)
  const others = [test(first), test(last)]
  await vi.waitFor(() => expect(waiting).toHaveLength(2), { timeout: minute })
  for (const response of waiting) response.writeHead(404).end()
  expect(await Promise.all(others)).toMatchObject([{ ok: false }, { ok: false }])
})
