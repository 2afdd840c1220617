/** Real OpenSearch nodes of a test, which can be killed and restarted on their data. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { environment } from '../../../src/config/environment.ts'
import { bareEnvironment } from '../processes/run.ts'
import { freePort } from './free-port.ts'

/** Folder of the program; empty if OPENSEARCH_HOME names none. */
export const home = environment().OPENSEARCH_HOME ?? ''
/** OpenSearch refuses to run as root: it runs as nobody then. */
export const account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

const startTimeoutMs = 300_000

export interface OpenSearchNode {
  readonly url: string
  /** Starts or restarts it on its data; resolves when its cluster has a manager. */
  start(): Promise<void>
  /** Kills its processes, as a power cut would. */
  kill(): Promise<void>
  freeze(): void
  thaw(): void
  /** Sends a request without dms; throws with the answer if it refuses. */
  ask<T>(method: string, path: string, body?: unknown): Promise<T>
  /** Kills it, and removes its data. */
  remove(): Promise<void>
}

/** Creates the nodes of a cluster without starting them. */
export async function openSearchNodes(count = 1, program = home, heap = '384m'): Promise<OpenSearchNode[]> {
  const ports = await Promise.all(Array.from({ length: count }, async () => [await freePort(), await freePort()] as const))
  const names = ports.map((_, nth) => `node-${nth}`)
  const seeds = ports.map(([, transport]) => `127.0.0.1:${transport}`)
  return Promise.all(
    ports.map(([http, transport], nth) =>
      node(program, heap, {
        'node.name': names[nth]!,
        'http.port': String(http),
        'transport.port': String(transport),
        ...(count === 1
          ? { 'discovery.type': 'single-node' }
          : { 'discovery.seed_hosts': seeds.join(','), 'cluster.initial_cluster_manager_nodes': names.join(',') }),
      }),
    ),
  )
}

async function node(program: string, heap: string, settings: Record<string, string>): Promise<OpenSearchNode> {
  // The folder of a test is private to root.
  const folder = await mkdtemp(join(account.uid === undefined ? tmpdir() : '/tmp', 'dms-opensearch-'))
  if (account.uid !== undefined) chownSync(folder, account.uid, account.gid)
  const url = `http://127.0.0.1:${settings['http.port']}`
  let running: { pid: number; exit: Promise<unknown> } | null = null

  const signal = (name: NodeJS.Signals) => running && process.kill(running.pid, name)
  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${url}${path}`, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }
  const kill = async () => {
    signal('SIGCONT')
    signal('SIGKILL')
    await running?.exit
    running = null
  }

  return {
    url,
    async start() {
      const all = {
        ...settings,
        'path.data': join(folder, 'data'),
        'path.logs': join(folder, 'logs'),
        'cluster.routing.allocation.disk.threshold_enabled': 'false',
        'indices.recovery.max_bytes_per_sec': '-1',
      }
      // The script becomes the Java process.
      const child = spawn(
        join(program, 'bin', 'opensearch'),
        Object.entries(all).map(([name, value]) => `-E${name}=${value}`),
        {
          env: bareEnvironment({ OPENSEARCH_JAVA_OPTS: `-Xms${heap} -Xmx${heap}`, HOME: folder, OPENSEARCH_TMPDIR: folder, ...javaHome() }),
          cwd: folder,
          stdio: 'ignore',
          ...account,
        },
      )
      const exit = once(child, 'exit')
      const started = { pid: child.pid ?? 0, exit }
      running = started
      void exit.then(() => {
        if (running === started) running = null
      })
      const until = performance.now() + startTimeoutMs
      while (!(await ask('GET', '/_cluster/health?timeout=1s').catch(() => null))) {
        if (child.exitCode !== null || performance.now() > until) throw new Error(`OpenSearch did not come up; see ${folder}/logs`)
        await sleep(200)
      }
    },
    kill,
    freeze: () => void signal('SIGSTOP'),
    thaw: () => void signal('SIGCONT'),
    ask,
    async remove() {
      await kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** OpenSearch does not search for a program `java`. */
function javaHome(): Record<string, string> {
  const found = java().home
  return found ? { OPENSEARCH_JAVA_HOME: found } : {}
}

/** Returns the Java that runs OpenSearch: OPENSEARCH_JAVA_HOME, JAVA_HOME, or the program `java`. Version 0: there is none. */
export function java(): { home: string | undefined; version: number } {
  const { OPENSEARCH_JAVA_HOME, JAVA_HOME } = environment()
  const given = OPENSEARCH_JAVA_HOME ?? JAVA_HOME
  const program = given ? join(given, 'bin', 'java') : 'java'
  const { stderr } = spawnSync(program, ['-XshowSettings:properties', '-version'], { encoding: 'utf8' })
  const property = (name: string) => new RegExp(`${name} = (.*)`).exec(stderr ?? '')?.[1]
  return { home: given ?? property('java\\.home'), version: Number(property('java\\.specification\\.version') ?? 0) }
}
