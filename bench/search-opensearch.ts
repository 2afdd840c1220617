/** OpenSearch as a peer of bench/search.ts. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { openOpenSearch } from '../src/search/engines/opensearch/engine.ts'
import { status } from '../src/search/reindex.ts'
import { buildServer } from '../src/server/http/assemble.ts'
import { listen } from '../src/server/listen.ts'
import { installOpenSearch } from '../test/support/servers/opensearch-program.ts'
import { openSearchNodes } from '../test/support/servers/opensearch-server.ts'
import type { Peer, PeerOptions } from './search-peers.ts'

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

/**
 * Gives `use` a server of dms that searches in the cluster, with the documents of `flags`. Those of an index that is kept are not indexed again.
 */
export async function withOpenSearch(
  cluster: string,
  { flags, keep, index, processorTime }: PeerOptions,
  use: (peer: Peer) => Promise<void>,
) {
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
    if ((await status(app)).drift > 0) await load(app, cluster, usedTime)
    const server = await listen(buildServer(app), app.config)
    try {
      await use({ name: 'OpenSearch', url: server.url, usedTime })
    } finally {
      await server.close(1000)
    }
  } finally {
    await app.close()
    if (!keep) await fetch(`${cluster}/${index}-*`, { method: 'DELETE' })
  }
}

/** Builds the index of OpenSearch alone, because the embedded one is there already. */
async function load({ db, config: { search }, log }: App, cluster: string, usedTime: () => Promise<number>): Promise<void> {
  const [start, before] = [performance.now(), await usedTime()]
  const engine = openOpenSearch({
    ...{ urls: search.opensearch_urls, username: '', password: '', caFile: '', timeoutMs: search.opensearch_timeout, log, db },
    ...{ index: search.opensearch_index, batchSize: search.batch_size, mayCreate: async () => false },
    ...{ shards: search.opensearch_shards, replicas: 0, refreshIntervalMs: search.opensearch_refresh_interval },
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
