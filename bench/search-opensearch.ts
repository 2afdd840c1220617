/**
 * How do OpenSearch and the embedded index compare? A part of bench/search.ts: the same documents are
 * indexed there, and the requests of each kind are sent to both engines in turn. Processor time, of dms, PostgreSQL and OpenSearch together, depends less
 * on what else the machine does than time by the clock.
 */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Table from 'cli-table3'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { openOpenSearch } from '../src/search/engines/opensearch/engine.ts'
import { buildServer } from '../src/server/http/assemble.ts'
import { listen } from '../src/server/listen.ts'
import { installOpenSearch } from '../test/support/servers/opensearch-program.ts'
import { openSearchNodes } from '../test/support/servers/opensearch-server.ts'
import { median, quantile } from './quantile.ts'

const version = '2.19.1'
const heap = '2g'

/** Runs `use` with the URL of a cluster: the given one, or a node that runs meanwhile. */
export async function withCluster(given: string | undefined, use: (url: string) => Promise<void>): Promise<void> {
  if (given) return use(given)
  const folder = await mkdtemp(join(tmpdir(), 'dms-opensearch-program-'))
  try {
    const program = await installOpenSearch(folder, version, (line) => console.log(line))
    if (program === null) return
    const [node] = await openSearchNodes(1, program, heap)
    try {
      await node!.start()
      await use(node!.url)
    } finally {
      await node!.remove()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

type Kinds<R> = readonly (readonly [name: string, requests: readonly R[]])[]

/**
 * Prints index time, size and the times of both engines. `embedded`: URL of the server with the embedded index; `flags`: its settings;
 * `processorTime`: seconds that dms and PostgreSQL have used so far.
 */
export async function measureOpenSearch<R>(
  cluster: string,
  embedded: string,
  flags: Readonly<Record<string, string | number | boolean>>,
  kinds: Kinds<R>,
  ask: (url: string, request: R) => Promise<unknown>,
  processorTime: () => number,
): Promise<void> {
  const index = `dms-bench-${randomUUID()}`
  const settings = {
    ...flags,
    ...{ 'search.engine': 'opensearch', 'search.opensearch_urls': cluster, 'search.opensearch_index': index },
    ...{ 'search.opensearch_replicas': 0, 'search.opensearch_timeout': '60s' },
  }
  const app = await openApp(loadConfig({ env: {}, flags: settings }).config, openLog({ level: 'error', format: 'json' }), {
    migrate: 'never',
    hasStatementTimeout: false,
  })
  try {
    const usedTime = async () => processorTime() + (await clusterTime(cluster))
    await load(app, cluster, usedTime)
    const server = await listen(buildServer(app), app.config)
    try {
      await compare(kinds, [embedded, server.url], ask, usedTime)
    } finally {
      await server.close(1000)
    }
  } finally {
    await app.close()
    await fetch(`${cluster}/${index}-*`, { method: 'DELETE' })
  }
}

/** Builds the index of OpenSearch alone, because the embedded one is there already. */
async function load({ db, config: { search }, log }: App, cluster: string, usedTime: () => Promise<number>): Promise<void> {
  const [start, before] = [performance.now(), await usedTime()]
  const engine = openOpenSearch({
    ...{ urls: search.opensearch_urls, username: '', password: '', caFile: '', timeout: search.opensearch_timeout, log, db },
    ...{ index: search.opensearch_index, batchSize: search.batch_size, mayCreate: async () => false },
    ...{ shards: search.opensearch_shards, replicas: 0, refreshInterval: search.opensearch_refresh_interval },
  })
  const next = await engine.rebuild()
  const documents = await db.selectFrom('documents').select('id').orderBy('id').execute()
  for (let from = 0; from < documents.length; from += search.batch_size)
    await next.put(documents.slice(from, from + search.batch_size).map(({ id }) => id))
  await next.complete()
  await next.swap()
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  const used = ((await usedTime()) - before).toFixed(0)
  await mergeSegments(cluster, search.opensearch_index)
  const stats = (await (await fetch(`${cluster}/${search.opensearch_index}/_stats/store`)).json()) as {
    _all: { primaries: { store: { size_in_bytes: number } } }
  }
  const bytes = stats._all.primaries.store.size_in_bytes / documents.length
  console.log(
    `OpenSearch: ${documents.length} documents indexed in ${seconds} s (${used} s of processor time); ${(bytes / 1000).toFixed(1)} kB each, merged`,
  )
}

/** Merges the index into one segment, as a task of the cluster: the merge of a large index may outlast a request. */
async function mergeSegments(cluster: string, index: string): Promise<void> {
  const url = `${cluster}/${index}/_forcemerge?max_num_segments=1&wait_for_completion=false`
  const { task } = (await (await fetch(url, { method: 'POST' })).json()) as { task: string }
  const isCompleted = async () => ((await (await fetch(`${cluster}/_tasks/${task}`)).json()) as { completed: boolean }).completed
  while (!(await isCompleted())) await sleep(1000)
}

/** Seconds of processor time that the nodes have used so far. */
async function clusterTime(cluster: string): Promise<number> {
  const answer = await fetch(`${cluster}/_nodes/stats/process?filter_path=nodes.*.process.cpu.total_in_millis`)
  const { nodes } = (await answer.json()) as { nodes: Record<string, { process: { cpu: { total_in_millis: number } } }> }
  return Object.values(nodes).reduce((sum, { process }) => sum + process.cpu.total_in_millis, 0) / 1000
}

async function compare<R>(
  kinds: Kinds<R>,
  urls: readonly [string, string],
  ask: (url: string, request: R) => Promise<unknown>,
  usedTime: () => Promise<number>,
): Promise<void> {
  const table = new Table({
    head: ['in turns', 'embedded p50', 'p95', 'processors, ms', 'OpenSearch p50', 'p95', 'processors, ms'],
    colAligns: ['left', ...Array.from({ length: 6 }, () => 'right' as const)],
  })
  for (const url of urls) for (const [, requests] of kinds) for (const request of requests.slice(0, 3)) await ask(url, request)
  for (const [name, requests] of kinds) {
    const columns: string[] = []
    for (const url of urls) {
      const times: number[] = []
      const before = await usedTime()
      for (const request of requests) {
        const start = performance.now()
        await ask(url, request)
        times.push(performance.now() - start)
      }
      const each = (((await usedTime()) - before) * 1000) / requests.length
      columns.push(...[median(times), quantile(times, 0.95), each].map((value) => value.toFixed(1)))
    }
    table.push([name, ...columns])
  }
  console.log(table.toString())
}
