import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { mixedLoad } from '../faults/caller.ts'
import { openFaultRun } from '../faults/fault.ts'
import { openInstallation, type RunningProcess } from '../faults/installation.ts'
import { followEvents } from '../faults/processes/rolling-restart.ts'
import { openS3Store } from '../faults/storage/s3-store.ts'
import { freePort } from '../support/servers/free-port.ts'
import { startLying } from '../support/servers/lying-server.ts'
import { openRoundRobin } from '../support/servers/round-robin.ts'
import { hasS3Server } from '../support/servers/s3-server.ts'

const url = process.env.OPENSEARCH_URL ?? ''
const timeout = 1_800_000
const waitTimeoutMs = 120_000
/** Documents that are acknowledged before and after each kill. */
const between = 8
/** Default limits.comments_per_minute, and max_views of the link. */
const limits = { comments: 10, views: 5 }

const emptyFolder =
  '<response><href>/</href><propstat><prop><resourcetype><collection/></resourcetype></prop><status>HTTP/1.1 200 OK</status></propstat></response>'

describe.skipIf(url === '')(`A fleet${url === '' ? ' (skipped: OPENSEARCH_URL names no server)' : ''}`, () => {
  test.skipIf(url === '' || !hasS3Server())(
    'two servers and three workers on S3 and OpenSearch, one of each killed under load: nothing is lost or doubled; limits, revocation, events and schedules hold',
    { timeout },
    async () => {
      const place = await openInstallation()
      onTestFinished(() => place.remove())
      const store = await openS3Store(place)
      const index = `test-${crypto.randomUUID()}`
      onTestFinished(async () => {
        await fetch(`${url}/${index}-*`, { method: 'DELETE' })
      })
      const env = {
        ...store.env('s3'),
        ...{ DMS_SEARCH_ENGINE: 'opensearch', DMS_OPENSEARCH_URLS: url, DMS_OPENSEARCH_INDEX: index, DMS_OPENSEARCH_REPLICAS: '0' },
        ...{ DMS_WORKER_EMBEDDED: 'false', DMS_WORKER_CONCURRENCY: '1', DMS_OPENSEARCH_TIMEOUT: '60s' },
      }
      const ports = [place.port, await freePort()] as const
      const serve = (port: number) => place.start({ env, command: ['serve', '--port', String(port)] })
      const servers: RunningProcess[] = []
      for (const port of ports) servers.push(await serve(port))
      const workers = await Promise.all([1, 2, 3].map(() => place.startWorker({ env })))
      const proxy = await openRoundRobin(ports.map((port) => new URL(`http://127.0.0.1:${port}`)))
      onTestFinished(proxy.close)
      const trial = await openFaultRun({ ...place, url: proxy.url }, 60_000)
      const { caller, ledger } = trial
      const bodyOf = <T>({ body }: { body: Buffer }) => JSON.parse(body.toString()) as T

      const events = await followEvents(proxy.url, caller.token())
      const stop = new AbortController()
      const load = mixedLoad(caller, ledger, { signal: stop.signal, concurrency: 4, size: 300_000 })
      const untilMore = async () => {
        const end = performance.now() + waitTimeoutMs
        for (const goal = ledger.acknowledged + between; ledger.acknowledged < goal && performance.now() < end; ) await sleep(50)
      }
      await untilMore()
      await workers[0]!.kill()
      await untilMore()
      await servers[1]!.kill()
      await untilMore()
      servers[1] = await serve(ports[1])
      await untilMore()
      stop.abort()
      await load
      for (const id of [...ledger.uploads.keys()].slice(0, 10)) {
        const { status } = await caller.call('DELETE', `/api/documents/${id}`, { what: 'delete' })
        expect(status).toBe(204)
        ledger.deleted.add(id)
      }

      // Every other request goes to the other server.
      const atBoth = async (status: number, ask: (nth: number) => ReturnType<typeof caller.call>) =>
        (await Promise.all(Array.from({ length: 20 }, (_, nth) => ask(nth)))).filter((answer) => answer.status === status).length
      const { id = '' } = await caller.uploadText()
      const comments = `/api/comments/documents/${id}/comments`
      expect(
        await atBoth(201, (nth) => caller.call('POST', comments, { what: 'comment', ...caller.json({ content: `comment ${nth}` }) })),
      ).toBe(limits.comments)
      const shared = await caller.call('POST', '/api/shared-links', caller.json({ document_id: id, max_views: limits.views }))
      const visit = `/api/public/shared/${bodyOf<{ token: string }>(shared).token}/download`
      expect(await atBoth(200, () => caller.call('POST', visit, { what: 'visit', ...caller.json({}) }))).toBe(limits.views)

      const made = await caller.call('POST', '/api/tokens', caller.json({ name: 'of a fleet', scopes: ['read'] }))
      const token = bodyOf<{ id: string; token: string }>(made)
      const authorized = { what: 'with the token', headers: { authorization: `Bearer ${token.token}` } }
      const use = () => caller.call('GET', '/api/documents?per_page=1', authorized)
      expect([(await use()).status, (await use()).status]).toEqual([200, 200])
      await caller.call('DELETE', `/api/tokens/${token.id}`)
      await expect.poll(async () => [(await use()).status, (await use()).status]).toEqual([401, 401])

      // Each sync that is due is run by one worker.
      const share = await startLying('', (_request, response) => {
        const head = { 'content-type': 'application/xml; charset=utf-8', dav: '1' }
        response.writeHead(207, head).end(`<?xml version="1.0"?><multistatus xmlns="DAV:">${emptyFolder}</multistatus>`)
      })
      const source = { name: 'due', type: 'webdav', url: share.url, sync_interval: 86_400 }
      const { id: sourceId } = bodyOf<{ id: string }>(await caller.call('POST', '/api/sources', caller.json(source)))
      const syncs = async () => (await place.query(`select id from source_syncs where source_id = '${sourceId}'`)).length
      await expect.poll(syncs, { timeout: waitTimeoutMs, interval: 500 }).toBe(1)
      await expect.poll(async () => bodyOf<{ status: string }>(await caller.call('GET', `/api/sources/${sourceId}`)).status).toBe('active')
      await place.query(`update sources set next_sync = now() where id = '${sourceId}'`)
      await expect.poll(syncs, { timeout: waitTimeoutMs, interval: 500 }).toBe(2)

      await events.waitFor([...ledger.uploads.keys()])
      const { received } = await events.stop()
      expect([...ledger.uploads.keys()].filter((id) => received.get(id) !== 1)).toEqual([])

      const told = await trial.finish('one server and one worker', { timeoutMs: waitTimeoutMs, list: store.list })
      // What was on its way to the killed server has no answer, or 502 of the proxy.
      expect(told.problems.filter((problem) => !/^I11 .*: 502$/.test(problem))).toEqual([])
      expect(told).toMatchObject({ lost: 0, half: 0, duplicate: 0 })
      const [live] = await place.query<{ count: number }>('select count(*)::int as count from live_documents')
      expect(await (await fetch(`${url}/${index}/_count`)).json()).toMatchObject({ count: live!.count })
      expect(await syncs()).toBe(2)
      for (const one of [...workers.slice(1), ...servers]) expect(await one.stop()).toBe(0)
    },
  )
})
