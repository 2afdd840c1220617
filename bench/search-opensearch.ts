/**
 * How do OpenSearch and the embedded index compare? A part of bench/search.ts, which runs it where OPENSEARCH_URL names a cluster: the same documents are
 * indexed there, and each request is sent to both engines in turn.
 */
import { randomUUID } from 'node:crypto'
import Table from 'cli-table3'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { openOpenSearch } from '../src/search/engines/opensearch/engine.ts'
import { buildServer } from '../src/server/http/assemble.ts'
import { listen } from '../src/server/listen.ts'

type Kinds<R> = readonly (readonly [name: string, requests: readonly R[]])[]

/** Prints index time, size and the times of both engines. `embedded`: URL of the server with the embedded index; `flags`: its settings. */
export async function measureOpenSearch<R>(
  cluster: string,
  embedded: string,
  flags: Readonly<Record<string, string | number | boolean>>,
  kinds: Kinds<R>,
  ask: (url: string, request: R) => Promise<unknown>,
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
    await load(app, cluster)
    const server = await listen(buildServer(app), app.config)
    try {
      await compare(kinds, [embedded, server.url], ask)
    } finally {
      await server.close(1000)
    }
  } finally {
    await app.close()
    await fetch(`${cluster}/${index}-*`, { method: 'DELETE' })
  }
}

/** Builds the index of OpenSearch alone, because the embedded one is there already. */
async function load({ db, config: { search }, log }: App, cluster: string): Promise<void> {
  const start = performance.now()
  const engine = openOpenSearch({
    ...{ urls: search.opensearch_urls, username: '', password: '', caFile: '', timeout: search.opensearch_timeout, log, db },
    ...{ index: search.opensearch_index, batchSize: search.batch_size, mayCreate: async () => false },
    ...{ shards: search.opensearch_shards, replicas: 0, refreshInterval: search.opensearch_refresh_interval },
  })
  const cpu = process.cpuUsage()
  const next = await engine.rebuild()
  const documents = await db.selectFrom('documents').select('id').orderBy('id').execute()
  for (let from = 0; from < documents.length; from += search.batch_size)
    await next.put(documents.slice(from, from + search.batch_size).map(({ id }) => id))
  await next.complete()
  await next.swap()
  const seconds = ((performance.now() - start) / 1000).toFixed(0)
  const own = (process.cpuUsage(cpu).user / 1e6).toFixed(0)
  await fetch(`${cluster}/${search.opensearch_index}/_forcemerge?max_num_segments=1`, { method: 'POST' })
  const stats = (await (await fetch(`${cluster}/${search.opensearch_index}/_stats/store`)).json()) as {
    _all: { primaries: { store: { size_in_bytes: number } } }
  }
  const bytes = stats._all.primaries.store.size_in_bytes / documents.length
  console.log(
    `OpenSearch: ${documents.length} documents indexed in ${seconds} s (${own} s of processor time of dms); ${(bytes / 1000).toFixed(1)} kB each, merged`,
  )
}

async function compare<R>(
  kinds: Kinds<R>,
  urls: readonly [string, string],
  ask: (url: string, request: R) => Promise<unknown>,
): Promise<void> {
  const table = new Table({
    head: ['in turns', 'embedded p50', 'p95, ms', 'OpenSearch p50', 'p95, ms'],
    colAligns: ['left', ...Array.from({ length: 4 }, () => 'right' as const)],
  })
  for (const [name, requests] of kinds) {
    const times: [number[], number[]] = [[], []]
    for (const request of requests)
      for (const [nth, url] of urls.entries()) {
        const start = performance.now()
        await ask(url, request)
        times[nth]!.push(performance.now() - start)
      }
    const columns = times.flatMap((all) => {
      const sorted = all.toSorted((one, other) => one - other)
      return [0.5, 0.95].map((share) => (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN).toFixed(1))
    })
    table.push([name, ...columns])
  }
  console.log(table.toString())
}
