/** F07: two servers on one database and one folder. Limits, revocations and events of one server apply to the other. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../support/servers/free-port.ts'
import type { Answer } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { joinLive } from '../network/sockets.ts'
import { picture } from './tesseract.ts'

/** comments_per_minute, max_views of the link, ws_connections_per_user */
const limits = { comments: 10, views: 5, sockets: 5 }
/** maximum milliseconds until a change reaches the other server, on a busy machine */
const mostMs = 60_000

export const twoServers: Fault = { id: 'F07', name: 'two servers on one database: limits, endings and events', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const env = { DMS_WORKER_EMBEDDED: 'false', DMS_SOURCES_TIMEOUT: '10m' }
  const ports = [installation.port, await freePort()] as const
  const serve = (port: number) => installation.start({ env, command: ['serve', '--port', String(port)] })
  const first = await serve(ports[0])
  let second = await serve(ports[1])
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const at = (server: number, path: string) => `http://127.0.0.1:${ports[server % 2]}${path}`
  const bodyOf = <T>({ body }: Answer) => JSON.parse(body.toString()) as T
  /** Sends 20 requests at once, alternating between the servers. Returns the number of answers with `status`. */
  const atBoth = async (status: number, ask: (server: number, nth: number) => Promise<Answer>) =>
    (await Promise.all(Array.from({ length: 20 }, (_, nth) => ask(nth % 2, nth)))).filter((answer) => answer.status === status).length

  // Limits are counted over both.
  const { id = '' } = await caller.uploadText()
  const comments = await atBoth(201, (server, nth) =>
    caller.call('POST', at(server, `/api/comments/documents/${id}/comments`), {
      what: 'comment',
      ...caller.json({ content: `comment ${nth}` }),
    }),
  )
  expect(comments === limits.comments, `${comments} comments within a minute, ${limits.comments} are allowed`)
  const shared = await caller.call('POST', '/api/shared-links', {
    what: 'share',
    ...caller.json({ document_id: id, max_views: limits.views }),
  })
  const { token: link } = bodyOf<{ token: string }>(shared)
  const views = await atBoth(200, (server) =>
    caller.call('POST', at(server, `/api/public/shared/${link}/download`), { what: 'visit', ...caller.json({}) }),
  )
  expect(views === limits.views, `${views} views of a link with max_views ${limits.views}`)

  // WebSockets too are limited over both, and events of one server arrive at the other.
  const received = new Map<number, number>()
  const joined = await Promise.all(
    Array.from({ length: 12 }, (_, nth) =>
      joinLive(ports[nth % 2] ?? 0, caller.token(), ['document_created'], ({ type }) => {
        if (type === 'document_created') received.set(nth, (received.get(nth) ?? 0) + 1)
      }),
    ),
  )
  const open = joined.filter((socket) => socket !== null)
  expect(open.length === limits.sockets, `${open.length} WebSockets of one user, ${limits.sockets} are allowed`)
  const documents = isShort ? 20 : 200
  for (let nth = 0; nth < documents; nth++) await caller.uploadText()
  const expected = open.length * documents
  const total = () => [...received.values()].reduce((sum, count) => sum + count, 0)
  for (const end = performance.now() + mostMs; total() < expected && performance.now() < end; ) await sleep(50)
  expect(total() === expected, `${total()} of ${expected} events arrived`)
  notes.push(`events delivered ${((100 * total()) / expected).toFixed(0)} %`)
  for (const socket of open) socket.tcp.destroy()

  // A token that is revoked at one is refused at the other.
  const made = await caller.call('POST', '/api/tokens', { what: 'token', ...caller.json({ name: 'of two servers', scopes: ['read'] }) })
  const token = bodyOf<{ id: string; token: string }>(made)
  const use = () =>
    caller.call('GET', at(1, '/api/documents?per_page=1'), { what: 'with the token', headers: { authorization: `Bearer ${token.token}` } })
  expect((await use()).status === 200, 'a new token is refused at the other server')
  await caller.call('DELETE', `/api/tokens/${token.id}`, { what: 'revoke' })
  const revokedAt = performance.now()
  while ((await use()).status !== 401 && performance.now() - revokedAt < mostMs) await sleep(10)
  expect((await use()).status === 401, 'a revoked token is taken at the other server')
  notes.push(`a revoked token is refused at the other server after ${(performance.now() - revokedAt).toFixed(0)} ms`)

  // A job that is cancelled at one is not begun by a worker.
  const scan = await caller.upload(await picture(), 'scan.png')
  const [job] = await installation.query<{ id: string }>(`select id from jobs where document_id = '${scan.id}'`)
  await caller.call('DELETE', at(1, `/api/ocr/queue/${job?.id}`), { what: 'cancel' })
  const seen = await caller.call('GET', `/api/ocr/queue/${job?.id}`, { what: 'job' })
  expect(
    bodyOf<{ status: string }>(seen).status === 'cancelled',
    `a job cancelled at the other server is ${bodyOf<{ status: string }>(seen).status}`,
  )

  // A starting server does not change the syncs of other servers.
  const share = await slowShare()
  const source = await caller.call('POST', '/api/sources', {
    what: 'source',
    ...caller.json({ name: 'slow', type: 'webdav', url: share.url, sync_interval: 86_400 }),
  })
  const worker = await installation.startWorker({ env })
  const sourceId = bodyOf<{ id: string }>(source).id
  await caller.call('POST', `/api/sources/${sourceId}/sync`, { what: 'sync' })
  const sync = async () =>
    (
      await installation.query<{ status: string; attempts: number; fence: number }>(
        `select status, attempts, fence from jobs where kind = 'sync' order by created_at desc limit 1`,
      )
    )[0]
  for (const end = performance.now() + mostMs; !share.isAsked() && performance.now() < end; ) await sleep(50)
  const running = JSON.stringify(await sync())
  expect(running?.includes('processing'), `the sync is ${running}`)
  await second.kill()
  second = await installation.start({ env: { ...env, DMS_WORKER_EMBEDDED: 'true' }, command: ['serve', '--port', String(ports[1])] })
  await sleep(1500)
  expect(
    JSON.stringify(await sync()) === running,
    `a starting server changed a running sync: ${JSON.stringify(await sync())}, not ${running}`,
  )
  share.release()
  const stateOf = async () => bodyOf<{ status: string }>(await caller.call('GET', `/api/sources/${sourceId}`, { what: 'source' }))
  for (const end = performance.now() + mostMs; (await stateOf()).status === 'syncing' && performance.now() < end; ) await sleep(100)
  const { status } = await stateOf()
  expect(status === 'active', `after its sync the source is ${status}`)
  const runs = await installation.query(`select id from source_syncs where source_id = '${sourceId}'`)
  expect(runs.length === 1, `one sync was asked for, and ${runs.length} ran`)
  await share.close()

  const result = await faultRun.finish('2 servers, 1 worker')
  for (const one of [worker, second, first]) await one.kill()
  return result
}

/** A WebDAV server without files that answers only after it is released. */
async function slowShare() {
  const released = Promise.withResolvers<void>()
  let isAsked = false
  const server = createServer(async (request, response) => {
    isAsked = true
    request.resume()
    await released.promise
    const root =
      '<response><href>/</href><propstat><prop><resourcetype><collection/></resourcetype></prop><status>HTTP/1.1 200 OK</status></propstat></response>'
    response
      .writeHead(207, { 'content-type': 'application/xml; charset=utf-8', dav: '1' })
      .end(`<?xml version="1.0"?><multistatus xmlns="DAV:">${root}</multistatus>`)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    isAsked: () => isAsked,
    release: () => released.resolve(),
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
