/** Meilisearch as a peer of bench/search.ts. */
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { startRebuild } from '../src/search/engines/meilisearch/rebuild.ts'
import { openServer } from '../src/search/engines/meilisearch/server.ts'
import { status } from '../src/search/reindex.ts'
import { buildServer } from '../src/server/http/assemble.ts'
import { listen } from '../src/server/listen.ts'
import type { Peer, PeerOptions } from './search-peers.ts'

/**
 * Gives `use` a server of dms that searches in Meilisearch, with the documents of `flags`. Those of an index that is kept are not indexed again.
 * Processor time of Meilisearch counts if its metrics are enabled (`--experimental-enable-metrics`); otherwise it is unknown.
 */
export async function withMeilisearch(
  url: string,
  apiKey: string,
  { flags, keep, index, processorTime }: PeerOptions,
  use: (peer: Peer) => Promise<void>,
) {
  const settings = {
    ...flags,
    ...{ 'search.engine': 'meilisearch', 'search.url': url, 'search.api_key': apiKey, 'search.index': index, 'search.timeout': '60s' },
  }
  const app = await openApp(loadConfig({ env: {}, flags: settings }).config, openLog({ level: 'error', format: 'json' }), {
    migrate: 'never',
    hasStatementTimeout: false,
  })
  const ask = (method: string, path: string) => fetch(`${url}${path}`, { method, headers: { authorization: `Bearer ${apiKey}` } })
  try {
    const ownTime = async () => {
      const found = /^process_cpu_seconds_total (\S+)/m.exec(await (await ask('GET', '/metrics')).text())
      return found ? Number(found[1]) : Number.NaN
    }
    const usedTime = async () => processorTime() + (await ownTime())
    if ((await status(app)).drift > 0) await load(app, ownTime, usedTime)
    const { databaseSize } = (await (await ask('GET', '/stats')).json()) as { databaseSize: number }
    console.log(`Meilisearch: ${(databaseSize / 1e6).toFixed(0)} MB, all indexes of the server together`)
    const server = await listen(buildServer(app), app.config)
    try {
      await use({ name: 'Meilisearch', url: server.url, usedTime })
    } finally {
      await server.close(1000)
    }
  } finally {
    await app.close()
    if (!keep) await ask('DELETE', `/indexes/${index}`)
  }
}

/** Builds the index of Meilisearch alone, because the embedded one is there already. */
async function load({ db, config, log }: App, ownTime: () => Promise<number>, usedTime: () => Promise<number>): Promise<void> {
  const { url, api_key: apiKey, index, timeout, batch_size: batchSize } = config.search
  const [start, ownBefore, before] = [performance.now(), await ownTime(), await usedTime()]
  const server = openServer({ url, apiKey, timeoutMs: timeout, maxResults: config.limits.search_max_results, log })
  const next = await startRebuild({ db, server, batchSize }, index)
  const documents = await db.selectFrom('documents').select('id').orderBy('id').execute()
  for (let from = 0; from < documents.length; from += batchSize) await next.put(documents.slice(from, from + batchSize).map(({ id }) => id))
  await next.complete()
  await next.swap()
  const [seconds, own, used] = [(performance.now() - start) / 1000, (await ownTime()) - ownBefore, (await usedTime()) - before]
  console.log(
    `Meilisearch: ${documents.length} documents indexed in ${seconds.toFixed(0)} s (${used.toFixed(0)} s of processor time, ${own.toFixed(0)} s of them in Meilisearch)`,
  )
}
