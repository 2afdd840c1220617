/** Real OpenSearch nodes of a test, which can be killed and restarted on their data. */
import { spawnSync } from 'node:child_process'
import { chownSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environment } from '../../../src/config/environment.ts'
import { bareEnvironment } from '../processes/run.ts'
import { freePort } from './free-port.ts'
import { controlProgram, type SearchProgram } from './search-program.ts'

/** Folder of the program; empty if OPENSEARCH_HOME names none. */
export const home = environment().OPENSEARCH_HOME ?? ''
/** OpenSearch refuses to run as root: it runs as nobody then. */
export const account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

export interface OpenSearchNode extends SearchProgram {
  /** Starts or restarts it on its data; resolves when its cluster has a manager. */
  start(): Promise<void>
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
  const { controls, start } = controlProgram(`http://127.0.0.1:${settings['http.port']}`, folder)
  const all = {
    ...settings,
    'path.data': join(folder, 'data'),
    'path.logs': join(folder, 'logs'),
    'cluster.routing.allocation.disk.threshold_enabled': 'false',
    'indices.recovery.max_bytes_per_sec': '-1',
  }
  const env = bareEnvironment({ OPENSEARCH_JAVA_OPTS: `-Xms${heap} -Xmx${heap}`, HOME: folder, OPENSEARCH_TMPDIR: folder, ...javaHome() })
  return {
    ...controls,
    // The script becomes the Java process.
    start: () =>
      start(
        join(program, 'bin', 'opensearch'),
        Object.entries(all).map(([name, value]) => `-E${name}=${value}`),
        { options: { env, ...account }, healthPath: '/_cluster/health?timeout=1s', timeoutMs: 300_000 },
      ),
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
