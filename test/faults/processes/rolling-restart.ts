/** F38: two servers behind a proxy and three workers are restarted one after the other under load. No request may fail. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasProgram } from '../../support/processes/run.ts'
import { freePort } from '../../support/servers/free-port.ts'
import { openRoundRobin } from '../../support/servers/round-robin.ts'
import { mixedLoad } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import type { Installation, RunningProcess } from '../installation.ts'
import { joinLive } from '../network/sockets.ts'

export const rollingRestart: Fault = {
  id: 'F38',
  name: 'two servers and three workers restarted in turn under load',
  run,
}

const env = { DMS_WORKER_EMBEDDED: 'false', DMS_DRAIN_DELAY: '2s' }

interface Proxy {
  name: string
  url: string
  /** Resolves when the proxy sends requests to a server that has started. */
  waitForServer(target: URL): Promise<unknown>
  /** Returns the messages of the proxy about failed requests, after its end. */
  problems?: readonly string[]
  close(): Promise<void>
}

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const ports = [installation.port, await freePort()] as const
  const serve = (port: number) => installation.start({ env, command: ['serve', '--port', String(port)] })
  const servers: RunningProcess[] = []
  for (const port of ports) servers.push(await serve(port))
  const startWorker = () => installation.startWorker({ env: { ...env, DMS_WORKER_CONCURRENCY: '1' } })
  const workers: RunningProcess[] = []
  for (let count = 0; count < 3; count++) workers.push(await startWorker())
  // The audit requests its data from the first server directly.
  const faultRun = await openFaultRun(installation)
  const { ledger, expect, notes } = faultRun
  const targets = ports.map((port) => new URL(`http://127.0.0.1:${port}`))
  const proxies: (() => Promise<Proxy>)[] = [() => openOwn(targets), ...(hasProgram('nginx') ? [() => openNginx(installation, ports)] : [])]
  if (proxies.length === 1) notes.push('there is no nginx: the proxy is a small one')
  let restarts = 0
  for (const open of proxies) {
    const proxy = await open()
    const through = await openFaultRun({ ...installation, url: proxy.url })
    const stop = new AbortController()
    // Events before the first subscription are not sent, so it precedes the load.
    const events = await followEvents(proxy.url, through.caller.token())
    const load = mixedLoad(through.caller, through.ledger, { signal: stop.signal, size: 1_000_000 })
    await sleep(1000)
    for (let round = 0; round < (isShort ? 1 : 5); round++) {
      for (const [nth, port] of ports.entries()) {
        expect((await servers[nth]?.stop()) === 0, `${proxy.name}: a server did not end well`)
        servers[nth] = await serve(port)
        // The proxy finds the server ready again before the next one stops.
        await proxy.waitForServer(targets[nth]!)
        restarts++
      }
      const nth = round % workers.length
      expect((await workers[nth]?.stop()) === 0, `${proxy.name}: a worker did not end well`)
      workers[nth] = await startWorker()
      restarts++
    }
    stop.abort()
    await load
    await events.waitFor([...through.ledger.uploads.keys()])
    for (const [id, upload] of through.ledger.uploads) ledger.uploads.set(id, upload)
    ledger.links.push(...through.ledger.links)
    ledger.acknowledged += through.ledger.acknowledged
    const answers = [...through.ledger.answers]
    const requests = answers.reduce((sum, [, count]) => sum + count, 0)
    const failed = answers.filter(([what]) => /(no answer|5\d\d)$/.test(what))
    expect(failed.length === 0, `${proxy.name}: of ${requests} requests failed ${JSON.stringify(failed)}`)
    notes.push(`${proxy.name}: ${requests} requests, ${failed.reduce((sum, [, count]) => sum + count, 0)} failed`)
    const { received, connections } = await events.stop()
    const ids = [...through.ledger.uploads.keys()]
    const mismatches = ids.flatMap((id, index) => (received.get(id) === 1 ? [] : [`upload ${index} ${received.get(id) ?? 0} times`]))
    expect(mismatches.length === 0, `${proxy.name}: of ${received.size} events these did not arrive once: ${mismatches.join(', ')}`)
    notes.push(`${proxy.name}: ${received.size} events, each once, over ${connections} connections`)
    await proxy.close()
    if (failed.length > 0) notes.push(...(proxy.problems ?? []).filter((line) => !line.includes('Connection refused')).slice(0, 5))
  }
  const result = await faultRun.finish(`${restarts} restarts`)
  for (const one of [...workers, ...servers]) await one.kill()
  return result
}

/** Receives the events of new documents on one connection after the other. */
export async function followEvents(url: string, token: string) {
  const received = new Map<string, number>()
  const { port } = new URL(url)
  let since: number | undefined
  let connections = 0
  let isStopped = false
  const follow = async () => {
    const socket = await joinLive(
      Number(port),
      token,
      ['document_created'],
      ({ type, seq, document_id }) => {
        if (type === 'subscribed') since ??= Number(seq)
        if (type !== 'document_created') return
        since = Number(seq)
        received.set(String(document_id), (received.get(String(document_id)) ?? 0) + 1)
      },
      since,
    ).catch(() => null)
    if (socket) connections++
    while (!isStopped && socket?.isOpen()) await sleep(20)
    socket?.tcp.destroy()
  }
  const following = (async () => {
    while (!isStopped) {
      await follow()
      await sleep(50)
    }
  })()
  while (since === undefined) await sleep(20)
  return {
    /** Waits until every document has an event, or for a minute. A busy machine delays events. */
    async waitFor(ids: readonly string[]) {
      for (let wait = 0; wait < 600 && !ids.every((id) => received.has(id)); wait++) await sleep(100)
      // Waits for duplicate events.
      await sleep(1000)
    },
    async stop() {
      isStopped = true
      await following
      return { received, connections }
    },
  }
}

async function openOwn(targets: readonly URL[]): Promise<Proxy> {
  const { url, close, isReady } = await openRoundRobin(targets)
  const waitForServer = async (target: URL) => {
    await sleep(1000)
    for (const end = performance.now() + 60_000; !isReady(target) && performance.now() < end; ) await sleep(50)
  }
  return { name: 'a proxy that asks /readyz', url, waitForServer, close }
}

/** nginx with the configuration of deploy/fleet. It detects a stopped server by a refused connection. */
async function openNginx({ folder }: Installation, ports: readonly number[]): Promise<Proxy> {
  const port = await freePort()
  const home = join(folder, 'nginx')
  await mkdir(home)
  const site = (await readFile(new URL('../../../deploy/fleet/nginx.conf', import.meta.url), 'utf8'))
    .replace(/resolver .*/, '')
    .replaceAll(' resolve ', ' ')
    .replace('serve-1:8080', `127.0.0.1:${ports[0]}`)
    .replace('serve-2:8080', `127.0.0.1:${ports[1]}`)
    .replace('listen 8080', `listen 127.0.0.1:${port}`)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${home}/${name};`).join(' ')
  await writeFile(
    join(home, 'nginx.conf'),
    `${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; worker_processes 1; pid ${home}/pid; error_log ${home}/error.log;
events {}
http { access_log off; ${temporary} ${site} }
`,
  )
  const child = spawn('nginx', ['-p', home, '-c', join(home, 'nginx.conf'), '-e', join(home, 'error.log')], { stdio: 'ignore' })
  const url = `http://127.0.0.1:${port}`
  const problems: string[] = []
  for (let round = 0; round < 1200 && !(await fetch(`${url}/healthz`).catch(() => null))?.ok; round++) await sleep(50)
  return {
    name: 'nginx',
    url,
    waitForServer: () => sleep(1000),
    problems,
    async close() {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
      problems.push(...(await readFile(join(home, 'error.log'), 'utf8')).split('\n').filter((line) => line.includes('[error]')))
    },
  }
}
